//! Checkpoints: when a server is copied, and where one goes on that was restored from a copy.
//!
//! The chief asks all servers for a checkpoint and names its step. In `sync` it asks before the
//! push that makes the step, without which no server can make it: so each server takes it when
//! all of its chunks have made the step and none has made the next, and all copies together are
//! the parameters of one step. Elsewhere there is no such moment. There a server is copied when it
//! is asked, its chunks with the versions that they have, and the copy tells for every chunk and
//! slot which pushes are in it. The chief may come to the same step again at the end of a run, when
//! others have pushed to some chunks since: then it is taken once more.

use super::{Outcome, Server};
use crate::chunk::{Chunk, SlotState};
use crate::{Generation, Host, Level};

/// How far a slot had come on a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotMark {
    /// The sequence of its last push that is in the parameters, or was dropped; 0 for none.
    pub last_sequence: u64,
    /// The step of that push.
    pub step: u64,
}

/// How far all had come on a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkMarks {
    /// Updates made.
    pub version: u64,
    /// By slot.
    pub slots: Vec<SlotMark>,
}

/// Where a server goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeState {
    /// The step of the plan that slots begin with which have pushed nothing yet.
    pub first_step: u64,
    /// One for each chunk.
    pub chunks: Vec<ChunkMarks>,
    /// If the run had been asked to stop: after how many updates. Only server 0 is told.
    pub stop_at: Option<u64>,
}

impl ResumeState {
    /// Nobody has pushed anything, but so many updates have been made: after a checkpoint whose
    /// slots and shards were others.
    pub fn anew(version: u64, first_step: u64, chunks: usize, workers: usize) -> Self {
        let marks = ChunkMarks { version, slots: vec![SlotMark::default(); workers] };
        Self { first_step, chunks: vec![marks; chunks], stop_at: None }
    }
}

impl Server {
    /// How far everybody has come on every chunk.
    ///
    /// A push that waits for others is not in the parameters, so it is not in the marks. Nor is one
    /// that came too late: who goes on from here makes another in its place.
    pub fn marks(&self) -> Vec<ChunkMarks> {
        let mark = |state: &SlotState| match state.pending.is_some() || state.dropped {
            true => SlotMark {
                last_sequence: state.last_sequence - 1,
                step: state.step.saturating_sub(1),
            },
            false => SlotMark { last_sequence: state.last_sequence, step: state.step },
        };
        let chunk = |chunk: &Chunk| {
            // With backups the other chunks do as chunk 0 did, as far as they have heard of it.
            let slots = if self.gate.chunk_zero_decides() { &self.chunks[0] } else { chunk };
            ChunkMarks { version: chunk.version, slots: slots.slots.iter().map(mark).collect() }
        };
        self.chunks.iter().map(chunk).collect()
    }

    /// After how many updates the run is to stop, as far as this server is told.
    pub fn stop_at(&self) -> Option<u64> {
        self.stop_at
    }

    /// Of the shard, how many chunks there are.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// This server is in that generation of the run. To be said before anybody has connected.
    pub fn enter_generation(&mut self, generation: Generation) {
        assert!(!self.started, "the run has started");
        self.generation = generation;
    }

    /// Somebody knows of a newer generation: what this server has done since that one's checkpoint
    /// is void.
    pub(super) fn go_back(&mut self, to: Generation, host: &mut impl Host) {
        let text = match to.base {
            Some(step) => format!("the run goes back to the checkpoint of step {step}"),
            None => "the run goes back to its beginning".to_owned(),
        };
        host.note(Level::Warning, &format!("{text}: a server was lost"));
        self.outcome = Some(Outcome::Rewind(to));
    }

    /// Goes on where a checkpoint was taken, with the parameters of it. To be said before anybody
    /// has connected.
    ///
    /// # Panics
    /// If there are other chunks or slots than these.
    pub fn resume(&mut self, resume: &ResumeState) {
        assert!(!self.started, "the run has started");
        assert_eq!(self.chunks.len(), resume.chunks.len(), "chunks");
        self.first_step = resume.first_step;
        self.stop_at = self.stop_at.into_iter().chain(resume.stop_at).min();
        for (chunk, marks) in self.chunks.iter_mut().zip(&resume.chunks) {
            assert_eq!(chunk.slots.len(), marks.slots.len(), "slots");
            chunk.version = marks.version;
            for (state, mark) in chunk.slots.iter_mut().zip(&marks.slots) {
                (state.last_sequence, state.step) = (mark.last_sequence, mark.step);
                state.restored = mark.last_sequence;
            }
        }
    }

    /// The chief asks for a checkpoint. One that was taken is not taken again, when the chief
    /// asks once more after a lost connection: the copies of all servers would be of times that
    /// are far apart. But at the end, when all have left and the step is the last, something may
    /// have changed since; whether it has, the host sees.
    pub(super) fn ask_for_checkpoint(&mut self, step: u64, host: &mut impl Host) {
        let is_end = self.members.all_out() && self.global_step() == step;
        let is_new = match self.checkpoint_last {
            Some(last) => step > last || step == last && is_end,
            None => true,
        };
        if is_new {
            self.checkpoint_at = Some(step);
            self.take_checkpoint_if_due(host);
        }
    }

    #[inline]
    pub(super) fn take_checkpoint_if_due(&mut self, host: &mut impl Host) {
        let Some(step) = self.checkpoint_at else { return };
        // With backups the others may have gone on without the chief, past the step.
        let version = self.chunks[0].version;
        let is_even =
            || version >= step && self.chunks.iter().all(|chunk| chunk.version == version);
        if !self.is_sync() || self.members.all_out() || is_even() {
            self.checkpoint_at = None;
            if host.checkpoint(step, self) {
                self.checkpoint_last = Some(step);
            }
        }
    }
}
