//! The checkpoints of a run: finds them, verifies them, completes them and removes old ones.

use std::fs;
use std::io::{self, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use paceline_filemap::open_regular;
use paceline_model::kernels::all_finite;

use crate::buffer::FileSum;
use crate::error::CheckpointError;
use crate::manifest::{Manifest, ShardPiece, read_sealed, sync_dir, write_sealed};
use crate::remote::RemoteSource;

/// Bytes read at a time.
const READ_BYTES: usize = 4 << 20;

/// The directory of a run's checkpoints, and the files that count its generations.
#[derive(Clone, Debug)]
pub struct CheckpointDir {
    dir: PathBuf,
    pub(crate) generation: PathBuf,
    pub(crate) generation_lock: PathBuf,
    /// The task that keeps the checkpoints, if this one does not share its disk.
    pub(crate) remote: Option<RemoteSource>,
}

/// A checkpoint that has been verified.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Its directory.
    pub dir: PathBuf,
    /// Its contents.
    pub manifest: Manifest,
}

/// The record of the current generation in a directory, and the lock that orders its writers.
fn generation_files(dir: &Path) -> (PathBuf, PathBuf) {
    (dir.join("generation.json"), dir.join("generation.lock"))
}

impl CheckpointDir {
    /// The checkpoints in this directory, which need not exist yet. Generations are counted by
    /// files in it.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let (generation, generation_lock) = generation_files(&dir);
        Self { dir, generation, generation_lock, remote: None }
    }

    /// Counts generations by files in this directory instead.
    #[must_use]
    pub fn with_generations_in(self, dir: &Path) -> Self {
        let (generation, generation_lock) = generation_files(dir);
        Self { generation, generation_lock, ..self }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Where the checkpoint of a step is.
    pub fn place(&self, step: u64) -> PathBuf {
        self.dir.join(format!("step-{step:012}"))
    }

    /// Makes the directory for the checkpoint of a step.
    pub(crate) fn make_place(&self, step: u64) -> io::Result<PathBuf> {
        let place = self.place(step);
        fs::create_dir_all(&place)?;
        sync_dir(&self.dir)?;
        Ok(place)
    }

    /// The steps that have directories, the newest first.
    pub fn steps(&self) -> Vec<u64> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut steps: Vec<u64> = entries
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok())
            .collect();
        steps.sort_unstable_by(|left, right| right.cmp(left));
        steps
    }

    /// Whether the checkpoint of a step is complete.
    pub fn is_complete(&self, step: u64) -> bool {
        self.place(step).join(Manifest::FILE).exists()
    }

    /// The manifest of the checkpoint of a step, without reading its shards; the error says what is
    /// wrong with it.
    pub fn manifest(&self, step: u64) -> Result<Manifest, String> {
        if !self.is_complete(step) {
            return Err("not complete".into());
        }
        let manifest: Manifest = read_sealed(&self.place(step).join(Manifest::FILE))?;
        manifest.check().map_err(|why| format!("{}: {why}", Manifest::FILE))?;
        match manifest.info.step {
            own if own == step => Ok(manifest),
            other => Err(format!("{}: it is of step {other}", Manifest::FILE)),
        }
    }

    /// Reads every byte of the checkpoint of a step; the error says what is wrong with it.
    pub fn verify(&self, step: u64) -> Result<Checkpoint, String> {
        let dir = self.place(step);
        if !self.is_complete(step) {
            return Err("it is not complete: it has no manifest".into());
        }
        let manifest = self.manifest(step)?;
        for shard in &manifest.shards {
            let found = sum_up(&dir.join(&shard.file), shard.bytes);
            let wrong = match found {
                Err(error) => error.to_string(),
                Ok(FileSum { bytes, .. }) if bytes != shard.bytes => {
                    format!("it has {bytes} bytes, and should have {}", shard.bytes)
                }
                Ok(FileSum { crc32c, .. }) if format!("{crc32c:08x}") != shard.crc32c => {
                    "its checksum does not agree".into()
                }
                Ok(_) => match has_finite_values(&dir.join(&shard.file)) {
                    Ok(true) => continue,
                    Ok(false) => "some of its numbers are not finite: training had diverged".into(),
                    Err(error) => error.to_string(),
                },
            };
            return Err(format!("{}: {wrong}", shard.file));
        }
        Ok(Checkpoint { dir, manifest })
    }

    /// The newest sound checkpoint. `warn` receives why newer ones are skipped.
    pub fn newest(&self, warn: &mut dyn FnMut(&str)) -> Result<Checkpoint, CheckpointError> {
        if let Some(remote) = &self.remote {
            return self.fetch(remote, None);
        }
        for step in self.steps() {
            match self.verify(step) {
                Ok(checkpoint) => return Ok(checkpoint),
                Err(why) => warn(&format!("skipped the checkpoint of step {step}: {why}")),
            }
        }
        let dir = self.dir.display();
        Err(CheckpointError::Refused(format!(
            "{dir}: there is no complete checkpoint to resume from; a run writes them with \
             checkpoint.every_steps or checkpoint.every_seconds"
        )))
    }

    /// Sets checkpoints newer than `step` aside, so that nothing is overwritten when the run
    /// reaches those steps again.
    pub fn set_aside_after(&self, step: u64) -> Result<(), CheckpointError> {
        self.steps().into_iter().filter(|&newer| newer > step).try_for_each(|s| self.set_aside(s))
    }

    /// Sets the checkpoint of a step aside.
    pub(crate) fn set_aside(&self, step: u64) -> Result<(), CheckpointError> {
        let place = self.place(step);
        let aside = (1..).map(|n| place.with_extension(format!("aside-{n}")));
        let Some(aside) = aside.into_iter().find(|aside| !aside.exists()) else { return Ok(()) };
        match fs::rename(&place, &aside) {
            // Another task of the run was faster.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            moved => moved.map_err(CheckpointError::at("set aside", &place)),
        }
    }

    /// The files of the checkpoint of a step: those of its manifest, and the one that shard `index`
    /// has written for it.
    pub(crate) fn files(&self, step: u64, index: usize) -> Vec<String> {
        let place = self.place(step);
        // In this order: a piece is removed only after the manifest is written.
        let piece = read_sealed::<ShardPiece>(&place.join(piece_name(index))).ok();
        let manifest = read_sealed::<Manifest>(&place.join(Manifest::FILE)).ok();
        let shards = manifest.map(|manifest| manifest.shards).unwrap_or_default();
        shards.into_iter().chain(piece.map(|piece| piece.shard)).map(|shard| shard.file).collect()
    }

    /// A free name for a shard's file: neither a complete checkpoint of this step nor the shard's
    /// own piece of one uses it, so existing files stay whole until the new checkpoint is complete.
    pub(crate) fn free_name(&self, step: u64, index: usize, base: &str) -> String {
        let taken = self.files(step, index);
        let name = |n: u32| match n {
            1 => format!("{base}.safetensors"),
            n => format!("{base}-{n}.safetensors"),
        };
        (1..).map(name).find(|name| !taken.contains(name)).unwrap_or_else(|| name(1))
    }

    /// Completes the checkpoint of a step if all its shards are written; the task that writes the
    /// last shard does so. If a shard of a complete checkpoint is written again, the new manifest
    /// replaces the old one by rename, so that the checkpoint is whole at any moment.
    pub(crate) fn complete(
        &self,
        step: u64,
        index: usize,
        written: &ShardPiece,
        writer: &str,
    ) -> io::Result<bool> {
        let (place, info) = (self.place(step), &written.info);
        let path = place.join(Manifest::FILE);
        let old_files = self.files(step, index);
        let old = read_sealed::<Manifest>(&path).ok().filter(|old| old.info == *info);
        if info.shard_count > 1 {
            write_sealed(&place.join(piece_name(index)), writer, written)?;
        }
        let mut shards = Vec::new();
        for at in 0..info.shard_count {
            let piece = if at == index {
                Some(written.clone())
            } else {
                read_sealed(&place.join(piece_name(at))).ok()
            };
            let shard = piece.filter(|piece| piece.info == *info).map(|piece| piece.shard);
            match shard.or_else(|| old.as_ref()?.shards.get(at).cloned()) {
                Some(shard) => shards.push(shard),
                None => return Ok(self.is_complete(step)),
            }
        }
        let manifest = Manifest { info: info.clone(), shards };
        write_sealed(&path, writer, &manifest)?;
        let pieces = (0..info.shard_count).map(piece_name);
        let is_used = |file: &String| manifest.shards.iter().any(|shard| shard.file == *file);
        for file in pieces.chain(old_files.into_iter().filter(|file| !is_used(file))) {
            let _ = fs::remove_file(place.join(file));
        }
        Ok(true)
    }

    /// Removes all but the newest `keep` complete checkpoints, and older incomplete ones. The
    /// manifest goes first, so that a checkpoint is whole or none.
    pub(crate) fn prune(&self, keep: usize) -> io::Result<()> {
        let steps = self.steps();
        let complete = steps.iter().filter(|&&step| self.is_complete(step));
        let Some(&oldest) = complete.take(keep).last() else { return Ok(()) };
        for step in steps.into_iter().filter(|&step| step < oldest) {
            let place = self.place(step);
            let gone = fs::remove_file(place.join(Manifest::FILE)).and_then(|()| sync_dir(&place));
            for removed in [gone, fs::remove_dir_all(&place)] {
                match removed {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// The file name of a shard's piece of the manifest.
pub(crate) fn piece_name(index: usize) -> String {
    format!("shard-{index}.json")
}

/// Whether all numbers of a shard's file are finite.
fn has_finite_values(path: &Path) -> io::Result<bool> {
    let mut file = open_regular(path)?;
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    file.seek_relative(i64::try_from(u64::from_le_bytes(length)).map_err(io::Error::other)?)?;
    // One more number than the file may have, so that a short file needs little memory.
    let most = file.metadata()?.len() as usize / size_of::<f32>() + 1;
    let mut values = vec![0_f32; most.min(READ_BYTES / size_of::<f32>())];
    loop {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        let mut filled = 0;
        while let read @ 1.. = file.read(&mut bytes[filled..])? {
            filled += read;
        }
        if !all_finite(&values[..filled / size_of::<f32>()]) {
            return Ok(false);
        }
        if filled < size_of_val(&values[..]) {
            return Ok(true);
        }
    }
}

/// The length and the checksum of a file, which is read only if its length is `expected`.
pub(crate) fn sum_up(path: &Path, expected: u64) -> io::Result<FileSum> {
    let mut file = open_regular(path)?;
    let bytes = file.metadata()?.len();
    if bytes != expected {
        return Ok(FileSum { bytes, crc32c: 0 });
    }
    let mut chunk = vec![0; READ_BYTES.min(bytes as usize + 1)];
    let mut sum = FileSum { bytes: 0, crc32c: 0 };
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(sum),
            len => {
                sum.bytes += len as u64;
                sum.crc32c = crc32c::crc32c_append(sum.crc32c, &chunk[..len]);
            }
        }
    }
}
