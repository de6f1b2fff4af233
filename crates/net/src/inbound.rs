//! Frames out of a stream of bytes, straight into the memory they are meant for.
//!
//! A read asks for a header and, behind it, for as much payload as the next frame is likely to
//! have, in one call of the system. When the guess is right, as it is in nearly every exchange,
//! a frame costs one call and no copy. What was read too much belongs to the next frame and is
//! kept aside for it. A little more is always asked for, so that an empty socket is noticed
//! without asking it again.

use std::io::{self, IoSliceMut, Read};

use paceline_exchange::{FrameError, HEADER_BYTES, Header};

/// Bytes that are asked for beyond the guess: if they do not come, the socket is known to be
/// empty, and need not be asked again.
const MORE: usize = HEADER_BYTES;

/// What a stream of bytes has come to.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Nothing more can be read now.
    Blocked,
    /// The other end has closed.
    Closed,
    /// A header is complete. The first bytes of its payload may be in the guessed place.
    Header(Header),
    /// The payload is complete too.
    Complete,
}

/// Why a stream cannot be read on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InboundError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("not a frame: {0}")]
    Frame(#[from] FrameError),
}

/// The reading side of one connection.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    head: Vec<u8>,
    header: Option<Header>,
    /// Bytes of the payload that are in place.
    got: usize,
    /// Bytes that were read but belong to frames yet to come, from `spill_at` on.
    spill: Vec<u8>,
    spill_at: usize,
    /// A read brought less than was asked for: the socket is empty until told otherwise.
    drained: bool,
    received_bytes: u64,
}

impl Inbound {
    /// The header whose payload is being read.
    pub(crate) fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Bytes of the present payload that are in place.
    pub(crate) fn got(&self) -> usize {
        self.got
    }

    /// Bytes received since the connection was opened.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Whether nothing more can be read before the system says otherwise.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained && self.spill_at == self.spill.len()
    }

    /// The system says that there may be something to read again.
    pub(crate) fn wake(&mut self) {
        self.drained = false;
    }

    /// Reads on until a header is complete, with `guess` as the likely place of its payload.
    pub(crate) fn read_header(
        &mut self,
        stream: &mut impl Read,
        guess: &mut [u8],
    ) -> Result<Progress, InboundError> {
        debug_assert!(self.header.is_none());
        self.head.resize(HEADER_BYTES, 0);
        let mut more = [0; MORE];
        while self.got < HEADER_BYTES {
            let from_spill = self.take_spill(HEADER_BYTES - self.got);
            if let Some(range) = from_spill {
                let (to, len) = (self.got, range.len());
                self.head[to..to + len].copy_from_slice(&self.spill[range]);
                self.got += len;
                continue;
            }
            if self.drained {
                return Ok(Progress::Blocked);
            }
            let wanted = HEADER_BYTES - self.got + guess.len() + MORE;
            let slices = &mut [
                IoSliceMut::new(&mut self.head[self.got..]),
                IoSliceMut::new(guess),
                IoSliceMut::new(&mut more),
            ];
            let read = stream.read_vectored(slices);
            if let Some(end) = self.note(read, wanted)? {
                return Ok(end);
            }
        }
        let head: &[u8; HEADER_BYTES] =
            self.head[..].try_into().unwrap_or_else(|_| unreachable!("it has that size"));
        let header = Header::decode(head)?;
        self.got -= HEADER_BYTES;
        let in_guess = self.got.min(guess.len());
        let kept = in_guess.min(header.len as usize);
        if self.got > kept {
            debug_assert_eq!(self.spill_at, self.spill.len(), "what was aside came first");
            self.spill.clear();
            self.spill.extend_from_slice(&guess[kept..in_guess]);
            self.spill.extend_from_slice(&more[..self.got - in_guess]);
            self.spill_at = 0;
            self.got = kept;
        }
        self.header = Some(header);
        Ok(Progress::Header(header))
    }

    /// Reads on until the payload fills `place`, whose first [`Inbound::got`] bytes are there.
    pub(crate) fn read_payload(
        &mut self,
        stream: &mut impl Read,
        place: &mut [u8],
    ) -> Result<Progress, InboundError> {
        debug_assert_eq!(self.header.map(|header| header.len as usize), Some(place.len()));
        while self.got < place.len() {
            if let Some(range) = self.take_spill(place.len() - self.got) {
                let (to, len) = (self.got, range.len());
                place[to..to + len].copy_from_slice(&self.spill[range]);
                self.got += len;
                continue;
            }
            if self.drained {
                return Ok(Progress::Blocked);
            }
            let wanted = place.len() - self.got;
            let read = stream.read(&mut place[self.got..]);
            if let Some(end) = self.note(read, wanted)? {
                return Ok(end);
            }
        }
        self.header = None;
        self.got = 0;
        Ok(Progress::Complete)
    }

    /// Takes note of what a read brought, of so much that was wanted; if reading is over for
    /// now, why.
    fn note(&mut self, read: io::Result<usize>, wanted: usize) -> io::Result<Option<Progress>> {
        match read {
            Ok(0) => Ok(Some(Progress::Closed)),
            Ok(n) => {
                self.received_bytes += n as u64;
                self.drained = n < wanted;
                self.got += n;
                Ok(None)
            }
            Err(error) if would_block(&error) => Ok(Some(Progress::Blocked)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes up to `most` bytes that were kept aside, as a range of the spill.
    fn take_spill(&mut self, most: usize) -> Option<std::ops::Range<usize>> {
        let from = self.spill_at;
        let to = self.spill.len().min(from + most);
        self.spill_at = to;
        (from < to).then_some(from..to)
    }
}

/// Whether an error only means "not now".
pub(crate) fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use paceline_exchange::FrameKind;

    use super::*;

    /// Gives its bytes in bites of the given sizes, then says that it would block.
    struct Bites {
        bytes: VecDeque<u8>,
        sizes: Vec<usize>,
        turn: usize,
    }

    impl Read for Bites {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            if self.bytes.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let bite = self.sizes[self.turn % self.sizes.len()].min(out.len());
            self.turn += 1;
            self.bytes.read(&mut out[..bite])
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
                let mut stream = Bites { bytes: bytes.clone(), sizes, turn: 0 };
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
                    if let Progress::Complete =
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
