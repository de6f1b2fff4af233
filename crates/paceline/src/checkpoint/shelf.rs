//! All checkpoints of a run: which there are, which are sound, which may go.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::manifest::{Manifest, Piece, read_sealed, sync_dir, write_sealed};
use crate::Failure;

/// What is read at a time.
const CHUNK_BYTES: usize = 4 << 20;

/// The directory of a run's checkpoints.
#[derive(Clone, Debug)]
pub struct Shelf {
    dir: PathBuf,
}

/// A checkpoint that has been looked at and is sound.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Its directory.
    pub dir: PathBuf,
    /// What is in it.
    pub manifest: Manifest,
}

impl Shelf {
    /// The checkpoints of the run in this directory.
    pub fn of(run: &Path) -> Self {
        Self { dir: run.join("checkpoints") }
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

    /// The steps that there are directories for, the newest first.
    pub fn steps(&self) -> Vec<u64> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut steps: Vec<u64> = entries
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok())
            .collect();
        steps.sort_unstable_by(|left, right| right.cmp(left));
        steps
    }

    /// Whether the checkpoint of a step has come to its end.
    pub fn is_complete(&self, step: u64) -> bool {
        self.place(step).join(Manifest::FILE).exists()
    }

    /// Looks at every byte of the checkpoint of a step; or what is wrong with it.
    pub fn verify(&self, step: u64) -> Result<Checkpoint, String> {
        let dir = self.place(step);
        if !self.is_complete(step) {
            return Err("it is not complete: it has no manifest".into());
        }
        let manifest: Manifest = read_sealed(&dir.join(Manifest::FILE))?;
        manifest.check().map_err(|why| format!("{}: {why}", Manifest::FILE))?;
        for shard in &manifest.shards {
            let found = sum_up(&dir.join(&shard.file), shard.bytes);
            let wrong = match found {
                Err(error) => error.to_string(),
                Ok((bytes, _)) if bytes != shard.bytes => {
                    format!("it has {bytes} bytes, and should have {}", shard.bytes)
                }
                Ok((_, crc)) if format!("{crc:08x}") != shard.crc32c => {
                    "its checksum does not agree".into()
                }
                Ok(_) => continue,
            };
            return Err(format!("{}: {wrong}", shard.file));
        }
        Ok(Checkpoint { dir, manifest })
    }

    /// The newest checkpoint that is sound. Why newer ones are passed over is told.
    pub fn newest(&self, warn: &mut dyn FnMut(&str)) -> Result<Checkpoint, Failure> {
        for step in self.steps() {
            match self.verify(step) {
                Ok(checkpoint) => return Ok(checkpoint),
                Err(why) => warn(&format!("passed over the checkpoint of step {step}: {why}")),
            }
        }
        let dir = self.dir.display();
        Err(Failure::Usage(format!("{dir}: there is no complete checkpoint to go on from")))
    }

    /// A file of the run, beside the directory of its checkpoints.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.dir.with_file_name(name)
    }

    /// Puts aside what is newer than a step, so that nothing is overwritten when the run gets
    /// there again.
    pub fn set_aside_after(&self, step: u64) -> Result<(), Failure> {
        self.steps().into_iter().filter(|&newer| newer > step).try_for_each(|s| self.set_aside(s))
    }

    /// Puts the checkpoint of a step aside.
    pub(super) fn set_aside(&self, step: u64) -> Result<(), Failure> {
        let place = self.place(step);
        let aside = (1..).map(|n| place.with_extension(format!("aside-{n}")));
        let Some(aside) = aside.into_iter().find(|aside| !aside.exists()) else { return Ok(()) };
        match fs::rename(&place, &aside) {
            // Another task of the run has been quicker.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            moved => moved.map_err(Failure::at("put aside", &place)),
        }
    }

    /// Completes the checkpoint of a step if all its shards are there. Whoever writes the last
    /// shard does; should two be the last, both write the same.
    pub(crate) fn complete(&self, step: u64, last: &Piece, writer: &str) -> io::Result<bool> {
        let place = self.place(step);
        let mut shards = Vec::new();
        for index in 0..last.about.shard_count {
            let piece = read_sealed::<Piece>(&place.join(piece_name(index)));
            let Some(piece) = piece.ok().filter(|piece| piece.about == last.about) else {
                return Ok(self.is_complete(step));
            };
            shards.push(piece.shard);
        }
        let manifest = Manifest { about: last.about.clone(), shards };
        write_sealed(&place.join(Manifest::FILE), writer, &manifest)?;
        for index in 0..last.about.shard_count {
            let _ = fs::remove_file(place.join(piece_name(index)));
        }
        Ok(true)
    }

    /// Removes all but the newest complete checkpoints, and what never was completed before
    /// those. A checkpoint ceases to be one before it begins to go.
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

/// What a shard's part of the manifest is called until all are there.
pub(crate) fn piece_name(index: usize) -> String {
    format!("shard-{index}.json")
}

/// The length and the checksum of a file. One that is too long is not read to its end.
fn sum_up(path: &Path, expected: u64) -> io::Result<(u64, u32)> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    if bytes != expected {
        return Ok((bytes, 0));
    }
    let mut chunk = vec![0; CHUNK_BYTES.min(bytes as usize + 1)];
    let (mut total, mut crc) = (0, 0);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok((total, crc)),
            len => {
                total += len as u64;
                crc = crc32c::crc32c_append(crc, &chunk[..len]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use paceline_exchange::{Mark, PartMarks};
    use paceline_model::{Group, Layout};
    use tempfile::TempDir;

    use super::*;
    use crate::checkpoint::keeper::{Keeper, Terms};
    use crate::checkpoint::manifest::{About, FORMAT, Origin, TensorEntry};

    fn layout() -> Layout {
        let mut layout = Layout::new();
        layout.push("weight", &[3, 2], Group::Weights);
        layout.push("bias", &[3], Group::Biases);
        layout
    }

    fn keeper(run: &Path, index: usize, count: usize, keep: usize) -> Keeper {
        let layout = layout();
        let tensors = layout.tensors().iter();
        let about = About {
            format: FORMAT,
            paceline: "0".into(),
            step: 0,
            mode: "sync".into(),
            seed: 1,
            slots: 1,
            batch: 10,
            common_step: true,
            origin: Origin::default(),
            job_digest: "0".into(),
            layout_digest: "0".into(),
            optimizer_slots: vec!["momentum".into()],
            tensors: tensors
                .map(|t| TensorEntry { name: t.name.clone(), shape: t.shape.clone() })
                .collect(),
            shard_count: count,
            generation: 0,
        };
        let shard = paceline_exchange::shard_ranges(layout.len(), count)[index].clone();
        let name = format!("ps-{index}");
        let terms = Terms { shelf: Shelf::of(run), keep, about, layout, index, shard, name };
        Keeper::start(terms, Box::new(|told| assert!(told.is_ok(), "{told:?}"))).unwrap()
    }

    /// Has the servers write a checkpoint of each step, one server after the other.
    fn write(run: &Path, servers: usize, steps: &[u64], keep: usize) {
        for index in 0..servers {
            let mut keeper = keeper(run, index, servers, keep);
            for &step in steps {
                let slots = vec![Mark { high: step, step: step - 1 }];
                let marks = vec![PartMarks { version: step, slots }];
                keeper.take(step, marks, true, |out| out.fill(step as f32));
            }
        }
    }

    fn files(dir: &Path) -> Vec<PathBuf> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn a_checkpoint_is_complete_once_all_servers_have_written_theirs() {
        let run = TempDir::new().unwrap();
        let shelf = Shelf::of(run.path());
        let slots = vec![Mark::default()];
        let marks = vec![PartMarks { version: 7, slots }];
        for index in [2, 0, 1] {
            assert!(!shelf.is_complete(7), "before server {index}");
            keeper(run.path(), index, 3, 3).take(7, marks.clone(), true, |out| out.fill(0.5));
        }
        let checkpoint = shelf.verify(7).unwrap();
        let shards = &checkpoint.manifest.shards;
        assert_eq!(
            shards.iter().map(|s| (s.from, s.to)).collect::<Vec<_>>(),
            [(0, 3), (3, 6), (6, 9)]
        );
        assert_eq!(files(&checkpoint.dir).len(), 4, "three shards and the manifest");
    }

    #[test]
    fn old_ones_go_only_when_enough_newer_ones_are_complete() {
        let run = TempDir::new().unwrap();
        let shelf = Shelf::of(run.path());
        write(run.path(), 1, &[10, 20, 30, 40], 2);
        assert_eq!(shelf.steps(), [40, 30]);
        // One that is begun and not complete makes none go.
        let mut half = keeper(run.path(), 0, 2, 2);
        half.take(50, Vec::new(), true, |out| out.fill(0.0));
        drop(half);
        assert_eq!(shelf.steps(), [50, 40, 30]);
        assert_eq!(shelf.newest(&mut |_| {}).unwrap().manifest.about.step, 40);
        // It goes when later ones are.
        write(run.path(), 1, &[60, 70], 2);
        assert_eq!(shelf.steps(), [70, 60]);
    }

    #[test]
    fn damage_anywhere_is_found_and_named_and_the_older_one_is_used() {
        for servers in [1, 2] {
            let run = TempDir::new().unwrap();
            let shelf = Shelf::of(run.path());
            write(run.path(), servers, &[10, 20], 3);
            for file in files(&shelf.place(20)) {
                let whole = fs::read(&file).unwrap();
                let name = file.file_name().unwrap().to_str().unwrap();
                let check = |bytes: &[u8], what: &str| {
                    fs::write(&file, bytes).unwrap();
                    let why = shelf.verify(20).unwrap_err();
                    assert!(why.contains(name), "{what}: {why}");
                };
                for len in (0..whole.len()).step_by(7) {
                    check(&whole[..len], &format!("{name} cut to {len}"));
                }
                for at in (0..whole.len()).step_by(5) {
                    let mut bytes = whole.clone();
                    bytes[at] ^= 1 << (at % 8);
                    check(&bytes, &format!("{name} changed at {at}"));
                }
                let mut said = Vec::new();
                let older = shelf.newest(&mut |text| said.push(text.to_owned())).unwrap();
                assert_eq!(older.manifest.about.step, 10);
                assert!(said.len() == 1 && said[0].contains("step 20"), "{said:?}");
                fs::remove_file(&file).unwrap();
                assert!(shelf.verify(20).is_err(), "{name} is gone");
                fs::write(&file, &whole).unwrap();
                assert!(shelf.verify(20).is_ok());
            }
        }
    }

    #[test]
    fn what_is_newer_is_put_aside_and_not_lost() {
        let run = TempDir::new().unwrap();
        let shelf = Shelf::of(run.path());
        for _ in 0..2 {
            write(run.path(), 1, &[10, 20, 30], 5);
            shelf.set_aside_after(10).unwrap();
            assert_eq!(shelf.steps(), [10]);
        }
        assert_eq!(files(&run.path().join("checkpoints")).len(), 5);
    }
}
