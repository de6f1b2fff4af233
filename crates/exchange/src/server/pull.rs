//! Pulls: requests for parameters without a gradient.

use super::answer::Answer;
use super::host::Host;
use super::state::Server;
use super::violation::Checked;
use crate::chunk::DueReply;
use crate::members::MemberState;
use crate::{ConnId, Flags, FrameKind, Header, WireFormat};

impl Server {
    /// Answers a request for one chunk: at once, unless a worker takes over a slot with it.
    pub(super) fn pull(
        &mut self,
        slot: Option<usize>,
        conn: ConnId,
        header: &Header,
        host: &mut impl Host,
    ) -> Checked {
        let index = header.chunk as usize;
        if self.push_kind() != FrameKind::Push || index >= self.chunks.len() {
            return Err("a chunk that this shard does not have".into());
        }
        match slot.filter(|_| header.flags.contains(Flags::RESUME)) {
            Some(slot) => {
                self.check_resume(slot, header)?;
                self.resume_pull(slot, conn, header, host);
            }
            None => self.send_params(conn, index, header.sequence, host),
        }
        Ok(())
    }

    /// Checks a pull that pushes will follow. It must continue where the slot is, or the server
    /// could not tell the pushes apart and a worker would wait forever.
    pub(super) fn check_resume(&self, slot: usize, header: &Header) -> Checked {
        let chunk = &self.chunks[header.chunk as usize];
        let state = &chunk.slots[slot];
        let next = header.sequence;
        let is_next =
            next != 0 && (state.least_next_sequence()..=state.last_sequence + 1).contains(&next);
        let is_ahead = self.is_sync() && header.step > chunk.version + 1;
        let has_left = self.members[slot].state == MemberState::Left;
        let rules = [
            (!has_left, "a pull to resume after leaving"),
            (state.awaiting_reply.is_none(), "a pull before the last push was answered"),
            (is_next, "a pull for a push that is not the next"),
            (!is_ahead, "a pull for a step yet to come"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err((*what).into()),
            None => Ok(()),
        }
    }

    /// Answers the first pull of a process that fills a slot, once its predecessor's last push may
    /// be answered.
    pub(super) fn resume_pull(
        &mut self,
        slot: usize,
        conn: ConnId,
        header: &Header,
        host: &mut impl Host,
    ) {
        let index = header.chunk as usize;
        let chunk = &self.chunks[index];
        let sequence = header.sequence;
        let state = &chunk.slots[slot];
        let last_sequence = state.last_sequence;
        let is_known = last_sequence > 0 || !state.known.is_empty();
        if self.config.wire == WireFormat::Bf16 && is_known {
            self.send_known(conn, index, slot, host);
        }
        let has_it = last_sequence >= sequence;
        let is_one_ahead = chunk.version.checked_sub(1) == Some(header.step);
        let flags = Flags::NONE;
        if has_it && self.store.has_previous() && is_one_ahead {
            let answer = Answer { chunk: index, slot, sequence, flags, is_previous: true };
            return self.send_answer(conn, answer, host);
        }
        // In `sync` the pull waits for its step; in the other modes the step has no meaning here.
        let wanted_version = if self.is_sync() { header.step } else { 0 };
        let since_ms = self.now_ms;
        let reply = DueReply { sequence, wanted_version, gated: !has_it, flags, since_ms };
        self.chunks[index].slots[slot].awaiting_reply = Some(reply);
        self.answer(index, host);
    }
}
