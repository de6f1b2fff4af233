//! From a push to its answer: the hot path.
//!
//! A push is new, or has been here before, or breaks the protocol. A new one goes where the
//! gate sends it; then whatever has become possible by it happens. Nothing here allocates once
//! the first steps are made, and nothing is looked up but by index.

use super::{Server, Violation};
use crate::gate::{Push, Ready, Verdict};
use crate::members::Standing;
use crate::part::{Held, Owed, Part};
use crate::{Body, ConnId, Flags, Header, Host, Kind, ServerPhase, Store, Trail, WINDOW_PARTS};

impl Server {
    /// Handles one part of one gradient; of a sparse model, the gradient of the keys that the
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
        let asks = self.read_asked(slot, header, gradient)?;
        let seat = &self.parts[index].seats[slot];
        if header.sequence <= seat.high {
            self.stats.slots[slot].duplicates += 1;
            self.follow_part_zero(index, slot, header.sequence);
            let owed = again(&self.parts[index].seats[slot], header.sequence, now_ms);
            let keys = self.exchange_keys(slot, header.sequence, asks);
            self.key_pool.put_back(keys);
            self.parts[index].seats[slot].owed = Some(owed);
            self.answer(index, host);
            return Ok(());
        }
        let push = Push { part: index, slot, step: header.step, sequence: header.sequence };
        let verdict = self.gate.judge(self.view(), push);
        match verdict {
            Verdict::Violation(what) => return Err(what.into()),
            Verdict::Hold { .. } if self.members[slot].held >= WINDOW_PARTS => {
                return Err("more unanswered parts than the window holds".into());
            }
            _ => {}
        }
        if index == 0 {
            self.stats.arrived(slot, now_ms);
            host.trail(Trail::Arrived, slot, header.step);
        }
        let keys = self.exchange_keys(slot, header.sequence, asks);
        let (dropped, wanted) = match verdict {
            Verdict::Violation(_) => unreachable!("it was turned away a moment ago"),
            Verdict::Apply => {
                self.apply(index, &keys, gradient, host);
                self.key_pool.put_back(keys);
                self.count_applied(index, slot, header.version, header.count, 1);
                self.tell_applied(index, slot, header.step, host);
                (false, 0)
            }
            Verdict::Hold { wanted } => {
                let gradient = self.pool.swap(gradient);
                let held = Held { keys, gradient, examples: header.count, version: header.version };
                self.parts[index].seats[slot].held = Some(held);
                self.members[slot].held += 1;
                (false, wanted)
            }
            Verdict::Drop { wanted } => {
                self.key_pool.put_back(keys);
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

    /// Where part 0 decides, a push that comes again is answered at the version that part 0 has by
    /// now, on every part: others may have made steps since, and nobody may go on with parameters
    /// of which part 0 is ahead.
    fn follow_part_zero(&mut self, index: usize, slot: usize, sequence: u64) {
        let first = &self.parts[0];
        if !self.gate.part_zero_decides() || first.seats[slot].high != sequence {
            return;
        }
        let wanted = first.seats[slot].wanted.max(if index == 0 { first.version } else { 0 });
        let seat = &mut self.parts[index].seats[slot];
        seat.wanted = seat.wanted.max(wanted);
    }

    /// Checks all that does not depend on the mode, and gives the part's index.
    fn check_push(&self, slot: usize, header: &Header) -> Result<usize, Violation> {
        let index = header.part as usize;
        let part = self.parts.get(index).ok_or("a part that this shard does not have")?;
        let seat = &part.seats[slot];
        let is_past_the_end =
            self.is_sync() && self.stop_at.is_some_and(|stop_at| header.step >= stop_at);
        let broken = match () {
            () if header.kind != self.push_kind() => "a push of the other kind of model",
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
        if self.push_kind() != Kind::Push || index >= self.parts.len() {
            return Err("a part that this shard does not have".into());
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
        let part = &self.parts[header.part as usize];
        let seat = &part.seats[slot];
        let next = header.sequence;
        let is_ahead = self.is_sync() && header.step > part.version + 1;
        let broken = match () {
            () if self.members[slot].standing == Standing::Left => "a pull to go on after leaving",
            () if seat.owed.is_some() => "a pull before the last push was answered",
            () if next == 0 || next < seat.least_next() || next > seat.high + 1 => {
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
        let index = header.part as usize;
        let part = &self.parts[index];
        let seat = &part.seats[slot];
        let sequence = header.sequence;
        let has_it = seat.high >= sequence;
        let is_behind = part.version.checked_sub(1) == Some(header.step);
        if has_it && self.store.remembers() && is_behind {
            return self.send_answer(conn, (index, slot), (sequence, Flags::NONE), true, host);
        }
        // In `sync` the pull waits for the step it is for; elsewhere the step says nothing.
        let wanted = if self.is_sync() { header.step } else { 0 };
        let flags = Flags::NONE;
        let owed = Owed { sequence, wanted, gated: !has_it, flags, since_ms: now_ms };
        self.parts[index].seats[slot].owed = Some(owed);
        self.answer(index, host);
    }

    /// Lets happen on a part, and on those that depend on it, what has become possible.
    pub(super) fn settle(&mut self, index: usize, host: &mut impl Host) {
        let before = self.parts[0].version;
        self.settle_part(index, host);
        self.judge_stop();
        self.answer(index, host);
        if self.parts[0].version > before && self.gate.part_zero_decides() {
            for other in (0..self.parts.len()).filter(|&other| other != index) {
                self.settle_part(other, host);
                self.answer(other, host);
            }
        }
        // What has been answered has not been sent yet: nobody is further than this.
        self.take_checkpoint_if_due(host);
    }

    /// As [`Server::settle`] for all parts, after the members have changed.
    pub(super) fn settle_all(&mut self, host: &mut impl Host) {
        for index in 0..self.parts.len() {
            self.settle(index, host);
        }
    }

    /// Applies what a part holds if its time has come.
    fn settle_part(&mut self, index: usize, host: &mut impl Host) {
        let view = crate::gate::View { parts: &self.parts, members: &self.members };
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
                self.stats.answered(index, slot, owed.since_ms, self.now_ms);
                if index == 0 {
                    host.trail(Trail::Answered, slot, self.parts[0].seats[slot].step);
                }
                self.send_answer(conn, (index, slot), (owed.sequence, owed.flags), false, host);
            }
        }
    }

    /// Sends a slot what it waits for on a part: the part's parameters, or of a sparse model
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
        let part = &self.parts[index];
        let version = part.version - u64::from(before);
        let flags = flags | self.stop_flag(version);
        let (kind, values) = match &mut self.store {
            Store::Dense(dense) => (Kind::Params, dense.values(&part.range, before)),
            Store::Sparse(sparse) => {
                (Kind::Values, sparse.values(part.seats[slot].asked.newest(), before))
            }
        };
        host.send(
            conn,
            answer(kind, flags, index, version, sequence, values),
            Body::Floats(values),
        );
    }

    /// Sends a part of a dense model to somebody who is not waited for.
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
        let Part { range, version, .. } = &self.parts[index];
        let values = dense.values(range, false);
        let flags = flags | self.stop_flag(*version);
        let header = answer(Kind::Params, flags, index, *version, sequence, values);
        host.send(conn, header, Body::Floats(values));
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
    kind: Kind,
    flags: Flags,
    part: usize,
    version: u64,
    sequence: u64,
    values: &[f32],
) -> Header {
    let mut header = Header::new(kind, values.len() * 4);
    (header.flags, header.part, header.sequence) = (flags, part as u32, sequence);
    (header.step, header.version) = (version, version);
    header
}

/// The answer to a slot's last push, or to one before it, which had been answered already.
fn again(seat: &crate::part::Seat, sequence: u64, now_ms: u64) -> Owed {
    let is_last = sequence == seat.high;
    let flags = if is_last && seat.dropped { Flags::DROPPED } else { Flags::NONE };
    let wanted = if is_last { seat.wanted } else { 0 };
    Owed { sequence, wanted, gated: is_last, flags, since_ms: now_ms }
}
