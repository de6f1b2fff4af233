//! The copies of a run in a place.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use paceline_checkpoint::{
    CheckpointDir, CheckpointError, DeliveredShard, Manifest, RemoteCheckpoints, ServerNumber,
};
use paceline_exchange::Generation;

use super::store::FileStore;

/// What the names of folders of checkpoints begin with.
const STEP: &str = "step-";

/// The copies of a run in a place.
#[derive(Clone, Debug)]
pub struct StoredRun {
    pub(super) store: Arc<dyn FileStore>,
}

impl StoredRun {
    /// The copies in this place.
    pub fn new(store: Arc<dyn FileStore>) -> Self {
        Self { store }
    }

    /// The copied checkpoints: their steps and the names of their files.
    pub(super) fn checkpoints(&self) -> io::Result<BTreeMap<u64, Vec<String>>> {
        let mut found: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for name in self.store.list()? {
            let folder = name.split_once('/').and_then(|(folder, _)| folder.strip_prefix(STEP));
            if let Some(step) = folder.and_then(|step| step.parse().ok()) {
                found.entry(step).or_default().push(name);
            }
        }
        Ok(found)
    }

    /// The step of the newest copy that is complete.
    pub fn newest(&self) -> io::Result<Option<u64>> {
        let is_complete = |files: &[String]| files.iter().any(|name| is_manifest(name));
        let found = self.checkpoints()?.into_iter().rev();
        Ok(found.filter(|(_, files)| is_complete(files)).map(|(step, _)| step).next())
    }

    /// Brings back the newest copy, unless `checkpoints` has one that is as new. Returns its step.
    pub fn restore(&self, checkpoints: &CheckpointDir) -> Result<Option<u64>, CheckpointError> {
        let path = checkpoints.path();
        let cannot = |what: &str, path: &Path| {
            let what = format!("cannot {what} {}", path.display());
            move |source| CheckpointError::Io { what, source }
        };
        let newest = self.newest().map_err(cannot("find a copy for", path))?;
        let own = checkpoints.steps().into_iter().find(|&step| checkpoints.is_complete(step));
        let Some(step) = newest.filter(|&step| own.is_none_or(|own| own < step)) else {
            return Ok(None);
        };
        let remote = checkpoints.clone().with_remote(Arc::new(self.clone()));
        let fetched = remote.choose(Some(step), &mut |_| {})?;
        // Shards of a checkpoint of this step that was never complete.
        checkpoints.set_aside_after(step.saturating_sub(1))?;
        let place = checkpoints.place(step);
        fs::rename(&fetched.dir, &place).map_err(cannot("restore", &place))?;
        Ok(Some(step))
    }

    /// Brings back a file besides checkpoints, if there is a copy and no such file.
    pub fn restore_file(&self, name: &str, to: &Path) -> io::Result<()> {
        if to.exists() {
            return Ok(());
        }
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        let partial = to.with_extension("restored");
        match self.store.get(name, &partial).and_then(|()| fs::rename(&partial, to)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            restored => restored,
        }
    }

    /// The manifest of a copied checkpoint.
    fn read_manifest(&self, step: u64) -> io::Result<Vec<u8>> {
        self.store.read(&format!("{}/{}", folder(step), Manifest::FILE), Manifest::MAX_BYTES)
    }
}

/// The name of the folder with the checkpoint of a step.
pub(super) fn folder(step: u64) -> String {
    let place = CheckpointDir::new("").place(step);
    place.to_string_lossy().into_owned()
}

/// Whether this is the name of a manifest, without which a checkpoint is not complete.
pub(super) fn is_manifest(name: &str) -> bool {
    name.split_once('/').is_some_and(|(_, file)| file == Manifest::FILE)
}

impl RemoteCheckpoints for StoredRun {
    fn claim(&self, _server: ServerNumber) -> Result<Generation, CheckpointError> {
        Err(only_copies())
    }

    fn follow(&self, _server: ServerNumber, _to: Generation) -> Result<(), CheckpointError> {
        Err(only_copies())
    }

    fn manifest(&self, step: Option<u64>) -> Result<Option<Vec<u8>>, CheckpointError> {
        let Some(step) = step else { return Ok(None) };
        let what = || format!("cannot read the copy of the checkpoint of step {step}");
        let read = self.read_manifest(step);
        read.map(Some).map_err(|source| CheckpointError::Io { what: what(), source })
    }

    fn fetch(&self, step: u64, file: &str, to: &Path) -> io::Result<()> {
        self.store.get(&format!("{}/{file}", folder(step)), to)
    }

    fn deliver(&self, _shard: &DeliveredShard, _file: &Path) -> io::Result<()> {
        Err(io::Error::other("copies are made of complete checkpoints"))
    }
}

fn only_copies() -> CheckpointError {
    CheckpointError::Refused("a place for copies counts no generations".into())
}
