//! The directory of a task that does not share a disk with the run's coordinator, and what the
//! coordinator does for it.
//!
//! A task with a directory of its own claims generations from the keeper, fetches the files of a
//! checkpoint that it needs, and delivers the shards that it writes. The keeper completes
//! checkpoints and removes old ones, in the same way as tasks that share a directory do. What is in
//! the task's own directory is a copy: of the checkpoint it started from, or of a shard until it is
//! delivered.

use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::buffer::FileSum;
use crate::dir::{Checkpoint, CheckpointDir, sum_up};
use crate::error::CheckpointError;
use crate::manifest::{Manifest, ShardEntry, parse_sealed, sync_dir};
use crate::remote::{DeliveredShard, RemoteCheckpoints, RemoteSource};

/// The folder of copies, in the directory of a task that does not share a disk.
const COPIES: &str = "fetched";

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
        let text = String::from_utf8(text).map_err(|_| refused("it is not text".into()))?;
        let manifest: Manifest = parse_sealed(&text).map_err(refused)?;
        manifest.check().map_err(refused)?;
        if step.is_some_and(|step| step != manifest.info.step) {
            return Err(refused(format!("it is of step {}", manifest.info.step)));
        }
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
        // The keys of a spread shard are not one range, so any of them may be needed.
        let is_needed =
            |shard: &&ShardEntry| manifest.info.is_spread || shard.overlaps(&remote.needed);
        for shard in manifest.shards.iter().filter(is_needed) {
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
    /// checkpoint if all shards are there, and then removes all but the newest `keep`. A file that
    /// is not what the task says it sent is refused.
    pub fn receive(
        &self,
        mut shard: DeliveredShard,
        incoming: &Path,
        keep: usize,
    ) -> io::Result<()> {
        let wrong = |why: String| io::Error::new(ErrorKind::InvalidData, why);
        shard.check().map_err(wrong)?;
        let FileSum { bytes, crc32c } = sum_up(incoming, shard.bytes())?;
        let entry = &shard.piece.shard;
        if bytes != entry.bytes || format!("{crc32c:08x}") != entry.crc32c {
            let _ = fs::remove_file(incoming);
            return Err(wrong("the shard was damaged on its way".into()));
        }
        let (step, info) = (shard.step(), shard.piece.info.clone());
        // Only a run without servers has no generations, so this would pass for every one.
        if info.generation == 0 && self.generation() > 0 {
            let _ = fs::remove_file(incoming);
            return Err(wrong("its checkpoint is of no generation of the run".into()));
        }
        self.seal(&info, || {
            shard.piece.shard.file = self.free_name(step, shard.index, &shard.name);
            let place = self.place(step);
            fs::File::open(incoming)?.sync_all()?;
            fs::rename(incoming, place.join(&shard.piece.shard.file))?;
            sync_dir(&place)?;
            let is_complete = self.complete(step, shard.index, &shard.piece, &shard.name)?;
            if is_complete { self.prune(keep) } else { Ok(()) }
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
