//! From a push to its answer: the hot path.
//!
//! A push is new, or a duplicate, or breaks the protocol. The gate decides what happens to a new
//! one; then the server does everything that the push has made possible. After the first steps
//! nothing here allocates, and every lookup is by index.

use super::host::{GradientStage, Host};
use super::state::Server;
use super::violation::{Checked, Violation};
use crate::chunk::{DueReply, PendingGradient, SlotState};
use crate::gate::{Decision, GateView, Push, Readiness};
use crate::members::MemberState;
use crate::{Flags, FrameKind, Header, WINDOW_CHUNKS};

impl Server {
    /// Handles one chunk of a gradient; for a sparse model, the gradient of the keys that the slot
    /// requested first, followed by the keys that it requests next. `is_finite` says that its
    /// numbers are known to be finite.
    pub(super) fn push(
        &mut self,
        slot: usize,
        header: &Header,
        gradient: &mut Vec<f32>,
        is_finite: bool,
        host: &mut impl Host,
    ) -> Checked {
        let index = self.check_push(slot, header)?;
        let next_keys = self.read_next_keys(slot, header, gradient)?;
        let sequence = header.sequence;
        if sequence <= self.chunks[index].slots[slot].last_sequence {
            self.push_again(index, slot, sequence, next_keys, host);
            return Ok(());
        }
        if !is_finite && !self.config.wire.is_finite(header, gradient) {
            return self.refuse_gradient(slot, header, host);
        }
        let push = Push { chunk: index, slot, step: header.step, sequence };
        let decision = if self.is_cut_short {
            Decision::Drop { wanted_version: 0 }
        } else {
            self.gate.judge(self.gate_view(), push)
        };
        match decision {
            Decision::Violation(what) => return Err(what.into()),
            // One more than the window, or workers with different orders could block each other.
            Decision::Wait { .. } if self.members[slot].pending > WINDOW_CHUNKS => {
                return Err("more unanswered chunks than the window holds".into());
            }
            _ => {}
        }
        if index == 0 {
            self.stats.arrived(slot, self.now_ms);
            host.trace(GradientStage::Arrived, slot, header.step);
        }
        let keys = self.exchange_keys(slot, sequence, next_keys);
        let (dropped, wanted_version) = match decision {
            Decision::Violation(_) => unreachable!("a violation returns above"),
            Decision::Apply => {
                self.widen(index, slot, gradient);
                self.apply(index, &keys, gradient, host);
                self.key_pool.put_back(keys);
                self.count_applied(index, slot, header.version, header.count, 1);
                self.trace_applied(index, slot, header.step, host);
                (false, 0)
            }
            Decision::Wait { wanted_version } => {
                let gradient = self.pool.swap(gradient);
                let (examples, version) = (header.count, header.version);
                let pending = PendingGradient { keys, gradient, examples, version };
                self.chunks[index].slots[slot].pending = Some(pending);
                self.members[slot].pending += 1;
                (false, wanted_version)
            }
            Decision::Drop { wanted_version } => {
                self.widen(index, slot, gradient);
                self.key_pool.put_back(keys);
                self.stats.slots[slot].dropped += u64::from(index == 0);
                (true, wanted_version)
            }
        };
        let state = &mut self.chunks[index].slots[slot];
        (state.last_sequence, state.step) = (sequence, header.step);
        (state.dropped, state.wanted_version) = (dropped, wanted_version);
        state.awaiting_reply = Some(reply_to(state, sequence, self.now_ms));
        self.settle(index, host);
        Ok(())
    }

    /// Ends the worker whose gradient is not finite. Nothing of the push is kept.
    fn refuse_gradient(&self, slot: usize, header: &Header, host: &mut impl Host) -> Checked {
        let (name, step) = (&self.members[slot].name, header.step);
        let what = format!(
            "its gradient of step {step} is not finite, so it is not applied; if training \
             diverges, try a smaller learning rate"
        );
        if let Some(conn) = self.members[slot].conn {
            let text = format!("{name}: {what}");
            self.send_control(conn, FrameKind::Abort, text.as_bytes(), host);
        }
        Err(Violation(what))
    }

    /// Answers a push that has arrived before, without applying it again.
    fn push_again(
        &mut self,
        index: usize,
        slot: usize,
        sequence: u64,
        next_keys: Option<Vec<u32>>,
        host: &mut impl Host,
    ) {
        self.stats.slots[slot].duplicates += 1;
        self.follow_chunk_zero(index, slot, sequence);
        let reply = reply_to(&self.chunks[index].slots[slot], sequence, self.now_ms);
        let keys = self.exchange_keys(slot, sequence, next_keys);
        self.key_pool.put_back(keys);
        self.chunks[index].slots[slot].awaiting_reply = Some(reply);
        self.answer(index, host);
    }

    /// Forgets the chunks of a slot's last push that wait to be applied, unless all chunks have it.
    ///
    /// The process that takes over the slot makes the push again. It may send the chunks in
    /// another order, and then the server would have to hold those of both.
    pub(super) fn discard_partial_push(&mut self, slot: usize) {
        let sequences = || self.chunks.iter().map(|chunk| chunk.slots[slot].last_sequence);
        let (lowest, highest) = (sequences().min(), sequences().max());
        if lowest == highest {
            return;
        }
        for chunk in &mut self.chunks {
            let state = &mut chunk.slots[slot];
            if let Some(pending) = state.pending.take() {
                self.pool.put_back(pending.gradient);
                self.key_pool.put_back(pending.keys);
                self.members[slot].pending -= 1;
                state.last_sequence -= 1;
                state.step = state.step.saturating_sub(1);
            }
        }
    }

    /// Raises the version at which a duplicate push is answered, where chunk 0 decides: every
    /// chunk waits for the version that chunk 0 has now. Other workers may have made steps since,
    /// and a worker must never continue with parameters that chunk 0 is ahead of.
    fn follow_chunk_zero(&mut self, index: usize, slot: usize, sequence: u64) {
        let first = &self.chunks[0];
        if !self.gate.chunk_zero_decides() || first.slots[slot].last_sequence != sequence {
            return;
        }
        let present = if index == 0 { first.version } else { 0 };
        let wanted_version = first.slots[slot].wanted_version.max(present);
        let state = &mut self.chunks[index].slots[slot];
        state.wanted_version = state.wanted_version.max(wanted_version);
    }

    /// Checks everything that does not depend on the mode, and returns the chunk's index.
    fn check_push(&self, slot: usize, header: &Header) -> Checked<usize> {
        let index = header.chunk as usize;
        let chunk = self.chunks.get(index).ok_or("a chunk that this shard does not have")?;
        let state = &chunk.slots[slot];
        let is_new = header.sequence > state.last_sequence;
        let is_past_the_end =
            self.is_sync() && self.stop_at.is_some_and(|stop_at| header.step >= stop_at);
        let rules = [
            (header.kind == self.push_kind(), "a push for the other kind of model"),
            (self.started, "a push before the start"),
            (self.members[slot].state == MemberState::Active, "a push after leaving"),
            (state.awaiting_reply.is_none(), "a push before the last one was answered"),
            (header.sequence != 0, "a push without a sequence"),
            (header.sequence <= state.last_sequence + 1, "a push that skips others"),
            (header.version <= chunk.version, "a gradient of parameters yet to come"),
            (!is_new || !is_past_the_end, "a push after the last step"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err((*what).into()),
            None => Ok(index),
        }
    }

    /// Does what has become possible on a chunk, and on those that depend on it.
    pub(super) fn settle(&mut self, index: usize, host: &mut impl Host) {
        let before = self.chunks[0].version;
        self.settle_chunk(index, host);
        self.stop_if_reached();
        self.answer(index, host);
        if self.chunks[0].version > before && self.gate.chunk_zero_decides() {
            for other in (0..self.chunks.len()).filter(|&other| other != index) {
                self.settle_chunk(other, host);
                self.answer(other, host);
            }
        }
        // The answers have not been sent yet, so no worker is ahead of this state.
        self.take_checkpoint_if_due(host);
    }

    /// Settles all chunks, after the members have changed.
    pub(super) fn settle_all(&mut self, host: &mut impl Host) {
        for index in 0..self.chunks.len() {
            self.settle(index, host);
        }
    }

    /// Applies the pending gradients of a chunk if the gate allows.
    fn settle_chunk(&mut self, index: usize, host: &mut impl Host) {
        if self.is_cut_short {
            return;
        }
        let view = GateView { chunks: &self.chunks, members: &self.members };
        match self.gate.ready(view, index) {
            Readiness::NotYet => {}
            Readiness::AsMean => self.apply_mean(index, host),
            Readiness::EachInTurn => self.apply_each(index, host),
        }
    }

    /// In `async` and `bounded`, begins to stop when the steps are done. Later pushes are still
    /// applied, because they are on their way to the other servers too.
    fn stop_if_reached(&mut self) {
        let is_reached = self.stop_at.is_some_and(|stop_at| self.chunks[0].version >= stop_at);
        self.stopping |= is_reached && !self.is_sync();
    }
}

/// The reply to a slot's last push, or to an earlier one, which has been answered before.
fn reply_to(state: &SlotState, sequence: u64, now_ms: u64) -> DueReply {
    let is_last = sequence == state.last_sequence;
    let flags = if is_last && state.dropped { Flags::DROPPED } else { Flags::NONE };
    let wanted_version = if is_last { state.wanted_version } else { 0 };
    DueReply { sequence, wanted_version, gated: is_last, flags, since_ms: now_ms }
}
