//! What a client knows of one server: the state of the handshake, and the answered chunks.
//!
//! Chunks are sent in order. Those before the cursor have been sent on this connection. A lost
//! connection puts the cursor back to the start, and answered chunks are skipped. At most a window
//! of chunks is unanswered at a time, so that the server need not hold more.

use std::collections::VecDeque;
use std::ops::Range;

use super::event::{ProtocolError, ReadTarget};
use crate::shard::chunk_ranges;
use crate::{CHUNK_FLOATS, FrameKind, Header, WINDOW_CHUNKS, Welcome, encode_keys};

/// The state of the handshake on the present connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    Down,
    Welcome,
    Started,
}

/// Parameters or values of one version, by their range in the caller's slices.
#[derive(Clone, Debug, Default)]
pub(super) struct VersionedRange {
    pub(super) range: Range<usize>,
    pub(super) version: u64,
}

/// One chunk, as the client sees it.
#[derive(Clone, Debug)]
struct LinkChunk {
    /// Where it lies, and the version that arrived last.
    values: VersionedRange,
    answered: bool,
}

/// A chunk to send.
pub(super) struct NextChunk {
    pub(super) index: u32,
    pub(super) values: VersionedRange,
}

/// The push at which a server expects the slot to continue.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotPosition {
    pub(super) sequence: u64,
    pub(super) step: u64,
}

/// The keys requested from one server of a sparse model. Ranges count in the caller's compact
/// slices: the keys of each server follow those of the server before it.
#[derive(Debug, Default)]
pub(super) struct KeyRequests {
    /// The keys that the present operation requests, encoded.
    pub(super) encoded: Vec<u8>,
    /// The batches whose values have arrived and whose gradient is due, the oldest first.
    pub(super) due: VecDeque<VersionedRange>,
    /// The batch whose gradient is being pushed.
    pub(super) pushing: VersionedRange,
}

/// One server, as the client sees it.
#[derive(Debug)]
pub(super) struct ServerProgress {
    pub(super) shard: Range<usize>,
    /// Set for a sparse model.
    pub(super) keys: Option<KeyRequests>,
    handshake: Handshake,
    /// Empty until the first `Welcome` states the size of chunks.
    chunks: Vec<LinkChunk>,
    resume_point: Option<SlotPosition>,
    cursor: usize,
    unanswered: usize,
    /// All chunks before this one have been answered.
    lowest: usize,
    /// Chunks answered, on this connection or an earlier one.
    answered: usize,
    /// The pieces of the list of reports so far.
    pub(super) reports: Vec<u8>,
}

impl ServerProgress {
    pub(super) fn new(shard: Range<usize>, is_sparse: bool) -> Self {
        Self {
            shard,
            keys: is_sparse.then(KeyRequests::default),
            handshake: Handshake::Down,
            chunks: Vec::new(),
            resume_point: None,
            cursor: 0,
            unanswered: 0,
            lowest: 0,
            answered: 0,
            reports: Vec::new(),
        }
    }

    pub(super) fn welcome(&mut self, welcome: &Welcome) -> Result<(), ProtocolError> {
        if self.handshake != Handshake::Down {
            return Err(ProtocolError::Unexpected(FrameKind::Welcome));
        }
        let Welcome { shard_start: start, shard_len: len, chunk_floats, .. } = *welcome;
        let is_ours = (start, len) == (self.shard.start as u64, self.shard.len() as u64);
        let size = chunk_floats as usize;
        let is_sound = match (&self.keys, self.chunks.first()) {
            // The shard of a sparse model is one chunk, and 0 stands for its length.
            (Some(_), _) => size == 0,
            (None, None) => (1..=CHUNK_FLOATS).contains(&size),
            (None, Some(first)) => {
                let is_known = first.values.range.len() == size.min(self.shard.len());
                (1..=CHUNK_FLOATS).contains(&size) && is_known
            }
        };
        if !is_ours || !is_sound {
            return Err(ProtocolError::Shard { start, len, chunk_floats });
        }
        if self.chunks.is_empty() {
            self.chunks = self.new_chunks(size);
            self.answered = self.chunks.len();
        }
        // As long as the process has not begun, a newer resume point is the better one. Later ones
        // are not used: the process knows what it has pushed.
        let (sequence, step) = (welcome.resume_sequence, welcome.resume_step);
        self.resume_point = Some(SlotPosition { sequence, step });
        self.handshake = Handshake::Welcome;
        Ok(())
    }

    fn new_chunks(&self, size: usize) -> Vec<LinkChunk> {
        let chunk =
            |range| LinkChunk { values: VersionedRange { range, version: 0 }, answered: true };
        if self.keys.is_some() {
            return vec![chunk(0..0)];
        }
        let start = self.shard.start;
        let ranges = chunk_ranges(self.shard.len(), size).into_iter();
        ranges.map(|range| chunk(start + range.start..start + range.end)).collect()
    }

    pub(super) fn start(&mut self) -> Result<(), ProtocolError> {
        if self.handshake != Handshake::Welcome {
            return Err(ProtocolError::Unexpected(FrameKind::Start));
        }
        self.handshake = Handshake::Started;
        Ok(())
    }

    /// Begins an operation, which sends all chunks.
    pub(super) fn begin(&mut self) {
        self.chunks.iter_mut().for_each(|chunk| chunk.answered = false);
        (self.cursor, self.unanswered, self.lowest, self.answered) = (0, 0, 0, 0);
    }

    pub(super) fn lost(&mut self) {
        self.handshake = Handshake::Down;
        (self.cursor, self.unanswered) = (0, 0);
        self.reports.clear();
    }

    /// Requests a range of the wanted keys from a server of a sparse model.
    pub(super) fn request_keys(&mut self, wanted: &[u32], range: Range<usize>) {
        let Some(keys) = &mut self.keys else { unreachable!("the model is sparse") };
        keys.encoded.clear();
        encode_keys(self.shard.start as u32, &wanted[range.clone()], &mut keys.encoded);
        if let Some(chunk) = self.chunks.first_mut() {
            chunk.values.range = range;
        }
    }

    /// The requested values have arrived, and a gradient of them will follow.
    pub(super) fn owe_gradient(&mut self) {
        if let (Some(keys), Some(chunk)) = (&mut self.keys, self.chunks.first()) {
            keys.due.push_back(chunk.values.clone());
        }
    }

    /// The next chunk to send, if the handshake and the window allow one.
    pub(super) fn next_chunk(&mut self, after_start: bool) -> Option<NextChunk> {
        let is_open = if after_start { self.is_started() } else { self.is_welcome() };
        if !is_open || self.unanswered >= WINDOW_CHUNKS {
            return None;
        }
        let ahead = self.chunks[self.cursor..].iter().position(|chunk| !chunk.answered)?;
        let index = self.cursor + ahead;
        self.cursor = index + 1;
        self.unanswered += 1;
        Some(NextChunk { index: index as u32, values: self.chunks[index].values.clone() })
    }

    /// Where an answer belongs that is about to be read.
    pub(super) fn expect_chunk(
        &self,
        header: &Header,
        sequence: u64,
    ) -> Result<ReadTarget, ProtocolError> {
        let chunk = self.chunks[..self.cursor].get(header.chunk as usize);
        let is_awaited = |chunk: &&LinkChunk| {
            !chunk.answered
                && header.len as usize == chunk.values.range.len() * 4
                && header.sequence == sequence
        };
        match chunk.filter(is_awaited) {
            Some(chunk) => Ok(ReadTarget::Floats(chunk.values.range.clone())),
            None => Err(ProtocolError::Chunk { chunk: header.chunk, len: header.len }),
        }
    }

    /// Counts an answer that has been read.
    pub(super) fn answered(&mut self, header: &Header, sequence: u64) -> Result<(), ProtocolError> {
        self.expect_chunk(header, sequence)?;
        let chunk = &mut self.chunks[header.chunk as usize];
        (chunk.answered, chunk.values.version) = (true, header.version);
        self.unanswered -= 1;
        self.answered += 1;
        while self.chunks.get(self.lowest).is_some_and(|chunk| chunk.answered) {
            self.lowest += 1;
        }
        Ok(())
    }

    /// Where the next answer most likely belongs: to the first chunk that waits for one.
    pub(super) fn likely_target(&self) -> Option<Range<usize>> {
        self.chunks[..self.cursor].get(self.lowest).map(|chunk| chunk.values.range.clone())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.answered == self.chunks.len()
    }

    pub(super) fn is_welcome(&self) -> bool {
        self.handshake != Handshake::Down
    }

    pub(super) fn is_started(&self) -> bool {
        self.handshake == Handshake::Started
    }

    pub(super) fn resume_point(&self) -> Option<SlotPosition> {
        self.resume_point
    }

    pub(super) fn first_version(&self) -> u64 {
        self.chunks.first().map_or(0, |chunk| chunk.values.version)
    }
}
