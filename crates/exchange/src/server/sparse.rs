//! Sparse models: the keys that each slot has requested.
//!
//! The shard of a sparse model is one chunk, so all rules about chunks, versions and gates apply
//! to it unchanged. Only the payloads differ. A worker names the keys of a batch once, when it
//! requests their values. A gradient comes without keys: it belongs to the keys that were requested
//! first. Behind it, the push names the keys of a later batch.

use super::answer::Answer;
use super::host::Host;
use super::state::Server;
use super::violation::Checked;
use crate::{ConnId, Flags, FrameKind, Header, Store, as_bytes};

impl Server {
    /// The kind of frame that carries a gradient of this model.
    pub(super) fn push_kind(&self) -> FrameKind {
        match self.store {
            Store::Dense(_) => FrameKind::Push,
            Store::Sparse(_) => FrameKind::PushKeys,
        }
    }

    /// Checks the length of a gradient and truncates the payload to it. Returns the keys that
    /// follow the gradient, unless the push is a duplicate and they are known.
    pub(super) fn read_next_keys(
        &mut self,
        slot: usize,
        header: &Header,
        payload: &mut Vec<f32>,
    ) -> Checked<Option<Vec<u32>>> {
        let (index, len) = (header.chunk as usize, header.len as usize);
        let chunk = &self.chunks[index];
        let Store::Sparse(sparse) = &self.store else {
            let fits = len == self.config.wire.number_bytes() * chunk.range.len();
            return if fits { Ok(None) } else { Err("a gradient of the wrong length".into()) };
        };
        let pending_keys = &chunk.slots[slot].pending_keys;
        if pending_keys.has_push(header.sequence) {
            return Ok(None);
        }
        let requested =
            pending_keys.oldest().ok_or("a gradient for keys that were not requested")?;
        let floats = requested.len() * sparse.table().width();
        let bytes =
            as_bytes(payload).get(4 * floats..len).ok_or("a gradient of the wrong length")?;
        let mut keys = self.key_pool.take();
        sparse.decode_keys(bytes, &mut keys)?;
        payload.truncate(floats);
        Ok(Some(keys))
    }

    /// Records the keys that a push requests, and returns those that its gradient belongs to.
    /// Empty for a dense model and for a duplicate.
    pub(super) fn exchange_keys(
        &mut self,
        slot: usize,
        sequence: u64,
        next_keys: Option<Vec<u32>>,
    ) -> Vec<u32> {
        match next_keys {
            Some(next) => self.chunks[0].slots[slot].pending_keys.exchange(sequence, next),
            None => Vec::new(),
        }
    }

    /// Answers a request for the values of keys: at once, unless a worker takes over a slot with
    /// it. The server does not record the keys of a client that only reads.
    pub(super) fn pull_keys(
        &mut self,
        slot: Option<usize>,
        conn: ConnId,
        header: &Header,
        bytes: &[u8],
        host: &mut impl Host,
    ) -> Checked {
        let Store::Sparse(sparse) = &self.store else {
            return Err("keys for a model that has none".into());
        };
        if header.chunk != 0 {
            return Err("a chunk that this shard does not have".into());
        }
        let mut keys = self.key_pool.take();
        sparse.decode_keys(bytes, &mut keys)?;
        let Some(slot) = slot.filter(|_| header.flags != Flags::NONE) else {
            self.send_values(conn, header.sequence, &keys, host);
            self.key_pool.put_back(keys);
            return Ok(());
        };
        self.check_resume(slot, header)?;
        let sequence = header.sequence;
        let pending_keys = &mut self.chunks[0].slots[slot].pending_keys;
        match header.flags {
            Flags::RESUME => {
                pending_keys.restart(keys, sequence);
                self.resume_pull(slot, conn, header, host);
            }
            Flags::AHEAD if pending_keys.request_ahead(keys, sequence) => {
                let (flags, is_previous) = (Flags::NONE, false);
                let answer = Answer { chunk: 0, slot, sequence, flags, is_previous };
                self.send_answer(conn, answer, host);
            }
            _ => return Err("keys requested too far ahead".into()),
        }
        Ok(())
    }
}
