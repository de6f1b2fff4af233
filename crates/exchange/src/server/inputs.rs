//! The inputs of a server: connections, frames and time.

use super::connections::ConnectedPeer;
use super::host::{Host, Level};
use super::state::Server;
use super::violation::{Checked, Violation};
use crate::members::{LostConnection, MemberState};
use crate::{ConnId, Flags, FrameBody, FrameKind, Header, OnLoss, Payload};

impl Server {
    /// A connection was opened.
    pub fn connection_opened(&mut self, conn: ConnId, now_ms: u64) {
        self.connections.add(conn, now_ms);
    }

    /// A frame arrived. The payload must have the length that the header states.
    pub fn frame_arrived(
        &mut self,
        conn: ConnId,
        header: &Header,
        payload: Payload<'_>,
        now_ms: u64,
        host: &mut impl Host,
    ) {
        let Some(peer) = self.connections.get(conn) else { return };
        if self.outcome.is_some() {
            return;
        }
        self.now_ms = now_ms;
        let result = match (peer, payload) {
            (ConnectedPeer::Worker(slot), payload) => {
                self.members[slot].heard_ms = now_ms;
                self.worker_frame(slot, conn, header, payload, host)
            }
            (ConnectedPeer::Stranger { .. }, Payload::Bytes(bytes))
                if header.kind == FrameKind::Hello =>
            {
                self.hello(conn, bytes, host)
            }
            (ConnectedPeer::Stranger { .. }, _) => Err("a frame before Hello".into()),
            (ConnectedPeer::Evaluator, payload) => match (header.kind, payload) {
                (FrameKind::Pull, _) => self.pull(None, conn, header, host),
                (FrameKind::PullKeys, Payload::Bytes(keys)) => {
                    self.pull_keys(None, conn, header, keys, host)
                }
                (FrameKind::Heartbeat, _) => Ok(()),
                (kind, _) => Err(Violation(format!("{kind:?} from an evaluator"))),
            },
            (ConnectedPeer::Process(_), _) if header.kind == FrameKind::Heartbeat => Ok(()),
            (ConnectedPeer::Process(_), _) => {
                Err("a process on the roster may send heartbeats only".into())
            }
        };
        if let Err(Violation(what)) = result {
            self.shut_out(conn, &what, now_ms, host);
        }
    }

    fn worker_frame(
        &mut self,
        slot: usize,
        conn: ConnId,
        header: &Header,
        payload: Payload<'_>,
        host: &mut impl Host,
    ) -> Checked {
        let is_coordinator = slot == 0;
        match (header.kind, payload) {
            (FrameKind::Push | FrameKind::PushKeys, Payload::Floats(gradient)) => {
                self.push(slot, header, gradient, false, host)
            }
            (FrameKind::Push, Payload::FiniteFloats(gradient)) => {
                self.push(slot, header, gradient, true, host)
            }
            (FrameKind::Pull, _) => self.pull(Some(slot), conn, header, host),
            (FrameKind::PullKeys, Payload::Bytes(keys)) => {
                self.pull_keys(Some(slot), conn, header, keys, host)
            }
            (FrameKind::Heartbeat, _) => Ok(()),
            (FrameKind::Leave, Payload::Bytes(report)) => self.leave(slot, conn, report, host),
            (FrameKind::Release, Payload::Bytes(report)) => self.release(slot, conn, report, host),
            (FrameKind::Stop, Payload::Bytes(_)) if header.flags.contains(Flags::STOP) => {
                self.cut_short(slot, host);
                Ok(())
            }
            (FrameKind::Stop, Payload::Bytes(reason)) if is_coordinator => {
                self.stop(reason, host);
                Ok(())
            }
            (FrameKind::Collect, _) if is_coordinator => {
                self.collect_since_ms = Some(self.now_ms);
                self.answer_collect(host);
                Ok(())
            }
            (FrameKind::Checkpoint, _) if is_coordinator => {
                self.request_checkpoint(header.step, host);
                Ok(())
            }
            (FrameKind::Finish, _) if is_coordinator => self.finish(host),
            (FrameKind::Abort, Payload::Bytes(why)) => {
                let why: String =
                    String::from_utf8_lossy(why).chars().filter(|c| !c.is_control()).collect();
                let who = &self.members[slot].name;
                host.note(Level::Info, &format!("{who} reports a failure and ends the run"));
                self.fail(&why, host);
                Ok(())
            }
            (kind, _) => Err(Violation(format!("{kind:?} from {}", self.members[slot].name))),
        }
    }

    /// A connection was closed by the other end, or broke.
    ///
    /// The server has already forgotten the connections that it closed itself; the host may
    /// report those or not.
    pub fn connection_closed(
        &mut self,
        conn: ConnId,
        why: &str,
        now_ms: u64,
        host: &mut impl Host,
    ) {
        let slot = match self.connections.remove(conn) {
            Some(ConnectedPeer::Worker(slot)) => slot,
            Some(ConnectedPeer::Stranger { .. }) => {
                let address = host.address(conn).map(|at| format!(" ({at})")).unwrap_or_default();
                let text = format!("closed the connection of a stranger: {why}{address}");
                host.note(Level::Info, &text);
                return;
            }
            Some(ConnectedPeer::Process(id)) => return self.remove_process(id, now_ms, host),
            Some(ConnectedPeer::Evaluator) | None => return,
        };
        self.members[slot].conn = None;
        self.stats.forget(slot);
        if slot == 0 {
            // The coordinator collects again when it is back.
            self.collect_since_ms = None;
        }
        for chunk in &mut self.chunks {
            chunk.slots[slot].awaiting_reply = None;
        }
        match self.members[slot].state {
            MemberState::Lost => return,
            MemberState::Left if slot != 0 => return,
            MemberState::Active if !self.started => {
                self.members[slot].state = MemberState::Absent;
            }
            _ => {
                let why = why.to_owned();
                self.members[slot].absence = Some(LostConnection { since_ms: now_ms, why });
            }
        }
        if self.outcome.is_none() {
            let who = &self.members[slot].name;
            // A loss that ends the run is part of its error.
            let level = if self.ends_with(slot) { Level::Info } else { Level::Warning };
            host.note(level, &format!("lost the connection to {who}: {why}"));
            self.give_up_lost_workers(now_ms, host);
            self.assign_slots(now_ms, host);
        }
    }

    /// Whether the run ends because the worker of this slot is absent now.
    fn ends_with(&self, slot: usize) -> bool {
        let is_fatal = slot == 0 || self.config.on_loss == OnLoss::Fail;
        is_fatal && self.config.rejoin_ms == 0 && self.members[slot].absence.is_some()
    }

    /// Time passed. Call this a few times a second.
    pub fn tick(&mut self, now_ms: u64, host: &mut impl Host) {
        if self.outcome.is_some() {
            return;
        }
        for conn in self.connections.overdue(now_ms) {
            self.shut_out(conn, "no Hello in time", now_ms, host);
        }
        self.give_up_lost_workers(now_ms, host);
        if self.outcome.is_some() {
            return;
        }
        self.assign_slots(now_ms, host);
        self.check_waits(now_ms, host);
    }

    /// Closes the connection of a client that broke the protocol.
    fn shut_out(&mut self, conn: ConnId, what: &str, now_ms: u64, host: &mut impl Host) {
        host.close(conn, what);
        let who = match self.connections.get(conn) {
            Some(ConnectedPeer::Worker(slot)) => Some(self.members[slot].name.clone()),
            Some(ConnectedPeer::Evaluator) => Some("an evaluator".to_owned()),
            Some(ConnectedPeer::Process(_)) => Some("a process on the roster".to_owned()),
            // `connection_closed` writes the note about a stranger.
            Some(ConnectedPeer::Stranger { .. }) | None => None,
        };
        if let Some(who) = who {
            host.note(Level::Warning, &format!("closed the connection of {who}: {what}"));
        }
        self.connection_closed(conn, what, now_ms, host);
    }

    /// Sends a frame that carries no parameters.
    pub(super) fn send_control(
        &self,
        conn: ConnId,
        kind: FrameKind,
        bytes: &[u8],
        host: &mut impl Host,
    ) {
        host.send(conn, Header::new(kind, bytes.len()), FrameBody::Bytes(bytes));
    }
}
