//! The generations of a run with servers: `generation.json` in the run directory.
//!
//! A server that starts enters the present generation, if it has not been in it before. If it has,
//! something of it is lost: it claims the next one, with the newest complete checkpoint as its
//! beginning, and the others go back to that when they hear of it. So servers that start together
//! begin in the same generation, and no generation makes a step before every server has entered it.
//!
//! The file sees to it that every claim has a higher number than the one before, and that what was
//! begun in an older generation is never completed any more. All this is done under a lock, so that
//! a server that claims and one that completes a checkpoint do not cross each other's path.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use paceline_exchange::Generation;
use serde::{Deserialize, Serialize};

use super::manifest::{About, read_sealed, write_sealed};
use super::shelf::{Checkpoint, Shelf};
use crate::Failure;

/// What the file says.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Claimed {
    generation: u64,
    /// The step of the checkpoint that it begins with.
    base: Option<u64>,
    /// How many servers the run has, and which of them have entered this generation.
    #[serde(default)]
    servers: usize,
    #[serde(default)]
    entered: Vec<usize>,
}

impl Claimed {
    /// Whether this server, of so many, may enter: it has not been in this generation before.
    fn has_room_for(&self, (index, servers): (usize, usize)) -> bool {
        self.generation > 0 && self.servers == servers && !self.entered.contains(&index)
    }

    fn generation(&self) -> Generation {
        Generation { number: self.generation, base: self.base }
    }
}

impl Shelf {
    fn claims(&self) -> PathBuf {
        self.beside("generation.json")
    }

    /// The number of the present generation; 0 if none was ever claimed.
    pub(crate) fn generation(&self) -> u64 {
        read_sealed::<Claimed>(&self.claims()).unwrap_or_default().generation
    }

    /// Holds everybody else off for as long as the file is open.
    fn lock(&self) -> io::Result<File> {
        let path = self.beside("generation.lock");
        let file = File::options().append(true).create(true).open(path)?;
        match file.lock() {
            // Where there are no locks, nobody can be held off.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
            locked => locked.map(|()| file),
        }
    }

    /// Finds the generation for a server that starts, given its index and how many there are: which
    /// it is, and the checkpoint to begin with, if there is one. `known` has been verified already.
    /// Damaged ones that are newer are put aside, and that is told.
    pub fn claim(
        &self,
        server: (usize, usize),
        known: Option<&Checkpoint>,
        warn: &mut dyn FnMut(&str),
    ) -> Result<(Generation, Option<Checkpoint>), Failure> {
        let path = self.claims();
        let cannot =
            |source| Failure::Files { what: format!("cannot claim {}", path.display()), source };
        let _lock = self.lock().map_err(cannot)?;
        let mut claimed: Claimed = match fs::exists(&path).map_err(cannot)? {
            false => Claimed::default(),
            true => read_sealed(&path).map_err(Failure::Usage)?,
        };
        let verify = |step| match known.filter(|known| known.manifest.about.step == step) {
            Some(known) => Ok(known.clone()),
            None => self.verify(step),
        };
        if claimed.has_room_for(server)
            && let Ok(found) = claimed.base.map(verify).transpose()
        {
            claimed.entered.push(server.0);
            write_sealed(&path, "claim", &claimed).map_err(cannot)?;
            return Ok((claimed.generation(), found));
        }
        let mut found = None;
        for step in self.steps().into_iter().filter(|&step| self.is_complete(step)) {
            match verify(step) {
                Ok(checkpoint) => {
                    found = Some(checkpoint);
                    break;
                }
                Err(why) => {
                    warn(&format!("passed over the checkpoint of step {step}: {why}"));
                    self.set_aside(step)?;
                }
            }
        }
        let base = found.as_ref().map(|checkpoint| checkpoint.manifest.about.step);
        let (generation, entered) = (claimed.generation + 1, vec![server.0]);
        claimed = Claimed { generation, base, servers: server.1, entered };
        write_sealed(&path, "claim", &claimed).map_err(cannot)?;
        Ok((claimed.generation(), found))
    }

    /// Goes back to the beginning of a generation that another server has claimed, perhaps in a
    /// directory of its own.
    pub fn follow(
        &self,
        (index, servers): (usize, usize),
        to: Generation,
    ) -> Result<Option<Checkpoint>, Failure> {
        let path = self.claims();
        let cannot =
            |source| Failure::Files { what: format!("cannot write {}", path.display()), source };
        {
            let _lock = self.lock().map_err(cannot)?;
            let mut claimed = read_sealed::<Claimed>(&path).unwrap_or_default();
            if claimed.generation < to.number {
                let Generation { number: generation, base } = to;
                claimed = Claimed { generation, base, servers, entered: Vec::new() };
            }
            if claimed.generation == to.number {
                claimed.entered.push(index);
                write_sealed(&path, "claim", &claimed).map_err(cannot)?;
            }
        }
        let Some(step) = to.base else { return Ok(None) };
        let wrong = |why| Failure::Usage(format!("{}: {why}", self.place(step).display()));
        self.verify(step).map(Some).map_err(wrong)
    }

    /// Does what makes a checkpoint complete, unless the run has gone back since that was taken.
    pub(crate) fn seal(
        &self,
        about: &About,
        complete: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if about.generation == 0 && about.shard_count == 1 {
            return complete();
        }
        let _lock = self.lock()?;
        let is_present = about.generation == 0 || about.generation == self.generation();
        if is_present { complete() } else { Ok(()) }
    }
}
