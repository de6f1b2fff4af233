//! What a client knows of one server: how far the handshake is, and which chunks are answered.
//!
//! Chunks are sent in order. Those before the cursor have been sent on this connection; a lost
//! connection puts the cursor back to the start, and what has been answered is passed over. No
//! more than a window of chunks is unanswered at a time, so that the server need not hold more.

use std::collections::VecDeque;
use std::ops::Range;

use super::{ProtocolError, ReadTarget};
use crate::shard::chunk_ranges_of;
use crate::{CHUNK_FLOATS, FrameKind, Header, WINDOW_CHUNKS, Welcome, encode_keys};

/// How far the handshake of the present connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down,
    Welcome,
    Started,
}

/// One chunk, as the client sees it.
#[derive(Clone, Debug)]
struct LinkChunk {
    /// Which of the flat parameters.
    range: Range<usize>,
    /// The version of the parameters that arrived last.
    version: u64,
    answered: bool,
}

/// What has been asked of one server of a sparse model. Ranges count in the caller's compact
/// slices, of which each server has a piece, as its keys follow those of the server before it.
#[derive(Debug, Default)]
pub(super) struct Asks {
    /// The keys that the present operation asks for, as they stand on the wire.
    pub(super) encoded: Vec<u8>,
    /// The batches whose values are here and whose gradient is owed, the oldest first: its piece
    /// of the gradient, and the version that its values had.
    pub(super) owed: VecDeque<(Range<usize>, u64)>,
    /// The piece and the version of the gradient that is being pushed.
    pub(super) pushing: (Range<usize>, u64),
}

/// One server, as the client sees it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) shard: Range<usize>,
    /// Of a sparse model: what has been asked for.
    pub(super) asks: Option<Asks>,
    state: State,
    /// Empty until the first welcome tells how large they are.
    chunks: Vec<LinkChunk>,
    /// The sequence and the step that the first welcome told to go on with.
    resume: Option<(u64, u64)>,
    cursor: usize,
    unanswered: usize,
    /// All chunks before this one have been answered.
    lowest: usize,
    /// How many chunks have been answered, sent on this connection or another.
    answered: usize,
    /// Pieces of the list of reports.
    pub(super) reports: Vec<u8>,
}

impl Link {
    pub(super) fn new(shard: Range<usize>, is_sparse: bool) -> Self {
        Self {
            shard,
            asks: is_sparse.then(Asks::default),
            state: State::Down,
            chunks: Vec::new(),
            resume: None,
            cursor: 0,
            unanswered: 0,
            lowest: 0,
            answered: 0,
            reports: Vec::new(),
        }
    }

    pub(super) fn welcome(&mut self, welcome: &Welcome) -> Result<(), ProtocolError> {
        if self.state != State::Down {
            return Err(ProtocolError::Unexpected(FrameKind::Welcome));
        }
        let Welcome { shard_start: start, shard_len: len, chunk_floats, .. } = *welcome;
        // The shard of a sparse model is one chunk, and 0 stands for its length.
        let size = match self.asks {
            Some(_) if chunk_floats == 0 => self.shard.len(),
            Some(_) => 0,
            None => (chunk_floats as usize).min(CHUNK_FLOATS + 1),
        };
        let is_ours = (start, len) == (self.shard.start as u64, self.shard.len() as u64);
        let is_known = self.asks.is_some()
            || self
                .chunks
                .first()
                .is_none_or(|chunk| chunk.range.len() == size.min(self.shard.len()));
        let is_sound = size > 0 && (self.asks.is_some() || size <= CHUNK_FLOATS);
        if !is_ours || !is_known || !is_sound {
            return Err(ProtocolError::Shard { start, len, chunk_floats });
        }
        if self.chunks.is_empty() {
            let flat =
                |range: Range<usize>| range.start + self.shard.start..range.end + self.shard.start;
            let ranges = match self.asks {
                Some(_) => std::iter::once(0..0).collect(),
                None => chunk_ranges_of(self.shard.len(), size).into_iter().map(flat).collect(),
            };
            let chunk = |range| LinkChunk { range, version: 0, answered: true };
            self.chunks = <Vec<_> as IntoIterator>::into_iter(ranges).map(chunk).collect();
            self.answered = self.chunks.len();
        }
        // Of a later welcome nothing is to be learnt: this process knows what it has pushed.
        // But as long as it has not begun, a newer word is the better one.
        self.resume = Some((welcome.resume_sequence, welcome.resume_step));
        self.state = State::Welcome;
        Ok(())
    }

    pub(super) fn start(&mut self) -> Result<(), ProtocolError> {
        if self.state != State::Welcome {
            return Err(ProtocolError::Unexpected(FrameKind::Start));
        }
        self.state = State::Started;
        Ok(())
    }

    /// All chunks are to be sent anew.
    pub(super) fn begin(&mut self) {
        self.chunks.iter_mut().for_each(|chunk| chunk.answered = false);
        (self.cursor, self.unanswered, self.lowest, self.answered) = (0, 0, 0, 0);
    }

    pub(super) fn lost(&mut self) {
        self.state = State::Down;
        (self.cursor, self.unanswered) = (0, 0);
        self.reports.clear();
    }

    /// Asks a server of a sparse model for these of the wanted keys.
    pub(super) fn ask(&mut self, keys: &[u32], range: Range<usize>) {
        let Some(asks) = &mut self.asks else { unreachable!("the model is sparse") };
        asks.encoded.clear();
        encode_keys(self.shard.start as u32, &keys[range.clone()], &mut asks.encoded);
        if let Some(chunk) = self.chunks.first_mut() {
            chunk.range = range;
        }
    }

    /// The values that were asked for are here, and a gradient of them will follow.
    pub(super) fn owe_gradient(&mut self) {
        if let (Some(asks), Some(chunk)) = (&mut self.asks, self.chunks.first()) {
            asks.owed.push_back((chunk.range.clone(), chunk.version));
        }
    }

    /// The next chunk to send, where it lies, and the version of its parameters.
    pub(super) fn next_chunk(&mut self, after_start: bool) -> Option<(u32, Range<usize>, u64)> {
        let is_open = match after_start {
            true => self.state == State::Started,
            false => self.state != State::Down,
        };
        if !is_open || self.unanswered >= WINDOW_CHUNKS {
            return None;
        }
        let ahead = self.chunks[self.cursor..].iter().position(|chunk| !chunk.answered)?;
        let index = self.cursor + ahead;
        self.cursor = index + 1;
        self.unanswered += 1;
        let chunk = &self.chunks[index];
        Some((index as u32, chunk.range.clone(), chunk.version))
    }

    /// Where a chunk belongs that is about to be read.
    pub(super) fn expect_chunk(
        &self,
        header: &Header,
        sequence: u64,
    ) -> Result<ReadTarget, ProtocolError> {
        let index = header.chunk as usize;
        let chunk = self.chunks[..self.cursor].get(index);
        let is_awaited = |chunk: &&LinkChunk| {
            !chunk.answered
                && header.len as usize == chunk.range.len() * 4
                && header.sequence == sequence
        };
        match chunk.filter(is_awaited) {
            Some(chunk) => Ok(ReadTarget::Floats(chunk.range.clone())),
            None => Err(ProtocolError::Chunk { chunk: header.chunk, len: header.len }),
        }
    }

    /// Counts a chunk that has been read.
    pub(super) fn answered(&mut self, header: &Header, sequence: u64) -> Result<(), ProtocolError> {
        self.expect_chunk(header, sequence)?;
        let chunk = &mut self.chunks[header.chunk as usize];
        (chunk.answered, chunk.version) = (true, header.version);
        self.unanswered -= 1;
        self.answered += 1;
        while self.chunks.get(self.lowest).is_some_and(|chunk| chunk.answered) {
            self.lowest += 1;
        }
        Ok(())
    }

    /// Where the next answer most likely belongs: to the first chunk that waits for one.
    pub(super) fn likely(&self) -> Option<Range<usize>> {
        self.chunks[..self.cursor].get(self.lowest).map(|chunk| chunk.range.clone())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.answered == self.chunks.len()
    }

    pub(super) fn is_welcome(&self) -> bool {
        self.state != State::Down
    }

    pub(super) fn is_started(&self) -> bool {
        self.state == State::Started
    }

    pub(super) fn resume(&self) -> Option<(u64, u64)> {
        self.resume
    }

    pub(super) fn first_version(&self) -> u64 {
        self.chunks.first().map_or(0, |chunk| chunk.version)
    }
}
