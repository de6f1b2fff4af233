//! What is particular to sparse models: who has asked for which keys.
//!
//! The shard of a sparse model is one chunk, so all rules about chunks, versions and gates hold
//! for it as they are. What differs is what travels. A worker names the keys of a batch once,
//! when it asks for their values; a gradient comes without keys, for those that were named
//! first, and names the keys of a batch to come behind it.

use super::push::answer;
use super::{Server, Violation};
use crate::{
    ConnId, Flags, FrameBody, FrameKind, Header, Host, ServerPhase, Store, as_bytes, decode_keys,
};

impl Server {
    /// How a gradient of this model comes.
    pub(super) fn push_kind(&self) -> FrameKind {
        match self.store {
            Store::Dense(_) => FrameKind::Push,
            Store::Sparse(_) => FrameKind::PushKeys,
        }
    }

    /// Checks the length of a gradient and cuts it there; reads the keys that follow it, unless
    /// they are known already because the push has been here before.
    pub(super) fn read_requested_keys(
        &mut self,
        slot: usize,
        header: &Header,
        payload: &mut Vec<f32>,
    ) -> Result<Option<Vec<u32>>, Violation> {
        let (index, len) = (header.chunk as usize, header.len as usize);
        let chunk = &self.chunks[index];
        let Store::Sparse(sparse) = &self.store else {
            let fits = len == 4 * chunk.range.len();
            return if fits { Ok(None) } else { Err("a gradient of the wrong length".into()) };
        };
        let requested = &chunk.slots[slot].pending_keys;
        if requested.knows(header.sequence) {
            return Ok(None);
        }
        let floats = requested.oldest().ok_or("a gradient of keys that were not asked for")?.len();
        let bytes =
            as_bytes(payload).get(4 * floats..len).ok_or("a gradient of the wrong length")?;
        let (base, end) = sparse.bounds();
        let mut keys = self.key_pool.take();
        decode_keys(base, end, bytes, &mut keys).map_err(|error| Violation(error.to_string()))?;
        payload.truncate(floats);
        Ok(Some(keys))
    }

    /// Takes note of what a push asks for, and gives the keys that its gradient is of. Empty for
    /// a dense model, and for a push that has been here before.
    pub(super) fn exchange_keys(
        &mut self,
        slot: usize,
        sequence: u64,
        requested: Option<Vec<u32>>,
    ) -> Vec<u32> {
        match requested {
            Some(next) => self.chunks[0].slots[slot].pending_keys.exchange(sequence, next),
            None => Vec::new(),
        }
    }

    /// Answers a request for the values of some keys: at once, but for a worker that takes a
    /// slot over. Nothing is kept of who only looks.
    pub(super) fn pull_keys(
        &mut self,
        slot: Option<usize>,
        conn: ConnId,
        header: &Header,
        bytes: &[u8],
        now_ms: u64,
        host: &mut impl Host,
    ) -> Result<(), Violation> {
        let Store::Sparse(sparse) = &self.store else {
            return Err("keys of a model that has none".into());
        };
        if header.chunk != 0 {
            return Err("a chunk that this shard does not have".into());
        }
        let (base, end) = sparse.bounds();
        let mut keys = self.key_pool.take();
        decode_keys(base, end, bytes, &mut keys).map_err(|error| Violation(error.to_string()))?;
        let Some(slot) = slot.filter(|_| header.flags != Flags::NONE) else {
            self.send_values(conn, header.sequence, &keys, host);
            self.key_pool.put_back(keys);
            return Ok(());
        };
        self.check_begin(slot, header)?;
        let requested = &mut self.chunks[0].slots[slot].pending_keys;
        match header.flags {
            Flags::RESUME => {
                requested.restart(keys, header.sequence);
                self.resume_pull(slot, conn, header, now_ms, host);
            }
            Flags::AHEAD if requested.ahead(keys, header.sequence) => {
                self.send_answer(conn, (0, slot), (header.sequence, Flags::NONE), false, host);
            }
            _ => return Err("keys asked for too far ahead".into()),
        }
        Ok(())
    }

    fn send_values(&mut self, conn: ConnId, sequence: u64, keys: &[u32], host: &mut impl Host) {
        host.phase(ServerPhase::Send);
        let version = self.chunks[0].version;
        let flags = self.stop_flag(version);
        let Store::Sparse(sparse) = &mut self.store else { return };
        let values = sparse.values(keys, false);
        let header = answer(FrameKind::Values, flags, 0, version, sequence, values);
        host.send(conn, header, FrameBody::Floats(values));
    }
}
