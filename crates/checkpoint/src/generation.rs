//! The generations of a run with servers, which a file counts.
//!
//! A server that starts enters the current generation unless it has been in it before. If it has,
//! something of it is lost: it claims the next generation, which starts from the newest complete
//! checkpoint, and the other servers rewind to that when they hear of it. Servers that start
//! together therefore start in the same generation, and no generation makes a step before every
//! server has entered it.
//!
//! The file ensures that every claim has a higher number than the one before, and that no
//! checkpoint of an older generation is completed later. A file lock orders servers that claim and
//! servers that complete a checkpoint.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use paceline_exchange::Generation;
use paceline_filemap::append_regular;
use serde::{Deserialize, Serialize};

use crate::dir::{Checkpoint, CheckpointDir};
use crate::error::CheckpointError;
use crate::manifest::{CheckpointInfo, read_sealed, write_sealed};
use crate::remote::RemoteSource;
use crate::server_number::ServerNumber;

/// How many generations may begin before a server that shares no disk hears of the first.
const MOST_UNHEARD: u64 = 64;

/// The contents of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ClaimedGeneration {
    generation: u64,
    /// The step of the checkpoint it starts from.
    base: Option<u64>,
    /// How many servers the run has, and which of them have entered this generation.
    #[serde(default)]
    servers: usize,
    #[serde(default)]
    entered: Vec<usize>,
}

impl ClaimedGeneration {
    /// Whether this server may enter: it has not been in this generation before.
    fn has_room_for(&self, server: ServerNumber) -> bool {
        self.generation > 0 && self.servers == server.count && !self.entered.contains(&server.index)
    }

    fn generation(&self) -> Generation {
        Generation { number: self.generation, base: self.base }
    }
}

fn damaged(path: &Path, why: &str) -> CheckpointError {
    CheckpointError::Refused(format!(
        "{} is damaged ({why}); it counts how often the run was started again. If no task of the \
         run is left, delete it: the run then continues from its newest complete checkpoint",
        path.display()
    ))
}

/// Where a server starts.
#[derive(Clone, Debug)]
pub struct GenerationStart {
    /// The generation it enters.
    pub generation: Generation,
    /// The checkpoint the generation starts from; `None` for the initial parameters.
    pub checkpoint: Option<Checkpoint>,
}

impl CheckpointDir {
    /// The number of the current generation; 0 if none was ever claimed.
    pub fn generation(&self) -> u64 {
        read_sealed::<ClaimedGeneration>(&self.generation).unwrap_or_default().generation
    }

    /// Whether the run's record has this generation, and the checkpoint that it starts from is
    /// complete. Where another task keeps the record, only what cannot be is refused here; that
    /// task decides when the generation is followed.
    pub fn knows(&self, to: Generation) -> bool {
        if self.remote.is_some() {
            return to.number <= self.generation().saturating_add(MOST_UNHEARD);
        }
        let Ok(claimed) = read_sealed::<ClaimedGeneration>(&self.generation) else { return false };
        let is_recorded = to.number < claimed.generation || to == claimed.generation();
        is_recorded && to.base.is_none_or(|step| self.is_complete(step))
    }

    /// Excludes all other servers while the returned file is open.
    fn lock_generation(&self) -> io::Result<File> {
        // The first server of a run may find no directory yet.
        self.generation_lock.parent().map_or(Ok(()), fs::create_dir_all)?;
        let file = append_regular(&self.generation_lock)?;
        match file.lock() {
            // A file system without locks cannot exclude anything.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
            locked => locked.map(|()| file),
        }
    }

    /// Where a server that starts begins. The checkpoint `known` has already been verified.
    /// Damaged newer checkpoints are set aside with a warning.
    pub fn claim(
        &self,
        server: ServerNumber,
        known: Option<&Checkpoint>,
        warn: &mut dyn FnMut(&str),
    ) -> Result<GenerationStart, CheckpointError> {
        let path = &self.generation;
        let cannot = |source| CheckpointError::Io {
            what: format!("cannot claim {}", path.display()),
            source,
        };
        if let Some(remote) = &self.remote {
            let generation = remote.checkpoints.claim(server)?;
            return self.enter(remote, server, generation);
        }
        let _lock = self.lock_generation().map_err(cannot)?;
        let mut claimed = ClaimedGeneration::default();
        if fs::exists(path).map_err(cannot)? {
            claimed = read_sealed(path).map_err(|why| damaged(path, &why))?;
        }
        let verify = |step| match known.filter(|known| known.manifest.info.step == step) {
            Some(known) => Ok(known.clone()),
            None => self.verify(step),
        };
        if claimed.has_room_for(server)
            && let Ok(found) = claimed.base.map(verify).transpose()
        {
            claimed.entered.push(server.index);
            write_sealed(path, "claim", &claimed).map_err(cannot)?;
            return Ok(GenerationStart { generation: claimed.generation(), checkpoint: found });
        }
        let found = self.newest_or_set_aside(&verify, warn)?;
        let base = found.as_ref().map(|checkpoint| checkpoint.manifest.info.step);
        let next = claimed.generation.checked_add(1);
        let generation = next.ok_or_else(|| damaged(path, "its count cannot rise"))?;
        let entered = vec![server.index];
        claimed = ClaimedGeneration { generation, base, servers: server.count, entered };
        write_sealed(path, "claim", &claimed).map_err(cannot)?;
        Ok(GenerationStart { generation: claimed.generation(), checkpoint: found })
    }

    /// Enters a generation that another task keeps the count of: notes it here, and fetches the
    /// checkpoint that it starts from.
    fn enter(
        &self,
        remote: &RemoteSource,
        server: ServerNumber,
        generation: Generation,
    ) -> Result<GenerationStart, CheckpointError> {
        let path = &self.generation;
        let Generation { number, base } = generation;
        let (servers, entered) = (server.count, vec![server.index]);
        let claimed = ClaimedGeneration { generation: number, base, servers, entered };
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| write_sealed(path, "claim", &claimed))
            .map_err(CheckpointError::at("write", path))?;
        let checkpoint = base.map(|step| self.fetch(remote, Some(step))).transpose()?;
        Ok(GenerationStart { generation, checkpoint })
    }

    /// The newest sound checkpoint. Damaged newer ones are set aside with a warning.
    fn newest_or_set_aside(
        &self,
        verify: &dyn Fn(u64) -> Result<Checkpoint, String>,
        warn: &mut dyn FnMut(&str),
    ) -> Result<Option<Checkpoint>, CheckpointError> {
        for step in self.steps().into_iter().filter(|&step| self.is_complete(step)) {
            match verify(step) {
                Ok(checkpoint) => return Ok(Some(checkpoint)),
                Err(why) => {
                    warn(&format!("skipped the checkpoint of step {step}: {why}"));
                    self.set_aside(step)?;
                }
            }
        }
        Ok(None)
    }

    /// Rewinds to the start of a generation that another server has claimed. Returns the checkpoint
    /// it starts from.
    ///
    /// # Errors
    /// If the run's record does not have the generation, or its checkpoint is damaged.
    pub fn follow(
        &self,
        server: ServerNumber,
        to: Generation,
    ) -> Result<Option<Checkpoint>, CheckpointError> {
        if let Some(remote) = &self.remote {
            remote.checkpoints.follow(server, to)?;
            return Ok(self.enter(remote, server, to)?.checkpoint);
        }
        let path = &self.generation;
        let cannot = |source| CheckpointError::Io {
            what: format!("cannot write {}", path.display()),
            source,
        };
        {
            let _lock = self.lock_generation().map_err(cannot)?;
            if !self.knows(to) {
                let why = format!("the run's record has no generation {}", to.number);
                return Err(CheckpointError::Refused(format!("{}: {why}", path.display())));
            }
            let mut claimed = read_sealed::<ClaimedGeneration>(path).unwrap_or_default();
            if claimed.generation == to.number {
                claimed.entered.push(server.index);
                write_sealed(path, "claim", &claimed).map_err(cannot)?;
            }
        }
        let Some(step) = to.base else { return Ok(None) };
        let wrong =
            |why| CheckpointError::Refused(format!("{}: {why}", self.place(step).display()));
        self.verify(step).map(Some).map_err(wrong)
    }

    /// Calls `complete`, which makes a checkpoint complete, unless the run was rewound since the
    /// checkpoint was taken.
    pub(crate) fn seal(
        &self,
        info: &CheckpointInfo,
        complete: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if info.generation == 0 && info.shard_count == 1 {
            return complete();
        }
        let _lock = self.lock_generation()?;
        let is_current = info.generation == 0 || info.generation == self.generation();
        if is_current { complete() } else { Ok(()) }
    }
}
