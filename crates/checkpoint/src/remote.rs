//! Checkpoints that another task keeps, for tasks that do not share its disk.
//!
//! A task with a directory of its own claims generations from the keeper, fetches the files of a
//! checkpoint that it needs, and delivers the shards that it writes. The keeper completes
//! checkpoints and removes old ones, in the same way as tasks that share a directory do. What is in
//! the task's own directory is a copy: of the checkpoint it started from, or of a shard until it is
//! delivered.

use std::fmt::Debug;
use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_exchange::Generation;

use crate::buffer::FileSum;
use crate::dir::{Checkpoint, CheckpointDir, sum_up};
use crate::error::CheckpointError;
use crate::generation::ServerNumber;
use crate::manifest::{Manifest, ShardEntry, ShardPiece, parse_sealed, sync_dir};

/// The folder of copies, in the directory of a task that does not share a disk.
const COPIES: &str = "fetched";

/// The checkpoints of a run, where another task keeps them.
pub trait RemoteCheckpoints: Debug + Send + Sync {
    /// The generation in which a server starts.
    fn claim(&self, server: ServerNumber) -> Result<Generation, CheckpointError>;

    /// A server enters a generation that another server has claimed.
    fn follow(&self, server: ServerNumber, to: Generation) -> Result<(), CheckpointError>;

    /// The manifest of the checkpoint of a step, or of the newest complete one, as its file has
    /// it; `None` if there is none.
    fn manifest(&self, step: Option<u64>) -> Result<Option<Vec<u8>>, CheckpointError>;

    /// Writes a file of the checkpoint of a step to a path.
    fn fetch(&self, step: u64, file: &str, to: &Path) -> io::Result<()>;

    /// Delivers a shard, whose file is at a path.
    fn deliver(&self, shard: &DeliveredShard, file: &Path) -> io::Result<()>;
}

/// A shard on its way to the task that keeps the checkpoints.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct DeliveredShard {
    /// The shard's number.
    pub index: usize,
    /// How many complete checkpoints are kept.
    pub keep: usize,
    /// The shard's file name, without its extension.
    pub name: String,
    pub(crate) piece: ShardPiece,
}

impl DeliveredShard {
    /// The step of its checkpoint.
    pub fn step(&self) -> u64 {
        self.piece.info.step
    }

    /// The length of its file.
    pub fn bytes(&self) -> u64 {
        self.piece.shard.bytes
    }

    /// Checks what a task that is not trusted to be correct has sent.
    fn check(&self) -> Result<(), String> {
        let ShardPiece { info, shard } = &self.piece;
        if self.index >= info.shard_count || !is_plain_name(&self.name) {
            return Err(format!("shard {} of {} is none", self.index, info.shard_count));
        }
        if shard.from > shard.to || self.keep == 0 {
            return Err("the shard is none".into());
        }
        Ok(())
    }
}

/// Whether this is the name of a file, without a path, that is not hidden.
pub fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=128).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_plain)
}

/// Where a task gets checkpoints from, and which parameters it needs of them.
#[derive(Clone, Debug)]
pub(crate) struct RemoteSource {
    pub(crate) checkpoints: Arc<dyn RemoteCheckpoints>,
    pub(crate) needed: Range<usize>,
}

impl CheckpointDir {
    /// Gets checkpoints from another task and delivers shards to it. This directory belongs to this
    /// task alone.
    #[must_use]
    pub fn with_remote(mut self, checkpoints: Arc<dyn RemoteCheckpoints>) -> Self {
        self.remote = Some(RemoteSource { checkpoints, needed: 0..usize::MAX });
        self
    }

    /// Needs only these of the flat parameters: shards without any of them are not fetched.
    #[must_use]
    pub fn needing(mut self, needed: Range<usize>) -> Self {
        self.remote.iter_mut().for_each(|remote| remote.needed = needed.clone());
        self
    }

    /// The checkpoint of a step, or the newest complete one, from the task that keeps it.
    pub(crate) fn fetch(
        &self,
        remote: &RemoteSource,
        step: Option<u64>,
    ) -> Result<Checkpoint, CheckpointError> {
        let name = step.map_or("a complete checkpoint".into(), |s| format!("the one of step {s}"));
        let none = || {
            let text = format!("the run's coordinator does not have {name} to resume from");
            CheckpointError::Refused(text)
        };
        let text = remote.checkpoints.manifest(step)?.ok_or_else(none)?;
        let refused = |why| CheckpointError::Refused(format!("the manifest of {name}: {why}"));
        let text = String::from_utf8(text).map_err(|_| refused("it is no text".into()))?;
        let manifest: Manifest = parse_sealed(&text).map_err(refused)?;
        manifest.check().map_err(refused)?;
        let step = manifest.info.step;
        let dir = self.copy_place(step);
        let fetched = self.fetch_files(remote, &manifest, &text);
        fetched.map_err(CheckpointError::at("fetch a checkpoint into", &dir))?;
        Ok(Checkpoint { dir, manifest })
    }

    /// Where a copy of the checkpoint of a step is. Shards that are being written lie elsewhere.
    fn copy_place(&self, step: u64) -> PathBuf {
        let name = self.place(step).file_name().unwrap_or_default().to_owned();
        self.path().join(COPIES).join(name)
    }

    /// Copies the files of a checkpoint that this task needs. Its other copies are removed.
    fn fetch_files(
        &self,
        remote: &RemoteSource,
        manifest: &Manifest,
        text: &str,
    ) -> io::Result<()> {
        let step = manifest.info.step;
        remove_place(&self.path().join(COPIES))?;
        let place = self.copy_place(step);
        fs::create_dir_all(&place)?;
        let is_needed = |shard: &&ShardEntry| {
            (shard.from as usize) < remote.needed.end && remote.needed.start < shard.to as usize
        };
        for shard in manifest.shards.iter().filter(is_needed) {
            if !is_plain_name(&shard.file) {
                return Err(io::Error::new(ErrorKind::InvalidData, "a shard's name is none"));
            }
            let path = place.join(&shard.file);
            remote.checkpoints.fetch(step, &shard.file, &path)?;
            let FileSum { bytes, crc32c } = sum_up(&path, shard.bytes)?;
            if bytes != shard.bytes || format!("{crc32c:08x}") != shard.crc32c {
                let text = format!("{} was damaged on its way", shard.file);
                return Err(io::Error::new(ErrorKind::InvalidData, text));
            }
        }
        fs::write(place.join(Manifest::FILE), text)
    }

    /// Delivers a shard that is in the directory of its step, and removes it there.
    pub(crate) fn deliver(&self, remote: &RemoteSource, shard: &DeliveredShard) -> io::Result<()> {
        let path = self.place(shard.step()).join(&shard.piece.shard.file);
        let delivered = remote.checkpoints.deliver(shard, &path);
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir(self.place(shard.step()));
        delivered
    }

    /// A directory for the file of a shard that another task delivers, and the file's temporary
    /// name in it.
    pub fn incoming(&self, shard: &DeliveredShard) -> io::Result<PathBuf> {
        let wrong = |why| io::Error::new(ErrorKind::InvalidData, why);
        shard.check().map_err(wrong)?;
        Ok(self.make_place(shard.step())?.join(format!("{}.incoming", shard.name)))
    }

    /// Takes a shard that another task has delivered to [`CheckpointDir::incoming`]: completes the
    /// checkpoint if all shards are there, and removes old ones. A file that is not what the task
    /// says it sent is refused.
    pub fn receive(&self, mut shard: DeliveredShard, incoming: &Path) -> io::Result<()> {
        let wrong = |why: String| io::Error::new(ErrorKind::InvalidData, why);
        shard.check().map_err(wrong)?;
        let FileSum { bytes, crc32c } = sum_up(incoming, shard.bytes())?;
        let entry = &shard.piece.shard;
        if bytes != entry.bytes || format!("{crc32c:08x}") != entry.crc32c {
            let _ = fs::remove_file(incoming);
            return Err(wrong("the shard was damaged on its way".into()));
        }
        let (step, info) = (shard.step(), shard.piece.info.clone());
        self.seal(&info, || {
            shard.piece.shard.file = self.free_name(step, shard.index, &shard.name);
            let place = self.place(step);
            fs::File::open(incoming)?.sync_all()?;
            fs::rename(incoming, place.join(&shard.piece.shard.file))?;
            sync_dir(&place)?;
            let is_complete = self.complete(step, shard.index, &shard.piece, &shard.name)?;
            if is_complete { self.prune(shard.keep) } else { Ok(()) }
        })?;
        // The run was rewound since the checkpoint was taken.
        let _ = fs::remove_file(incoming);
        Ok(())
    }
}

/// Removes a copy of a checkpoint.
fn remove_place(place: &Path) -> io::Result<()> {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
