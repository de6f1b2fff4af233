//! Answers to pushes and pulls: the parameters of a chunk, or the values of keys.

use super::host::{GradientStage, Host, ServerPhase};
use super::state::Server;
use crate::wire::add_changes;
use crate::{ConnId, Flags, FrameBody, FrameKind, Header, Store, WireFormat};

/// An answer to a slot.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) chunk: usize,
    pub(super) slot: usize,
    pub(super) sequence: u64,
    pub(super) flags: Flags,
    /// Whether it carries the parameters of the previous version.
    pub(super) is_previous: bool,
}

impl Server {
    /// Sends the answers of a chunk that the gate allows.
    pub(super) fn answer(&mut self, index: usize, host: &mut impl Host) {
        for slot in 0..self.members.len() {
            let Some(reply) = self.chunks[index].slots[slot].awaiting_reply else { continue };
            let Some(conn) = self.members[slot].conn else { continue };
            if self.is_cut_short || self.gate.may_answer(self.gate_view(), index, slot, &reply) {
                self.chunks[index].slots[slot].awaiting_reply = None;
                // Before chunk 0 has arrived, the worker still computes this very gradient.
                let sequence = |chunk: usize| self.chunks[chunk].slots[slot].last_sequence;
                if sequence(index) == sequence(0) {
                    self.stats.answered(index, slot, reply.since_ms, self.now_ms);
                }
                if index == 0 {
                    host.trace(GradientStage::Answered, slot, self.chunks[0].slots[slot].step);
                }
                let (sequence, flags) = (reply.sequence, reply.flags);
                let answer = Answer { chunk: index, slot, sequence, flags, is_previous: false };
                self.send_answer(conn, answer, host);
            }
        }
    }

    /// Sends an answer: the chunk's parameters, or of a sparse model the values of the keys that
    /// the slot requested.
    pub(super) fn send_answer(&mut self, conn: ConnId, answer: Answer, host: &mut impl Host) {
        host.phase(ServerPhase::Send);
        let Answer { chunk: index, slot, sequence, is_previous, .. } = answer;
        let chunk = &self.chunks[index];
        let version = chunk.version - u64::from(is_previous);
        let flags = answer.flags | self.stop_flag(version);
        let (kind, values) = match &mut self.store {
            Store::Dense(dense) => (FrameKind::Params, dense.values(&chunk.range, is_previous)),
            Store::Sparse(sparse) => {
                let keys = chunk.slots[slot].pending_keys.newest();
                (FrameKind::Values, sparse.values(keys, is_previous))
            }
        };
        let wire = self.config.wire;
        let mut header = answer_header(kind, version, values.len() * wire.number_bytes());
        (header.flags, header.chunk, header.sequence) = (flags, index as u32, sequence);
        let body = match wire {
            WireFormat::F32 => FrameBody::Floats(values),
            WireFormat::Bf16 => FrameBody::Rounded(values),
        };
        host.send(conn, header, body);
    }

    /// Sends a process that takes over a slot what the server knows of the slot's gradient on a
    /// chunk, with the changes of a push that waits.
    pub(super) fn send_known(&self, conn: ConnId, index: usize, slot: usize, host: &mut impl Host) {
        let (chunk, state) = (&self.chunks[index], &self.chunks[index].slots[slot]);
        let len = chunk.range.len();
        let mut known = state.known.clone();
        known.resize(len, 0.0);
        if let Some(pending) = &state.pending {
            add_changes(&pending.gradient, &mut known, len, &mut Vec::new());
        }
        let mut header = Header::new(FrameKind::KnownGradient, 4 * len);
        (header.chunk, header.sequence) = (index as u32, state.last_sequence);
        host.send(conn, header, FrameBody::Floats(&known));
    }

    /// Sends a chunk of a dense model to a client that no gate waits for. Its parameters are
    /// never rounded.
    pub(super) fn send_params(
        &self,
        conn: ConnId,
        index: usize,
        sequence: u64,
        host: &mut impl Host,
    ) {
        host.phase(ServerPhase::Send);
        let Store::Dense(dense) = &self.store else { return };
        let chunk = &self.chunks[index];
        let values = dense.values(&chunk.range, false);
        let mut header = answer_header(FrameKind::Params, chunk.version, 4 * values.len());
        header.flags = self.stop_flag(chunk.version);
        (header.chunk, header.sequence) = (index as u32, sequence);
        host.send(conn, header, FrameBody::Floats(values));
    }

    /// Sends the values of keys to a client that no gate waits for. It only reads, so keys that no
    /// gradient has touched are zero.
    pub(super) fn send_values(
        &mut self,
        conn: ConnId,
        sequence: u64,
        keys: &[u32],
        host: &mut impl Host,
    ) {
        host.phase(ServerPhase::Send);
        let version = self.chunks[0].version;
        let flags = self.stop_flag(version);
        let Store::Sparse(sparse) = &mut self.store else { return };
        let values = sparse.known_values(keys);
        let mut header = answer_header(FrameKind::Values, version, 4 * values.len());
        (header.flags, header.sequence) = (flags, sequence);
        host.send(conn, header, FrameBody::Floats(values));
    }

    /// `STOP` if a worker that receives parameters of this version must stop.
    fn stop_flag(&self, version: u64) -> Flags {
        let stops = if self.is_cut_short {
            true
        } else if self.is_sync() {
            self.stop_at.is_some_and(|stop_at| version >= stop_at)
        } else {
            self.stopping
        };
        if stops { Flags::STOP } else { Flags::NONE }
    }
}

fn answer_header(kind: FrameKind, version: u64, bytes: usize) -> Header {
    Header { step: version, version, ..Header::new(kind, bytes) }
}
