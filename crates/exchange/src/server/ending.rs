//! The end of a run: by the coordinator, or by a failure that names its cause.
//!
//! A worker that has no more to push leaves, and from then on no other worker waits for it. When
//! all have left, the coordinator collects the reports and ends the run. So every task knows when
//! it may exit, and a server never outlives its run.

use super::host::{Host, Level};
use super::state::{Outcome, Server};
use super::violation::Checked;
use crate::members::MemberState;
use crate::{CONTROL_BYTES, ConnId, Flags, FrameBody, FrameKind, Header, TaskReport};

impl Server {
    /// Handles a worker's `Leave`. A second one, after a lost connection, changes nothing.
    pub(super) fn leave(
        &mut self,
        slot: usize,
        conn: ConnId,
        report: &[u8],
        host: &mut impl Host,
    ) -> Checked {
        if !self.started {
            return Err("a leave before the start".into());
        }
        self.send_control(conn, FrameKind::Bye, &[], host);
        let member = &mut self.members[slot];
        if member.state == MemberState::Left {
            return Ok(());
        }
        member.state = MemberState::Left;
        self.reports.put(member.process, slot, report);
        for chunk in &mut self.chunks {
            chunk.slots[slot].awaiting_reply = None;
            chunk.slots[slot].pending_keys.clear();
        }
        self.settle_all(host);
        self.answer_collect(host);
        Ok(())
    }

    /// Begins to stop the run. Only server 0 does: one server must decide, and all workers follow
    /// it.
    ///
    /// In `sync` the current step is completed first, so that all workers stop after the same
    /// step. A coordinator that sends `Stop` before it pushes thus ends every run of one seed with
    /// the same bits.
    pub(super) fn stop(&mut self, reason: &[u8], host: &mut impl Host) {
        if self.config.index != 0 {
            return;
        }
        let reason = String::from_utf8_lossy(reason);
        host.note(Level::Info, &format!("the coordinator asks to stop: {reason}"));
        if self.is_sync() {
            let next = self.chunks[0].version + 1;
            self.stop_at = Some(self.stop_at.map_or(next, |stop_at| stop_at.min(next)));
        } else {
            self.stopping = true;
        }
    }

    /// Cuts the run short: the worker in `slot` abandons the current step, because the run must end
    /// and the step would take too long.
    ///
    /// No gradient is applied any more, neither those that wait nor those to come. All are dropped
    /// and answered at once, and the answers ask to stop. So every worker can leave, without a step
    /// that only some of them have contributed to.
    pub(super) fn cut_short(&mut self, slot: usize, host: &mut impl Host) {
        if self.is_cut_short {
            return;
        }
        let who = &self.members[slot].name;
        host.note(Level::Info, &format!("{who} cuts the run short, in the middle of a step"));
        self.is_cut_short = true;
        for index in 0..self.chunks.len() {
            for slot in 0..self.members.len() {
                let Some(pending) = self.take_pending(index, slot) else { continue };
                self.recycle(pending);
                let state = &mut self.chunks[index].slots[slot];
                state.dropped = true;
                if let Some(reply) = &mut state.awaiting_reply {
                    reply.flags = reply.flags | Flags::DROPPED;
                }
            }
            self.answer(index, host);
        }
    }

    /// Sends the reports to the coordinator if it collects them and all workers have left.
    pub(super) fn answer_collect(&mut self, host: &mut impl Host) {
        let Some(coordinator) = self.members[0].conn else { return };
        if self.collect_since_ms.is_none() || !self.members.all_out() {
            return;
        }
        self.collect_since_ms = None;
        let mut reports = self.reports.list();
        reports.push(TaskReport { slot: None, bytes: host.report(&self.stats, &self.store) });
        let bytes = TaskReport::encode_list(&reports);
        let pieces = bytes.chunks(CONTROL_BYTES);
        let last = pieces.len() - 1;
        for (index, piece) in pieces.enumerate() {
            let mut header = Header::new(FrameKind::Reports, piece.len());
            header.flags = if index < last { Flags::MORE } else { Flags::NONE };
            host.send(coordinator, header, FrameBody::Bytes(piece));
        }
    }

    /// Ends the run cleanly and sends `Bye` to every client.
    pub(super) fn finish(&mut self, host: &mut impl Host) -> Checked {
        if !self.members.all_out() && !self.is_cut_short {
            return Err("the end of a run that workers still take part in".into());
        }
        let mut header = Header::new(FrameKind::Bye, 0);
        header.flags = Flags::STOP;
        for conn in self.connections.known() {
            host.send(conn, header, FrameBody::Bytes(&[]));
        }
        host.note(Level::Info, "the run is over");
        self.outcome = Some(Outcome::Done);
        Ok(())
    }

    /// Fails the run and sends the reason to every client.
    pub(super) fn fail(&mut self, why: &str, host: &mut impl Host) {
        assert!(self.outcome.is_none(), "a run ends once");
        host.note(Level::Error, why);
        let bytes = &why.as_bytes()[..why.len().min(CONTROL_BYTES)];
        for conn in self.connections.known() {
            self.send_control(conn, FrameKind::Abort, bytes, host);
        }
        self.outcome = Some(Outcome::Failed(why.to_owned()));
    }
}
