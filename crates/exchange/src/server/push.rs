//! From a push to its answer: the hot path.
//!
//! A push is new, or has been here before, or breaks the protocol. A new one goes where the
//! gate sends it; then whatever has become possible by it happens. Nothing here allocates once
//! the first steps are made, and nothing is looked up but by index.

use super::{Server, Violation};
use crate::gate::{Push, Ready, Verdict};
use crate::members::Standing;
use crate::part::{Held, Owed};
use crate::{Body, ConnId, Flags, Header, Host, Kind, ServerPhase, WINDOW_PARTS};

impl Server {
    /// Handles one part of one gradient.
    pub(super) fn push(
        &mut self,
        slot: usize,
        header: &Header,
        gradient: &mut Vec<f32>,
        now_ms: u64,
        host: &mut impl Host,
    ) -> Result<(), Violation> {
        let index = self.check_push(slot, header, gradient.len())?;
        let seat = &mut self.parts[index].seats[slot];
        if header.sequence <= seat.high {
            self.stats.slots[slot].duplicates += 1;
            seat.owed = Some(again(seat, header.sequence, now_ms));
            self.answer(index, host);
            return Ok(());
        }
        let push = Push { part: index, slot, step: header.step, sequence: header.sequence };
        let verdict = self.gate.judge(self.view(), push);
        let (dropped, wanted) = match verdict {
            Verdict::Violation(what) => return Err(what.into()),
            Verdict::Apply => {
                self.apply(index, gradient, host);
                self.count_applied(index, slot, header.version, header.count, 1);
                (false, 0)
            }
            Verdict::Hold { wanted } => {
                if self.members[slot].held >= WINDOW_PARTS {
                    return Err("more unanswered parts than the window holds".into());
                }
                let gradient = self.pool.swap(gradient);
                let held = Held { gradient, examples: header.count, version: header.version };
                self.parts[index].seats[slot].held = Some(held);
                self.members[slot].held += 1;
                (false, wanted)
            }
            Verdict::Drop { wanted } => {
                self.stats.slots[slot].dropped += u64::from(index == 0);
                (true, wanted)
            }
        };
        let seat = &mut self.parts[index].seats[slot];
        (seat.high, seat.step) = (header.sequence, header.step);
        (seat.dropped, seat.wanted) = (dropped, wanted);
        seat.owed = Some(again(seat, header.sequence, now_ms));
        self.settle(index, host);
        Ok(())
    }

    /// Checks all that does not depend on the mode, and gives the part's index.
    fn check_push(&self, slot: usize, header: &Header, len: usize) -> Result<usize, Violation> {
        let index = header.part as usize;
        let part = self.parts.get(index).ok_or("a part that this shard does not have")?;
        let seat = &part.seats[slot];
        let is_past_the_end =
            self.is_sync() && self.stop_at.is_some_and(|stop_at| header.step >= stop_at);
        let broken = match () {
            () if len != part.range.len() => "a gradient of the wrong length",
            () if !self.started => "a push before the start",
            () if self.members[slot].standing != Standing::In => "a push after leaving",
            () if seat.owed.is_some() => "a push before the last one was answered",
            () if header.sequence == 0 => "a push without a number",
            () if header.sequence > seat.high + 1 => "a push that skips others",
            () if header.version > part.version => "a gradient of parameters yet to come",
            () if header.sequence > seat.high && is_past_the_end => "a push after the last step",
            () => return Ok(index),
        };
        Err(broken.into())
    }

    /// Answers a request for one part: at once, but for a worker that takes a slot over.
    pub(super) fn pull(
        &mut self,
        slot: Option<usize>,
        conn: ConnId,
        header: &Header,
        now_ms: u64,
        host: &mut impl Host,
    ) -> Result<(), Violation> {
        let index = header.part as usize;
        let part = self.parts.get(index).ok_or("a part that this shard does not have")?;
        let Some(slot) = slot.filter(|_| header.flags.contains(Flags::RESUME)) else {
            self.send_params(conn, index, header.sequence, Flags::NONE, host);
            return Ok(());
        };
        let seat = &part.seats[slot];
        if seat.owed.is_some() {
            return Err("a pull before the last push was answered".into());
        }
        let sequence = header.sequence;
        let has_it = seat.high >= sequence;
        if has_it && !self.previous.is_empty() && part.version == header.step + 1 {
            self.send_previous(conn, index, sequence, host);
            return Ok(());
        }
        // In `sync` the pull waits for the step it is for; elsewhere the step says nothing.
        let wanted = if self.is_sync() { header.step } else { 0 };
        let flags = Flags::NONE;
        let owed = Owed { sequence, wanted, gated: !has_it, flags, since_ms: now_ms };
        self.parts[index].seats[slot].owed = Some(owed);
        self.answer(index, host);
        Ok(())
    }

    /// Lets happen on a part, and on those that depend on it, what has become possible.
    pub(super) fn settle(&mut self, index: usize, host: &mut impl Host) {
        let before = (self.parts[0].version, self.stopping);
        self.settle_part(index, host);
        self.judge_stop();
        self.answer(index, host);
        let stops = self.stopping && !before.1;
        let decides = self.parts[0].version > before.0 && self.gate.part_zero_decides();
        if stops || decides {
            for other in (0..self.parts.len()).filter(|&other| other != index) {
                self.settle_part(other, host);
                self.answer(other, host);
            }
        }
    }

    /// As [`Server::settle`] for all parts, after the members or the stop have changed.
    pub(super) fn settle_all(&mut self, host: &mut impl Host) {
        for index in 0..self.parts.len() {
            self.settle(index, host);
        }
    }

    /// Applies what a part holds if its time has come.
    fn settle_part(&mut self, index: usize, host: &mut impl Host) {
        let view = crate::gate::View {
            parts: &self.parts,
            members: &self.members,
            stopping: self.stopping,
        };
        match self.gate.ready(view, index) {
            Ready::NotYet => {}
            Ready::AsMean => self.apply_mean(index, host),
            Ready::EachInTurn => self.apply_each(index, host),
        }
    }

    /// In `async` and `bounded`, begins to stop when the steps are done. Later pushes, which are
    /// on their way to the other servers too, are still applied.
    fn judge_stop(&mut self) {
        let is_reached = self.stop_at.is_some_and(|stop_at| self.parts[0].version >= stop_at);
        self.stopping |= is_reached && !self.is_sync();
    }

    /// Sends the answers of a part whose time has come.
    fn answer(&mut self, index: usize, host: &mut impl Host) {
        for slot in 0..self.members.len() {
            let Some(owed) = self.parts[index].seats[slot].owed else { continue };
            let Some(conn) = self.members[slot].conn else { continue };
            if self.gate.may_answer(self.view(), index, slot, &owed) {
                self.parts[index].seats[slot].owed = None;
                self.send_params(conn, index, owed.sequence, owed.flags, host);
            }
        }
    }

    fn send_params(
        &self,
        conn: ConnId,
        index: usize,
        sequence: u64,
        flags: Flags,
        host: &mut impl Host,
    ) {
        let part = &self.parts[index];
        self.send_version(conn, index, part.version, &self.params, (sequence, flags), host);
    }

    /// Sends a part as it was one update ago.
    fn send_previous(&self, conn: ConnId, index: usize, sequence: u64, host: &mut impl Host) {
        let version = self.parts[index].version - 1;
        self.send_version(conn, index, version, &self.previous, (sequence, Flags::NONE), host);
    }

    fn send_version(
        &self,
        conn: ConnId,
        index: usize,
        version: u64,
        params: &[f32],
        (sequence, flags): (u64, Flags),
        host: &mut impl Host,
    ) {
        host.phase(ServerPhase::Send);
        let params = &params[self.parts[index].range.clone()];
        let stop = match self.is_sync() {
            true => self.stop_at.is_some_and(|stop_at| version >= stop_at),
            false => self.stopping,
        };
        let mut header = Header::new(Kind::Params, params.len() * 4);
        header.flags = flags | if stop { Flags::STOP } else { Flags::NONE };
        (header.part, header.sequence) = (index as u32, sequence);
        (header.step, header.version) = (version, version);
        host.send(conn, header, Body::Floats(params));
    }
}

/// The answer to a slot's last push, or to one before it, which had been answered already.
fn again(seat: &crate::part::Seat, sequence: u64, now_ms: u64) -> Owed {
    let is_last = sequence == seat.high;
    let flags = if is_last && seat.dropped { Flags::DROPPED } else { Flags::NONE };
    let wanted = if is_last { seat.wanted } else { 0 };
    Owed { sequence, wanted, gated: is_last, flags, since_ms: now_ms }
}
