//! What a client knows of one server: the state of the handshake, and the answered chunks.
//!
//! Of the chunks whose gradient is final, the lowest is sent first: the next forward pass needs low
//! layers first, while a backward pass completes high ones first. A lost connection counts all
//! chunks as not sent; answered ones are skipped. At most a window of chunks is unanswered at a
//! time, so that the server need not hold more.
//!
//! Workers may complete their gradients at different speeds, and then send their chunks in
//! different orders. If each filled its window with chunks that the others have not sent, no step
//! would ever be made. So the last unanswered chunk of a shard may be sent beyond the window: it is
//! the last one for all workers, each of them can send it, and then the one before it, and so on.

use std::collections::VecDeque;
use std::ops::Range;

use super::event::{ProtocolError, ReadTarget};
use crate::shard::chunk_ranges;
use crate::{CHUNK_FLOATS, FrameKind, Header, WINDOW_CHUNKS, Welcome, WireFormat, encode_keys};

/// The state of the handshake on the current connection.
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
    /// Whether it has been sent on this connection for the current operation.
    sent: bool,
    /// Whether it has been sent for the current operation on any connection: the server may hold
    /// it, so it takes part in the window.
    tried: bool,
    answered: bool,
    /// Where gradients travel as changes: the last push whose change of this chunk was made, by
    /// this process or by the one before it.
    changed: u64,
}

/// A chunk to send.
pub(super) struct NextChunk {
    pub(super) index: u32,
    pub(super) values: VersionedRange,
    /// Whether it has not been sent for this push before.
    pub(super) is_new: bool,
}

/// What all answers to an operation have in common.
#[derive(Clone, Copy)]
pub(super) struct ExpectedAnswer {
    pub(super) sequence: u64,
    pub(super) wire: WireFormat,
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
    /// The values of each key.
    width: usize,
    /// The keys that the current operation requests, encoded.
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
    /// Chunks from this one on are final.
    final_from: usize,
    /// Every final chunk before this one has been sent.
    cursor: usize,
    /// The chunks sent, in order, without those at its start that have been answered.
    awaited: VecDeque<u32>,
    /// Chunks that were sent on an earlier connection and must be sent again.
    repeats: usize,
    /// Chunks sent, on this connection or an earlier one, and not answered.
    unanswered: usize,
    /// Chunks answered, on this connection or an earlier one.
    answered: usize,
    /// The pieces of the list of reports so far.
    pub(super) reports: Vec<u8>,
}

impl ServerProgress {
    /// A server of a dense model, or of a sparse one whose keys have `width` values each.
    pub(super) fn new(shard: Range<usize>, width: Option<usize>) -> Self {
        Self {
            shard,
            keys: width.map(|width| KeyRequests { width, ..KeyRequests::default() }),
            handshake: Handshake::Down,
            chunks: Vec::new(),
            resume_point: None,
            final_from: 0,
            cursor: 0,
            awaited: VecDeque::new(),
            repeats: 0,
            unanswered: 0,
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
        let chunk = |range| {
            let values = VersionedRange { range, version: 0 };
            LinkChunk { values, sent: false, tried: false, answered: true, changed: 0 }
        };
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
        for chunk in &mut self.chunks {
            (chunk.answered, chunk.sent, chunk.tried) = (false, false, false);
        }
        self.awaited.clear();
        (self.final_from, self.cursor, self.repeats) = (0, 0, 0);
        (self.unanswered, self.answered) = (0, 0);
    }

    pub(super) fn lost(&mut self) {
        self.handshake = Handshake::Down;
        self.chunks.iter_mut().for_each(|chunk| chunk.sent = false);
        self.awaited.clear();
        self.repeats = self.unanswered;
        self.cursor = self.final_from;
        self.reports.clear();
    }

    /// The gradient is final from this parameter on, counted over all servers.
    pub(super) fn set_final(&mut self, from: usize) {
        let is_early = |chunk: &LinkChunk| chunk.values.range.start < from;
        self.final_from = self.chunks.partition_point(is_early);
        self.cursor = self.final_from;
    }

    /// Sends no further chunk of the current operation: those that were not sent count as answered.
    pub(super) fn cancel(&mut self) {
        for chunk in self.chunks.iter_mut().filter(|chunk| !chunk.tried && !chunk.answered) {
            chunk.answered = true;
            self.answered += 1;
        }
        (self.final_from, self.cursor) = (self.chunks.len(), self.chunks.len());
    }

    /// Requests a range of the wanted keys from a server of a sparse model; the bytes they take.
    pub(super) fn request_keys(&mut self, wanted: &[u32], range: Range<usize>) -> usize {
        let Some(keys) = &mut self.keys else { unreachable!("the model is sparse") };
        keys.encoded.clear();
        encode_keys(self.shard.start as u32, &wanted[range.clone()], &mut keys.encoded);
        if let Some(chunk) = self.chunks.first_mut() {
            chunk.values.range = range.start * keys.width..range.end * keys.width;
        }
        keys.encoded.len()
    }

    /// The requested values have arrived, and a gradient of them will follow.
    pub(super) fn owe_gradient(&mut self) {
        if let (Some(keys), Some(chunk)) = (&mut self.keys, self.chunks.first()) {
            keys.due.push_back(chunk.values.clone());
        }
    }

    /// The next chunk to send for the push of this sequence, if the handshake and the window allow
    /// one; without a sequence, for a pull.
    pub(super) fn next_chunk(&mut self, push: Option<u64>) -> Option<NextChunk> {
        let after_start = push.is_some();
        let is_open = if after_start { self.is_started() } else { self.is_welcome() };
        if !is_open {
            return None;
        }
        let index = self.choose_chunk()?;
        self.awaited.push_back(index as u32);
        let chunk = &mut self.chunks[index];
        self.unanswered += usize::from(!chunk.tried);
        (chunk.sent, chunk.tried) = (true, true);
        let is_new = push.is_some_and(|sequence| chunk.changed < sequence);
        chunk.changed = chunk.changed.max(push.unwrap_or(0));
        Some(NextChunk { index: index as u32, values: chunk.values.clone(), is_new })
    }

    /// The index of the next chunk to send.
    fn choose_chunk(&mut self) -> Option<usize> {
        if self.repeats > 0 {
            // What the server may hold already comes first.
            self.repeats -= 1;
            return self.chunks.iter().position(|c| c.tried && !c.sent && !c.answered);
        }
        if self.unanswered < WINDOW_CHUNKS {
            let mut ahead = self.chunks[self.cursor..].iter();
            let index = self.cursor + ahead.position(|chunk| !chunk.sent && !chunk.answered)?;
            self.cursor = index + 1;
            return Some(index);
        }
        let last = self.chunks.iter().rposition(|chunk| !chunk.answered)?;
        (last >= self.final_from && !self.chunks[last].sent).then_some(last)
    }

    /// Where an answer belongs that is about to be read.
    pub(super) fn expect_chunk(
        &self,
        header: &Header,
        expected: ExpectedAnswer,
    ) -> Result<ReadTarget, ProtocolError> {
        let chunk = self.chunks.get(header.chunk as usize);
        let ExpectedAnswer { sequence, wire } = expected;
        let is_awaited = |chunk: &&LinkChunk| {
            chunk.sent
                && !chunk.answered
                && header.len as usize == chunk.values.range.len() * wire.number_bytes()
                && header.sequence == sequence
        };
        match (chunk.filter(is_awaited), wire) {
            (Some(chunk), WireFormat::F32) => Ok(ReadTarget::Floats(chunk.values.range.clone())),
            (Some(chunk), WireFormat::Bf16) => Ok(ReadTarget::Rounded(chunk.values.range.clone())),
            (None, _) => Err(ProtocolError::Chunk { chunk: header.chunk, len: header.len }),
        }
    }

    /// Where the gradient of a chunk belongs, as the server knows it. It comes before the answer
    /// to the first pull.
    pub(super) fn expect_known(&self, header: &Header) -> Result<ReadTarget, ProtocolError> {
        let chunk = self.chunks.get(header.chunk as usize);
        let fits = |chunk: &&LinkChunk| {
            let fits = header.len as usize == chunk.values.range.len() * 4;
            chunk.sent && !chunk.answered && fits
        };
        match chunk.filter(fits) {
            Some(chunk) => Ok(ReadTarget::KnownGradient(chunk.values.range.clone())),
            None => Err(ProtocolError::Chunk { chunk: header.chunk, len: header.len }),
        }
    }

    /// The gradient of a chunk as the server knows it has been read. It covers the pushes up to the
    /// sequence in the header.
    pub(super) fn known_arrived(&mut self, header: &Header) {
        self.chunks[header.chunk as usize].changed = header.sequence;
    }

    /// Counts an answer that has been read.
    pub(super) fn answered(
        &mut self,
        header: &Header,
        expected: ExpectedAnswer,
    ) -> Result<(), ProtocolError> {
        self.expect_chunk(header, expected)?;
        let chunk = &mut self.chunks[header.chunk as usize];
        (chunk.answered, chunk.values.version) = (true, header.version);
        self.unanswered -= 1;
        self.answered += 1;
        let is_answered = |index: &u32| self.chunks[*index as usize].answered;
        while self.awaited.front().is_some_and(is_answered) {
            self.awaited.pop_front();
        }
        Ok(())
    }

    /// Where the next answer most likely belongs: to the chunk that has waited for the longest.
    pub(super) fn likely_target(&self) -> Option<Range<usize>> {
        let index = *self.awaited.front()?;
        Some(self.chunks[index as usize].values.range.clone())
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
