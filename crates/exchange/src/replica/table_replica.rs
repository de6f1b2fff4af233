//! A sparse model's part of a replica: the table, a step's gradients, and a state that arrives.

use std::cell::Cell;
use std::ops::Range;

use paceline_model::{ParamTable, StoredEntries};

use super::digest::{digest, digest_of};
use crate::keyed_sum::KeyedBuffer;
use crate::{Header, ProtocolError, decode_keys, encode_keys, max_keys_bytes};

/// Keys that one comparison of the replicas covers. The next one covers those after them.
const COMPARED_KEYS: usize = 1 << 16;
/// Entries that are hashed at a time.
const DIGEST_ENTRIES: usize = 1 << 12;

/// A sparse model's part of a replica.
pub(super) struct TableReplica {
    pub(super) table: ParamTable,
    /// The most keys in a frame.
    pub(super) frame_keys: usize,
    /// The keys of this worker's gradient, and how they travel.
    pub(super) own: OwnKeys,
    /// The mean of all gradients of the current step once it is reduced, or of the last one.
    pub(super) mean: KeyedBuffer,
    /// For the next sum.
    pub(super) spare: KeyedBuffer,
    /// The state that a peer is sending.
    pub(super) incoming: Option<IncomingState>,
    /// The digest of the whole table after a step.
    pub(super) whole_digest: Cell<Option<(u64, u64)>>,
    /// Bytes of the keys of all steps, as they are sent.
    pub(super) key_bytes: u64,
}

/// The keys of a gradient, encoded frame by frame.
#[derive(Default)]
pub(super) struct OwnKeys {
    pub(super) keys: Vec<u32>,
    pub(super) encoded: Vec<u8>,
    /// Where the encoded keys of each frame end.
    pub(super) ends: Vec<usize>,
}

impl OwnKeys {
    pub(super) fn set(&mut self, base: u32, keys: &[u32], frame_keys: usize) {
        self.keys.clear();
        self.keys.extend_from_slice(keys);
        self.encoded.clear();
        self.ends.clear();
        // A gradient has at least one frame.
        let frames = keys.len().div_ceil(frame_keys).max(1);
        for nth in 0..frames {
            let from = (nth * frame_keys).min(keys.len());
            let to = (from + frame_keys).min(keys.len());
            encode_keys(base, &keys[from..to], &mut self.encoded);
            self.ends.push(self.encoded.len());
        }
    }

    /// The encoded keys of a frame.
    pub(super) fn bytes(&self, nth: usize) -> &[u8] {
        let start = if nth == 0 { 0 } else { self.ends[nth - 1] };
        &self.encoded[start..self.ends[nth]]
    }

    /// The keys of a frame, by their place in the gradient.
    pub(super) fn range(&self, nth: usize, frame_keys: usize) -> Range<usize> {
        (nth * frame_keys).min(self.keys.len())..((nth + 1) * frame_keys).min(self.keys.len())
    }
}

impl TableReplica {
    pub(super) fn new(table: ParamTable, chunk_floats: usize) -> Self {
        Self {
            frame_keys: (chunk_floats / table.width()).max(1),
            table,
            own: OwnKeys::default(),
            mean: KeyedBuffer::default(),
            spare: KeyedBuffer::default(),
            incoming: None,
            whole_digest: Cell::new(None),
            key_bytes: 0,
        }
    }

    /// Makes the update of a step with its mean.
    pub(super) fn apply_mean(&self, step: u64) {
        self.table.update(step, &self.mean.keys, &self.mean.values);
    }

    /// The digest of the entries of some keys.
    pub(super) fn digest(&self, keys: Range<usize>) -> u64 {
        let (mut from, mut entries) = (keys.start, StoredEntries::default());
        let mut all = digest(&[]);
        loop {
            let next = self.table.copy_stored(from, DIGEST_ENTRIES, &mut entries);
            let within = entries.keys.partition_point(|&key| (key as usize) < keys.end);
            let cells = &entries.cells[..within * self.table.stored_width()];
            let keys_seen = bytemuck::cast_slice(&entries.keys[..within]);
            all = digest_of([all, digest(cells), digest(keys_seen)]);
            match next.filter(|&next| next < keys.end && within == entries.keys.len()) {
                Some(next) => from = next,
                None => return all,
            }
        }
    }

    /// The digest by which replicas are compared after `step`, comparison number `nth`.
    pub(super) fn compared_digest(&self, nth: u64) -> u64 {
        let keys = self.table.keys();
        let windows = keys.len().div_ceil(COMPARED_KEYS).max(1);
        let from = keys.start + (nth % windows as u64) as usize * COMPARED_KEYS;
        self.digest(from..(from + COMPARED_KEYS).min(keys.end))
    }
}

/// A state that a peer is sending.
pub(super) struct IncomingState {
    /// The table that will replace this replica's; `None` if only the mean is missing.
    pub(super) table: Option<ParamTable>,
    pub(super) mean: KeyedBuffer,
    /// The last key of the current part.
    pub(super) last_key: Option<u32>,
}

/// What a frame with keys holds.
pub(super) struct KeyedFrame<'a> {
    pub(super) numbers: &'a [f32],
    pub(super) keys: Vec<u32>,
}

impl TableReplica {
    /// Whether a frame of `len` bytes can hold this many keys with `width` numbers each.
    pub(super) fn fits(&self, keys: u64, width: usize, len: u32) -> bool {
        if keys > self.frame_keys as u64 {
            return false;
        }
        let (keys, len) = (keys as usize, len as usize);
        let numbers = keys * width * 4;
        numbers + 4 <= len && len <= numbers + max_keys_bytes(keys)
    }

    /// Reads a frame that lies in memory: numbers, then keys above `last`.
    pub(super) fn decode<'a>(
        &self,
        header: &Header,
        frame: &'a [f32],
        numbers: usize,
        last: Option<u32>,
    ) -> Result<KeyedFrame<'a>, ProtocolError> {
        let wrong = |why: &str| ProtocolError::Keys { chunk: header.chunk, why: why.into() };
        let bytes: &[u8] = bytemuck::cast_slice(frame);
        let tail = bytes.get(numbers * 4..header.len as usize);
        let Range { start, end } = self.table.keys();
        let mut keys = Vec::new();
        decode_keys(start as u64..end as u64, tail.unwrap_or_default(), &mut keys)
            .map_err(|error| wrong(&error.to_string()))?;
        if keys.len() as u64 != header.sequence {
            return Err(wrong("not as many keys as it says"));
        }
        if keys.first().zip(last).is_some_and(|(&first, last)| first <= last) {
            return Err(wrong("its keys do not follow those before"));
        }
        Ok(KeyedFrame { numbers: &frame[..numbers], keys })
    }
}
