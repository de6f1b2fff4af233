//! How a run ends: well, led by the chief, or badly, naming who is to blame.
//!
//! A worker that has no more to push leaves, and nobody waits for it any more. When all have
//! left, the chief collects the reports and says that the run is over. So every task knows when
//! it may exit, and a server never outlives its run.

use super::{Outcome, Server, Violation};
use crate::members::Standing;
use crate::{CONTROL_BYTES, ConnId, Flags, FrameBody, FrameKind, Header, Host, Level, TaskReport};

impl Server {
    /// Counts a worker out. Saying it twice, after a lost connection, is no harm.
    pub(super) fn leave(
        &mut self,
        slot: usize,
        conn: ConnId,
        report: &[u8],
        host: &mut impl Host,
    ) -> Result<(), Violation> {
        if !self.started {
            return Err("a leave before the start".into());
        }
        self.say(conn, FrameKind::Bye, &[], host);
        let member = &mut self.members[slot];
        if member.standing == Standing::Left {
            return Ok(());
        }
        member.standing = Standing::Left;
        self.reports.put(member.process, slot, report);
        for chunk in &mut self.chunks {
            chunk.slots[slot].awaiting_reply = None;
            chunk.slots[slot].pending_keys.forget();
        }
        self.settle_all(host);
        self.answer_collect(host);
        Ok(())
    }

    /// Begins to stop. Only server 0 does: one must decide, and all workers listen to it.
    ///
    /// In `sync` the step that is being made is finished first, so that all workers stop after
    /// the same step. A chief that says `Stop` before it pushes thus ends every run of one seed
    /// at the same bits.
    pub(super) fn stop(&mut self, reason: &[u8], host: &mut impl Host) {
        if self.config.index != 0 {
            return;
        }
        let reason = String::from_utf8_lossy(reason);
        host.note(Level::Info, &format!("the chief asks to stop: {reason}"));
        if self.is_sync() {
            let next = self.chunks[0].version + 1;
            self.stop_at = Some(self.stop_at.map_or(next, |stop_at| stop_at.min(next)));
        } else {
            self.stopping = true;
        }
    }

    /// Sends the reports to the chief if it asked for them and all workers are out.
    pub(super) fn answer_collect(&mut self, host: &mut impl Host) {
        let Some(chief) = self.members[0].conn else { return };
        if self.collect_since_ms.is_none() || !self.members.all_out() {
            return;
        }
        self.collect_since_ms = None;
        let mut reports = self.reports.list();
        reports.push(TaskReport { slot: None, bytes: host.report(&self.stats) });
        let bytes = TaskReport::encode_list(&reports);
        let pieces = bytes.chunks(CONTROL_BYTES);
        let last = pieces.len() - 1;
        for (index, piece) in pieces.enumerate() {
            let mut header = Header::new(FrameKind::Reports, piece.len());
            header.flags = if index < last { Flags::MORE } else { Flags::NONE };
            host.send(chief, header, FrameBody::Bytes(piece));
        }
    }

    /// Ends the run well, and tells everybody.
    pub(super) fn finish(&mut self, host: &mut impl Host) -> Result<(), Violation> {
        if !self.members.all_out() {
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

    /// Ends the run badly and tells everybody.
    pub(super) fn fail(&mut self, why: &str, host: &mut impl Host) {
        assert!(self.outcome.is_none(), "a run ends once");
        host.note(Level::Error, why);
        for conn in self.connections.known() {
            self.say(conn, FrameKind::Abort, &why.as_bytes()[..why.len().min(CONTROL_BYTES)], host);
        }
        self.outcome = Some(Outcome::Failed(why.to_owned()));
    }
}
