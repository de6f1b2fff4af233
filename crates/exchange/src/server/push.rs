//! From a push to its answer: the hot path.
//!
//! A push is new, or has been here before, or breaks the protocol. A new one goes where the
//! gate sends it; then whatever has become possible by it happens. Nothing here allocates once
//! the first steps are made, and nothing is looked up but by index.

use super::{Server, Violation};
use crate::chunk::{AwaitedReply, Chunk, PendingGradient};
use crate::gate::{Decision, Push, Ready};
use crate::members::Standing;
use crate::{
    ConnId, Flags, FrameBody, FrameKind, GradientStage, Header, Host, ServerPhase, Store,
    WINDOW_CHUNKS,
};

impl Server {
    /// Handles one chunk of one gradient; of a sparse model, the gradient of the keys that the
    /// slot had asked for, and what it asks for next.
    pub(super) fn push(
        &mut self,
        slot: usize,
        header: &Header,
        gradient: &mut Vec<f32>,
        now_ms: u64,
        host: &mut impl Host,
    ) -> Result<(), Violation> {
        let index = self.check_push(slot, header)?;
        let requested = self.read_requested_keys(slot, header, gradient)?;
        let state = &self.chunks[index].slots[slot];
        if header.sequence <= state.last_sequence {
            self.stats.slots[slot].duplicates += 1;
            self.follow_chunk_zero(index, slot, header.sequence);
            let awaiting_reply = again(&self.chunks[index].slots[slot], header.sequence, now_ms);
            let keys = self.exchange_keys(slot, header.sequence, requested);
            self.key_pool.put_back(keys);
            self.chunks[index].slots[slot].awaiting_reply = Some(awaiting_reply);
            self.answer(index, host);
            return Ok(());
        }
        let push = Push { chunk: index, slot, step: header.step, sequence: header.sequence };
        let decision = self.gate.judge(self.view(), push);
        match decision {
            Decision::Violation(what) => return Err(what.into()),
            Decision::Wait { .. } if self.members[slot].pending >= WINDOW_CHUNKS => {
                return Err("more unanswered chunks than the window holds".into());
            }
            _ => {}
        }
        if index == 0 {
            self.stats.arrived(slot, now_ms);
            host.trace(GradientStage::Arrived, slot, header.step);
        }
        let keys = self.exchange_keys(slot, header.sequence, requested);
        let (dropped, wanted_version) = match decision {
            Decision::Violation(_) => unreachable!("it was turned away a moment ago"),
            Decision::Apply => {
                self.apply(index, &keys, gradient, host);
                self.key_pool.put_back(keys);
                self.count_applied(index, slot, header.version, header.count, 1);
                self.tell_applied(index, slot, header.step, host);
                (false, 0)
            }
            Decision::Wait { wanted_version } => {
                let gradient = self.pool.swap(gradient);
                let pending = PendingGradient {
                    keys,
                    gradient,
                    examples: header.count,
                    version: header.version,
                };
                self.chunks[index].slots[slot].pending = Some(pending);
                self.members[slot].pending += 1;
                (false, wanted_version)
            }
            Decision::Drop { wanted_version } => {
                self.key_pool.put_back(keys);
                self.stats.slots[slot].dropped += u64::from(index == 0);
                (true, wanted_version)
            }
        };
        let state = &mut self.chunks[index].slots[slot];
        (state.last_sequence, state.step) = (header.sequence, header.step);
        (state.dropped, state.wanted_version) = (dropped, wanted_version);
        state.awaiting_reply = Some(again(state, header.sequence, now_ms));
        self.settle(index, host);
        Ok(())
    }

    /// Where chunk 0 decides, a push that comes again is answered at the version that chunk 0 has by
    /// now, on every chunk: others may have made steps since, and nobody may go on with parameters
    /// of which chunk 0 is ahead.
    fn follow_chunk_zero(&mut self, index: usize, slot: usize, sequence: u64) {
        let first = &self.chunks[0];
        if !self.gate.chunk_zero_decides() || first.slots[slot].last_sequence != sequence {
            return;
        }
        let wanted_version =
            first.slots[slot].wanted_version.max(if index == 0 { first.version } else { 0 });
        let state = &mut self.chunks[index].slots[slot];
        state.wanted_version = state.wanted_version.max(wanted_version);
    }

    /// Checks all that does not depend on the mode, and gives the chunk's index.
    fn check_push(&self, slot: usize, header: &Header) -> Result<usize, Violation> {
        let index = header.chunk as usize;
        let chunk = self.chunks.get(index).ok_or("a chunk that this shard does not have")?;
        let state = &chunk.slots[slot];
        let is_past_the_end =
            self.is_sync() && self.stop_at.is_some_and(|stop_at| header.step >= stop_at);
        let broken = match () {
            () if header.kind != self.push_kind() => "a push of the other kind of model",
            () if !self.started => "a push before the start",
            () if self.members[slot].standing != Standing::In => "a push after leaving",
            () if state.awaiting_reply.is_some() => "a push before the last one was answered",
            () if header.sequence == 0 => "a push without a number",
            () if header.sequence > state.last_sequence + 1 => "a push that skips others",
            () if header.version > chunk.version => "a gradient of parameters yet to come",
            () if header.sequence > state.last_sequence && is_past_the_end => {
                "a push after the last step"
            }
            () => return Ok(index),
        };
        Err(broken.into())
    }

    /// Answers a request for one chunk: at once, but for a worker that takes a slot over.
    pub(super) fn pull(
        &mut self,
        slot: Option<usize>,
        conn: ConnId,
        header: &Header,
        now_ms: u64,
        host: &mut impl Host,
    ) -> Result<(), Violation> {
        let index = header.chunk as usize;
        if self.push_kind() != FrameKind::Push || index >= self.chunks.len() {
            return Err("a chunk that this shard does not have".into());
        }
        match slot.filter(|_| header.flags.contains(Flags::RESUME)) {
            Some(slot) => {
                self.check_begin(slot, header)?;
                self.resume_pull(slot, conn, header, now_ms, host);
            }
            None => self.send_params(conn, index, header.sequence, Flags::NONE, host),
        }
        Ok(())
    }

    /// Checks a pull after which pushes are to follow: it must go on where the slot stands, or
    /// the pushes could not be told from each other, and somebody would wait for ever.
    pub(super) fn check_begin(&self, slot: usize, header: &Header) -> Result<(), Violation> {
        let chunk = &self.chunks[header.chunk as usize];
        let state = &chunk.slots[slot];
        let next = header.sequence;
        let is_ahead = self.is_sync() && header.step > chunk.version + 1;
        let broken = match () {
            () if self.members[slot].standing == Standing::Left => "a pull to go on after leaving",
            () if state.awaiting_reply.is_some() => "a pull before the last push was answered",
            () if next == 0 || next < state.least_next() || next > state.last_sequence + 1 => {
                "a pull before a push that is not the next"
            }
            () if is_ahead => "a pull for a step yet to come",
            () => return Ok(()),
        };
        Err(broken.into())
    }

    /// Answers the first pull of a process that fills a slot, when its predecessor's last push
    /// would be answered.
    pub(super) fn resume_pull(
        &mut self,
        slot: usize,
        conn: ConnId,
        header: &Header,
        now_ms: u64,
        host: &mut impl Host,
    ) {
        let index = header.chunk as usize;
        let chunk = &self.chunks[index];
        let state = &chunk.slots[slot];
        let sequence = header.sequence;
        let has_it = state.last_sequence >= sequence;
        let is_behind = chunk.version.checked_sub(1) == Some(header.step);
        if has_it && self.store.remembers() && is_behind {
            return self.send_answer(conn, (index, slot), (sequence, Flags::NONE), true, host);
        }
        // In `sync` the pull waits for the step it is for; elsewhere the step says nothing.
        let wanted_version = if self.is_sync() { header.step } else { 0 };
        let flags = Flags::NONE;
        let awaiting_reply =
            AwaitedReply { sequence, wanted_version, gated: !has_it, flags, since_ms: now_ms };
        self.chunks[index].slots[slot].awaiting_reply = Some(awaiting_reply);
        self.answer(index, host);
    }

    /// Lets happen on a chunk, and on those that depend on it, what has become possible.
    pub(super) fn settle(&mut self, index: usize, host: &mut impl Host) {
        let before = self.chunks[0].version;
        self.settle_chunk(index, host);
        self.judge_stop();
        self.answer(index, host);
        if self.chunks[0].version > before && self.gate.chunk_zero_decides() {
            for other in (0..self.chunks.len()).filter(|&other| other != index) {
                self.settle_chunk(other, host);
                self.answer(other, host);
            }
        }
        // What has been answered has not been sent yet: nobody is further than this.
        self.take_checkpoint_if_due(host);
    }

    /// As [`Server::settle`] for all chunks, after the members have changed.
    pub(super) fn settle_all(&mut self, host: &mut impl Host) {
        for index in 0..self.chunks.len() {
            self.settle(index, host);
        }
    }

    /// Applies what a chunk holds if its time has come.
    fn settle_chunk(&mut self, index: usize, host: &mut impl Host) {
        let view = crate::gate::GateView { chunks: &self.chunks, members: &self.members };
        match self.gate.ready(view, index) {
            Ready::NotYet => {}
            Ready::AsMean => self.apply_mean(index, host),
            Ready::EachInTurn => self.apply_each(index, host),
        }
    }

    /// In `async` and `bounded`, begins to stop when the steps are done. Later pushes, which are
    /// on their way to the other servers too, are still applied.
    fn judge_stop(&mut self) {
        let is_reached = self.stop_at.is_some_and(|stop_at| self.chunks[0].version >= stop_at);
        self.stopping |= is_reached && !self.is_sync();
    }

    /// Sends the answers of a chunk whose time has come.
    fn answer(&mut self, index: usize, host: &mut impl Host) {
        for slot in 0..self.members.len() {
            let Some(awaiting_reply) = self.chunks[index].slots[slot].awaiting_reply else {
                continue;
            };
            let Some(conn) = self.members[slot].conn else { continue };
            if self.gate.may_answer(self.view(), index, slot, &awaiting_reply) {
                self.chunks[index].slots[slot].awaiting_reply = None;
                self.stats.answered(index, slot, awaiting_reply.since_ms, self.now_ms);
                if index == 0 {
                    host.trace(GradientStage::Answered, slot, self.chunks[0].slots[slot].step);
                }
                self.send_answer(
                    conn,
                    (index, slot),
                    (awaiting_reply.sequence, awaiting_reply.flags),
                    false,
                    host,
                );
            }
        }
    }

    /// Sends a slot what it waits for on a chunk: the chunk's parameters, or of a sparse model
    /// the values of the keys that it asked for; as they are, or as they were one update ago.
    pub(super) fn send_answer(
        &mut self,
        conn: ConnId,
        (index, slot): (usize, usize),
        (sequence, flags): (u64, Flags),
        before: bool,
        host: &mut impl Host,
    ) {
        host.phase(ServerPhase::Send);
        let chunk = &self.chunks[index];
        let version = chunk.version - u64::from(before);
        let flags = flags | self.stop_flag(version);
        let (kind, values) = match &mut self.store {
            Store::Dense(dense) => (FrameKind::Params, dense.values(&chunk.range, before)),
            Store::Sparse(sparse) => {
                (FrameKind::Values, sparse.values(chunk.slots[slot].pending_keys.newest(), before))
            }
        };
        host.send(
            conn,
            answer(kind, flags, index, version, sequence, values),
            FrameBody::Floats(values),
        );
    }

    /// Sends a chunk of a dense model to somebody who is not waited for.
    fn send_params(
        &self,
        conn: ConnId,
        index: usize,
        sequence: u64,
        flags: Flags,
        host: &mut impl Host,
    ) {
        host.phase(ServerPhase::Send);
        let Store::Dense(dense) = &self.store else { return };
        let Chunk { range, version, .. } = &self.chunks[index];
        let values = dense.values(range, false);
        let flags = flags | self.stop_flag(*version);
        let header = answer(FrameKind::Params, flags, index, *version, sequence, values);
        host.send(conn, header, FrameBody::Floats(values));
    }

    /// Whether who gets parameters of this version is to stop.
    pub(super) fn stop_flag(&self, version: u64) -> Flags {
        let stops = match self.is_sync() {
            true => self.stop_at.is_some_and(|stop_at| version >= stop_at),
            false => self.stopping,
        };
        if stops { Flags::STOP } else { Flags::NONE }
    }
}

/// The header of an answer.
pub(super) fn answer(
    kind: FrameKind,
    flags: Flags,
    chunk: usize,
    version: u64,
    sequence: u64,
    values: &[f32],
) -> Header {
    let mut header = Header::new(kind, values.len() * 4);
    (header.flags, header.chunk, header.sequence) = (flags, chunk as u32, sequence);
    (header.step, header.version) = (version, version);
    header
}

/// The answer to a slot's last push, or to one before it, which had been answered already.
fn again(state: &crate::chunk::SlotState, sequence: u64, now_ms: u64) -> AwaitedReply {
    let is_last = sequence == state.last_sequence;
    let flags = if is_last && state.dropped { Flags::DROPPED } else { Flags::NONE };
    let wanted_version = if is_last { state.wanted_version } else { 0 };
    AwaitedReply { sequence, wanted_version, gated: is_last, flags, since_ms: now_ms }
}
