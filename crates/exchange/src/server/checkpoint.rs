//! When a server is copied for a checkpoint, and how a server resumes from a copy.
//!
//! The coordinator requests a checkpoint from all servers and names its step. In `sync` it sends
//! the request before the push that completes the step, and without that push no server can
//! complete it. So each server takes the checkpoint when all of its chunks have made the step and
//! none has made the next, and all copies together hold the parameters of one step. The other
//! modes have no such moment. There a server is copied when the request arrives, each chunk at its
//! own version, and the marks say which pushes are in the copy. At the end of a run the
//! coordinator may request the same step again, after other workers have pushed to some chunks:
//! then the server takes it once more.

use super::host::{Host, Level};
use super::marks::{ChunkMarks, ResumeState, SlotMark};
use super::state::{Outcome, Server};
use crate::Generation;
use crate::chunk::{Chunk, SlotState};

impl Server {
    /// How far each slot has come on each chunk.
    ///
    /// A pending push is not in the parameters, so it is not in the marks. Neither is a push that
    /// was dropped: the process that resumes from here makes another one in its place.
    pub fn marks(&self) -> Vec<ChunkMarks> {
        let mark = |state: &SlotState| {
            let SlotState { last_sequence, step, .. } = *state;
            if state.pending.is_some() || state.dropped {
                SlotMark { last_sequence: last_sequence - 1, step: step.saturating_sub(1) }
            } else {
                SlotMark { last_sequence, step }
            }
        };
        let chunk_marks = |chunk: &Chunk| {
            // With backups the other chunks follow chunk 0, once they have seen the push.
            let decider = if self.gate.chunk_zero_decides() { &self.chunks[0] } else { chunk };
            ChunkMarks { version: chunk.version, slots: decider.slots.iter().map(mark).collect() }
        };
        self.chunks.iter().map(chunk_marks).collect()
    }

    /// Where gradients travel as changes: copies what the server knows of a slot's gradient, of the
    /// pushes that the marks cover.
    pub fn copy_known(&self, slot: usize, out: &mut [f32]) {
        for chunk in &self.chunks {
            let (place, known) = (&mut out[chunk.range.clone()], &chunk.slots[slot].known);
            if known.is_empty() {
                place.fill(0.0);
            } else {
                place.copy_from_slice(known);
            }
        }
    }

    /// Restores what [`Server::copy_known`] has copied. Call this before the first connection.
    ///
    /// # Panics
    /// If the run has started.
    pub fn restore_known(&mut self, slot: usize, values: &[f32]) {
        assert!(!self.started, "the run has started");
        for chunk in &mut self.chunks {
            chunk.slots[slot].known = values[chunk.range.clone()].to_vec();
        }
    }

    /// Sets the generation of the run that this server belongs to. Call this before the first
    /// connection.
    ///
    /// # Panics
    /// If the run has started.
    pub fn enter_generation(&mut self, generation: Generation) {
        assert!(!self.started, "the run has started");
        self.generation = generation;
    }

    /// Ends this server, because a client knows of a newer generation: everything since that
    /// generation's checkpoint is void.
    pub(super) fn rewind(&mut self, to: Generation, host: &mut impl Host) {
        let text = match to.base {
            Some(step) => format!("the run goes back to the checkpoint of step {step}"),
            None => "the run goes back to its beginning".to_owned(),
        };
        host.note(Level::Warning, &format!("{text}: a server was lost"));
        self.outcome = Some(Outcome::Rewind(to));
    }

    /// Resumes at a checkpoint, whose parameters the store must already hold. Call this before
    /// the first connection.
    ///
    /// # Panics
    /// If the run has started, or the numbers of chunks or slots differ.
    pub fn resume(&mut self, from: &ResumeState) {
        assert!(!self.started, "the run has started");
        assert_eq!(self.chunks.len(), from.chunks.len(), "chunks");
        self.first_step = from.first_step;
        self.stop_at = self.stop_at.into_iter().chain(from.stop_at).min();
        for (chunk, marks) in self.chunks.iter_mut().zip(&from.chunks) {
            assert_eq!(chunk.slots.len(), marks.slots.len(), "slots");
            chunk.version = marks.version;
            for (state, mark) in chunk.slots.iter_mut().zip(&marks.slots) {
                (state.last_sequence, state.step) = (mark.last_sequence, mark.step);
                state.restored_sequence = mark.last_sequence;
            }
        }
    }

    /// Handles the coordinator's request for a checkpoint.
    ///
    /// The coordinator repeats the request after a lost connection. A checkpoint that was taken is
    /// not taken again then, because the copies of the servers would be too far apart. But at the
    /// end, when all workers have left and the step is the last, the parameters may have changed
    /// since; the host finds out whether they have.
    pub(super) fn request_checkpoint(&mut self, step: u64, host: &mut impl Host) {
        let is_end = self.members.all_out() && self.global_step() == step;
        let is_new =
            host.last_checkpoint().is_none_or(|last| step > last || step == last && is_end);
        if is_new {
            self.checkpoint_at = Some(step);
            self.take_checkpoint_if_due(host);
        }
    }

    #[inline]
    pub(super) fn take_checkpoint_if_due(&mut self, host: &mut impl Host) {
        let Some(step) = self.checkpoint_at else { return };
        // With backups the other workers may have passed the step without the coordinator.
        let version = self.chunks[0].version;
        let is_even = || version >= step && self.chunks.iter().all(|c| c.version == version);
        if self.is_cut_short && self.is_sync() && !(version == step && is_even()) {
            // Some chunks have made the step that the others abandoned, and none makes another.
            self.checkpoint_at = None;
            host.note(Level::Info, "no last checkpoint: the run ended in the middle of a step");
        } else if !self.is_sync() || self.members.all_out() || is_even() {
            self.checkpoint_at = None;
            host.checkpoint(step, self);
        }
    }
}
