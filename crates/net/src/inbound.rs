//! Reads frames from a stream of bytes straight into the memory where they belong.
//!
//! A read asks for a header and, behind it, for as much payload as the next frame likely has, in
//! one system call. When the guess is right, as it is in nearly every exchange, a frame costs one
//! call and no copy. Bytes read beyond the frame belong to the next one and are kept aside for it.
//! A read always asks for a few bytes more than the guess, so that it notices an empty socket
//! without a second call.

use std::io::{self, IoSliceMut, Read};
use std::ops::Range;

use paceline_exchange::{FrameError, HEADER_BYTES, Header};
use paceline_trust::{FrameOpener, SEAL_BYTES, SealError};

/// Bytes requested beyond the guess. If they do not come, the socket is empty and need not be
/// asked again.
const EXTRA_BYTES: usize = HEADER_BYTES;

/// How far a read has come.
#[derive(Debug)]
pub(crate) enum ReadProgress {
    /// Nothing more can be read now.
    Blocked,
    /// The other end has closed.
    Closed,
    /// A header is complete. The first bytes of its payload may be in the guessed place.
    Header(Header),
    /// The payload of the frame with this header is complete too.
    Complete(Header),
}

/// Why a stream cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InboundError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("not a frame: {0}")]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// The reading side of one connection.
#[derive(Default)]
pub(crate) struct Inbound {
    /// Checks seals, which follow the header then.
    opener: Option<FrameOpener>,
    head: Vec<u8>,
    header: Option<Header>,
    /// Bytes of the current header or payload that are in place.
    received: usize,
    /// Bytes of later frames that have been read already, from `spill_at` on.
    spill: Vec<u8>,
    spill_at: usize,
    /// A read returned less than requested: the socket is empty until [`Inbound::wake`].
    is_drained: bool,
    /// The other end has closed, so that no event will follow.
    is_ending: bool,
    received_bytes: u64,
}

impl Inbound {
    /// Reads sealed frames if there is an opener.
    pub(crate) fn new(opener: Option<FrameOpener>) -> Self {
        Self { opener, ..Self::default() }
    }

    /// Reads sealed frames from now on, if there is an opener. Nothing has been read yet.
    pub(crate) fn set_opener(&mut self, opener: Option<FrameOpener>) {
        self.opener = opener;
    }

    /// The length of a header with its seals.
    fn head_bytes(&self) -> usize {
        if self.opener.is_some() { HEADER_BYTES + SEAL_BYTES } else { HEADER_BYTES }
    }

    /// The header whose payload is being read.
    pub(crate) fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Bytes of the current payload that are in place.
    pub(crate) fn received(&self) -> usize {
        self.received
    }

    /// Bytes received since the connection was opened.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Whether nothing more can be read before [`Inbound::wake`].
    pub(crate) fn is_drained(&self) -> bool {
        self.is_drained && self.spill_at == self.spill.len()
    }

    /// The poll says that there may be something to read.
    pub(crate) fn wake(&mut self) {
        self.is_drained = false;
    }

    /// The poll says that the other end has closed. No event follows this one, so from now on
    /// everything is read up to the end.
    pub(crate) fn expect_end(&mut self) {
        self.is_ending = true;
        self.wake();
    }

    /// Reads until a header is complete, with `guess` as the likely place of its payload.
    pub(crate) fn read_header(
        &mut self,
        stream: &mut impl Read,
        guess: &mut [u8],
    ) -> Result<ReadProgress, InboundError> {
        debug_assert!(self.header.is_none());
        let head_bytes = self.head_bytes();
        self.head.resize(head_bytes, 0);
        let mut extra = [0; EXTRA_BYTES];
        while self.received < head_bytes {
            if let Some(range) = self.take_spill(head_bytes - self.received) {
                let (to, len) = (self.received, range.len());
                self.head[to..to + len].copy_from_slice(&self.spill[range]);
                self.received += len;
                continue;
            }
            if self.is_drained {
                return Ok(ReadProgress::Blocked);
            }
            let wanted = head_bytes - self.received + guess.len() + EXTRA_BYTES;
            let slices = &mut [
                IoSliceMut::new(&mut self.head[self.received..]),
                IoSliceMut::new(guess),
                IoSliceMut::new(&mut extra),
            ];
            let read = stream.read_vectored(slices);
            if let Some(end) = self.count(read, wanted)? {
                return Ok(end);
            }
        }
        let Some((head, seals)) = self.head.split_first_chunk::<HEADER_BYTES>() else {
            unreachable!("it has that size")
        };
        if let (Some(opener), Some(seals)) = (&mut self.opener, seals.first_chunk()) {
            opener.check_head(head, seals)?;
        }
        let header = Header::decode(head)?;
        self.received -= head_bytes;
        let in_guess = self.received.min(guess.len());
        let kept = in_guess.min(header.len as usize);
        if self.received > kept {
            debug_assert_eq!(self.spill_at, self.spill.len(), "spilled bytes are read first");
            self.spill.clear();
            self.spill.extend_from_slice(&guess[kept..in_guess]);
            self.spill.extend_from_slice(&extra[..self.received - in_guess]);
            self.spill_at = 0;
            self.received = kept;
        }
        self.header = Some(header);
        Ok(ReadProgress::Header(header))
    }

    /// Reads until the payload fills `place`, whose first [`Inbound::received`] bytes are there.
    ///
    /// # Panics
    /// If no header is complete.
    pub(crate) fn read_payload(
        &mut self,
        stream: &mut impl Read,
        place: &mut [u8],
    ) -> Result<ReadProgress, InboundError> {
        let Some(header) = self.header else { unreachable!("a payload follows a header") };
        debug_assert_eq!(header.len as usize, place.len());
        while self.received < place.len() {
            if let Some(range) = self.take_spill(place.len() - self.received) {
                let (to, len) = (self.received, range.len());
                place[to..to + len].copy_from_slice(&self.spill[range]);
                self.received += len;
                continue;
            }
            if self.is_drained {
                return Ok(ReadProgress::Blocked);
            }
            let wanted = place.len() - self.received;
            let read = stream.read(&mut place[self.received..]);
            if let Some(end) = self.count(read, wanted)? {
                return Ok(end);
            }
        }
        self.header = None;
        self.received = 0;
        if let Some(opener) = &mut self.opener {
            opener.check_payload(place)?;
        }
        Ok(ReadProgress::Complete(header))
    }

    /// Counts what a read brought of the `wanted` bytes. Returns why reading is over, if it is.
    fn count(
        &mut self,
        read: io::Result<usize>,
        wanted: usize,
    ) -> io::Result<Option<ReadProgress>> {
        match read {
            Ok(0) => Ok(Some(ReadProgress::Closed)),
            Ok(n) => {
                self.received_bytes += n as u64;
                self.is_drained = n < wanted && !self.is_ending;
                self.received += n;
                Ok(None)
            }
            Err(error) if would_block(&error) => {
                // The event was one of an earlier connection to the same peer.
                self.is_ending = false;
                Ok(Some(ReadProgress::Blocked))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes up to `most` spilled bytes, as a range of the spill.
    fn take_spill(&mut self, most: usize) -> Option<Range<usize>> {
        let from = self.spill_at;
        let to = self.spill.len().min(from + most);
        self.spill_at = to;
        (from < to).then_some(from..to)
    }
}

/// Whether an error only means that the socket is not ready.
pub(crate) fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use paceline_exchange::FrameKind;

    use super::*;

    /// Returns its bytes in pieces of the given sizes, then would block.
    struct ChoppyReader {
        bytes: VecDeque<u8>,
        sizes: Vec<usize>,
        turn: usize,
    }

    impl Read for ChoppyReader {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            if self.bytes.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let len = self.sizes[self.turn % self.sizes.len()].min(out.len());
            self.turn += 1;
            self.bytes.read(&mut out[..len])
        }

        fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            let mut whole = vec![0; slices.iter().map(|slice| slice.len()).sum()];
            let n = self.read(&mut whole)?;
            let mut at = 0;
            for slice in slices {
                let len = slice.len().min(n - at);
                slice[..len].copy_from_slice(&whole[at..at + len]);
                at += len;
            }
            Ok(n)
        }
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_are_cut_and_guessed() {
        let payload = |len: usize| (0..len).map(|i| (i * 7 + len) as u8).collect();
        let payloads: Vec<Vec<u8>> = [8, 0, 40, 4, 100, 400, 0, 0, 12].map(payload).to_vec();
        let mut bytes = VecDeque::new();
        for payload in &payloads {
            let kind = if payload.is_empty() { FrameKind::Pull } else { FrameKind::Push };
            bytes.extend(Header::new(kind, payload.len()).encode());
            bytes.extend(payload);
        }
        for guess_len in [0, 4, 40, 100, 1000] {
            for sizes in [vec![1], vec![7, 41], vec![40], vec![1000], vec![3, 500]] {
                let mut stream = ChoppyReader { bytes: bytes.clone(), sizes, turn: 0 };
                let mut inbound = Inbound::default();
                let mut got = Vec::new();
                let mut place = vec![0; guess_len.max(1000)];
                while got.len() < payloads.len() {
                    inbound.wake();
                    if inbound.header().is_none() {
                        inbound.read_header(&mut stream, &mut place[..guess_len]).unwrap();
                    }
                    let Some(header) = inbound.header() else { continue };
                    let len = header.len as usize;
                    if let ReadProgress::Complete(_) =
                        inbound.read_payload(&mut stream, &mut place[..len]).unwrap()
                    {
                        got.push(place[..len].to_vec());
                    }
                }
                assert_eq!(got, payloads, "guess {guess_len}");
            }
        }
    }
}
