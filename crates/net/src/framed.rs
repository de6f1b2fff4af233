//! A connection that carries frames: one at a time in each direction, without copies.
//!
//! The client's connections to servers, the mesh's connections to other workers and the roster's
//! connection are all a [`FramedConnection`]. Control frames are copied, since they are short and
//! rare. The payload of a chunk goes straight from the caller's memory to the socket
//! ([`FrameSource`]) and straight from the socket to where it belongs ([`FrameSink`]); a frame that
//! the socket takes or gives only in pieces is continued at the next call.
//!
//! A server's connections are not of this type: there, any thread may write to a connection while
//! one thread reads from it (see `serve/connection.rs`).

use std::io::{self, Write};

use mio::event::Event;
use paceline_exchange::{
    CONTROL_BYTES, ControlFrame, FrameKind, Header, Hello, ProtocolError, Refusal,
};
use paceline_trust::{Accepted, Claims, Credentials, FrameKeys};

use crate::inbound::{Inbound, InboundError, ReadProgress};
use crate::opening::{Accepting, Dialing, OpeningError, check_claims, claims_of};
use crate::outbound::{FrameHead, Outbound, write_frame};
use crate::peer_stream::PeerStream;
use crate::traffic::Traffic;

/// The most control frames that wait until a connection is open.
const MAX_EARLY_FRAMES: usize = 16;

/// A frame that a source supplies.
pub(crate) struct SourceFrame<O> {
    pub(crate) header: Header,
    /// Where the payload is.
    pub(crate) origin: O,
}

/// Supplies the frames that a connection sends.
pub(crate) trait FrameSource {
    /// Says where the payload of a frame is.
    type Origin;

    /// The next frame to send, if there is one.
    fn next_frame(&mut self) -> Option<SourceFrame<Self::Origin>>;

    /// The payload's bytes, in up to two pieces.
    fn bytes(&self, origin: &Self::Origin) -> [&[u8]; 2];
}

/// Provides the memory that received payloads are read into.
pub(crate) trait FrameSink {
    /// Says where the payload of a frame goes.
    type Target;

    /// The memory that the payload of the next frame likely belongs to; empty if that is unknown.
    /// A header and its payload then take one system call.
    fn likely_place(&mut self) -> &mut [u8];

    /// Decides where the payload of the frame with this header goes. Its first `received` bytes
    /// are at the likely place, and must be moved if they belong elsewhere. A control payload goes
    /// to `control`, which must then have the payload's length. Returns `None` if the frame must
    /// wait unread; that is allowed only if `received` is 0.
    fn aim(
        &mut self,
        header: &Header,
        received: usize,
        control: &mut Vec<u8>,
    ) -> Result<Option<Self::Target>, String>;

    /// The memory of a target; `None` if that is the control buffer.
    fn place(&mut self, target: &Self::Target) -> Option<&mut [u8]>;
}

/// The result of [`FramedConnection::read_frame`].
pub(crate) enum FrameRead {
    /// A frame arrived. A control payload is in [`FramedConnection::control`], any other where
    /// the sink wants it.
    Frame {
        /// The frame's header.
        header: Header,
        /// Whether the payload is in the control buffer.
        is_control: bool,
    },
    /// Nothing can be read now, or the next frame has to wait.
    Blocked,
    /// The other end has closed the connection, and everything has been read.
    Closed,
}

/// Why a connection cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FramedError {
    /// The socket failed, or its bytes are no frame.
    #[error(transparent)]
    Stream(#[from] InboundError),
    /// The other end violates the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The connection could not be opened.
    #[error(transparent)]
    Opening(#[from] OpeningError),
}

/// A connection that is not open yet.
enum Opening {
    Dialing(Dialing),
    Accepting(Accepting),
}

/// How far the opening of a connection has come.
enum HandshakeProgress {
    Open,
    Blocked,
    /// The other end belongs to another run. This refusal stands for the frame with which it would
    /// say so.
    Refused(Refusal),
}

/// A frame that the socket has not taken whole.
struct SendingFrame<O> {
    head: FrameHead,
    origin: O,
    written: usize,
}

/// A connection that carries frames. `O` says where the payload of a sent frame is, `T` where the
/// payload of a received frame goes; a connection that carries only control frames needs neither.
pub(crate) struct FramedConnection<O = (), T = ()> {
    stream: PeerStream,
    /// The handshake, until it is complete.
    opening: Option<Opening>,
    /// Control frames that wait until it is.
    early: Vec<ControlFrame>,
    /// What the other end claimed in the handshake, if it opened the connection.
    claims: Option<Claims>,
    /// There may be something to read.
    is_readable: bool,
    inbound: Inbound,
    /// Where the current payload goes, once that is decided.
    target: Option<T>,
    /// The payload of the last control frame.
    control: Vec<u8>,
    outbound: Outbound,
    sending: Option<SendingFrame<O>>,
    /// Bytes sent of frames with a payload from a source; `outbound` counts the others.
    sent_source_bytes: u64,
}

impl<O, T> FramedConnection<O, T> {
    /// A connection that this task has opened. Its first frame is `hello`.
    pub(crate) fn dial(
        stream: PeerStream,
        credentials: &Credentials,
        hello: ControlFrame,
    ) -> Result<Self, OpeningError> {
        let Ok(claims) = Hello::decode(&hello.body).map(|hello| claims_of(&hello)) else {
            unreachable!("this task made it")
        };
        let is_sealed = credentials.seals(stream.peer().ip());
        let dialing = Dialing::begin(&mut &stream, credentials, claims, is_sealed)?;
        let connection = Self::new(stream, Some(Opening::Dialing(dialing)));
        Ok(Self { early: vec![hello], ..connection })
    }

    /// A connection that another task has opened.
    pub(crate) fn accept(stream: PeerStream, credentials: &Credentials) -> Self {
        let requires_seals = credentials.seals(stream.peer().ip());
        let accepting = Accepting::new(credentials, requires_seals);
        Self::new(stream, Some(Opening::Accepting(accepting)))
    }

    fn new(stream: PeerStream, opening: Option<Opening>) -> Self {
        Self {
            stream,
            opening,
            early: Vec::new(),
            claims: None,
            is_readable: true,
            inbound: Inbound::default(),
            target: None,
            control: Vec::new(),
            outbound: Outbound::default(),
            sending: None,
            sent_source_bytes: 0,
        }
    }

    pub(crate) fn stream(&mut self) -> &mut PeerStream {
        &mut self.stream
    }

    /// Whether the other end may be this task.
    pub(crate) fn may_be(&self, task: &str) -> bool {
        self.stream.may_be(task)
    }

    /// Continues the handshake with what has arrived.
    fn open(&mut self) -> Result<HandshakeProgress, OpeningError> {
        let Some(opening) = &mut self.opening else { return Ok(HandshakeProgress::Open) };
        let opened = match opening {
            Opening::Dialing(dialing) => dialing.advance(&mut &self.stream),
            Opening::Accepting(accepting) => accepting.advance(&mut &self.stream).map(|accepted| {
                let Accepted { claims, keys } = accepted?;
                self.claims = Some(claims);
                Some(keys)
            }),
        };
        match opened {
            Ok(None) => Ok(HandshakeProgress::Blocked),
            Ok(Some(keys)) => {
                self.opening = None;
                self.inbound.set_opener(keys.as_ref().map(FrameKeys::opener));
                self.outbound = Outbound::new(keys.as_ref().map(FrameKeys::sealer));
                for ControlFrame { header, body } in std::mem::take(&mut self.early) {
                    self.send_control(&header, &body)?;
                }
                Ok(HandshakeProgress::Open)
            }
            Err(error) => error.as_refusal().map(HandshakeProgress::Refused).ok_or(error),
        }
    }

    /// Puts a refusal where the other end's own would be.
    fn refused(&mut self, refusal: &Refusal) -> Header {
        self.control = refusal.encode();
        Header::new(FrameKind::Refuse, self.control.len())
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic { sent: self.sent_bytes(), received: self.inbound.received_bytes() }
    }

    fn sent_bytes(&self) -> u64 {
        self.outbound.sent_bytes() + self.sent_source_bytes
    }

    /// The poll says that there may be something to read.
    pub(crate) fn wake(&mut self) {
        self.is_readable = true;
        self.inbound.wake();
    }

    /// An event of the poll concerns this connection.
    pub(crate) fn wake_by(&mut self, event: &Event) {
        self.wake();
        if event.is_read_closed() {
            self.inbound.expect_end();
        }
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// The payload of the last control frame.
    pub(crate) fn control(&self) -> &[u8] {
        &self.control
    }

    /// Whether the socket has taken everything that was sent.
    pub(crate) fn is_sent(&self) -> bool {
        let is_written =
            self.sending.is_none() && self.early.is_empty() && self.outbound.is_empty();
        is_written && self.stream.unsent_bytes() == 0
    }

    /// Sends a control frame. What the socket does not take now is kept for [`Self::flush`].
    pub(crate) fn send_control(&mut self, header: &Header, body: &[u8]) -> io::Result<()> {
        if self.opening.is_some() {
            if self.early.len() >= MAX_EARLY_FRAMES {
                return Err(io::Error::other("the other end does not complete the handshake"));
            }
            self.early.push(ControlFrame { header: *header, body: body.to_vec() });
            return Ok(());
        }
        let head = self.outbound.head(header, &[body]);
        let frame = [head.bytes(), body].concat();
        self.outbound.send(&mut &self.stream, &frame)
    }

    /// Writes kept control frames, as far as the socket takes them.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.outbound.flush(&mut &self.stream)?;
        (&self.stream).flush()
    }

    /// Sends the source's frames until the socket takes no more. Returns whether it took any byte.
    pub(crate) fn send_frames(
        &mut self,
        source: &mut impl FrameSource<Origin = O>,
    ) -> io::Result<bool> {
        if self.opening.is_some() {
            return Ok(false);
        }
        let before = self.sent_bytes();
        self.flush()?;
        while self.outbound.is_empty() {
            if self.sending.is_none() {
                let Some(SourceFrame { header, origin }) = source.next_frame() else { break };
                let head = self.outbound.head(&header, &source.bytes(&origin));
                self.sending = Some(SendingFrame { head, origin, written: 0 });
            }
            if !self.continue_frame(source)? {
                break;
            }
        }
        Ok(self.sent_bytes() > before)
    }

    /// Continues the frame that the socket has taken in part. Returns whether nothing of it is
    /// left.
    pub(crate) fn continue_frame(
        &mut self,
        source: &impl FrameSource<Origin = O>,
    ) -> io::Result<bool> {
        let Some(sending) = &mut self.sending else { return Ok(true) };
        let [first, second] = source.bytes(&sending.origin);
        let frame = [sending.head.bytes(), first, second];
        let written = write_frame(&mut &self.stream, frame, sending.written)?;
        self.sent_source_bytes += (written - sending.written) as u64;
        sending.written = written;
        let is_whole = written == sending.head.bytes().len() + first.len() + second.len();
        if is_whole {
            self.sending = None;
        }
        Ok(is_whole)
    }

    /// Reads until a frame has arrived or nothing more can be read now.
    pub(crate) fn read_frame(
        &mut self,
        sink: &mut impl FrameSink<Target = T>,
    ) -> Result<FrameRead, FramedError> {
        if !self.is_readable {
            return Ok(FrameRead::Blocked);
        }
        match self.open().inspect_err(|_| self.is_readable = false)? {
            HandshakeProgress::Open => {}
            HandshakeProgress::Blocked => {
                self.is_readable = false;
                return Ok(FrameRead::Blocked);
            }
            HandshakeProgress::Refused(refusal) => {
                let header = self.refused(&refusal);
                return Ok(FrameRead::Frame { header, is_control: true });
            }
        }
        loop {
            let progress = match (self.inbound.header().copied(), &self.target) {
                (None, _) => self.inbound.read_header(&mut &self.stream, sink.likely_place()),
                (Some(header), None) => Ok(ReadProgress::Header(header)),
                (Some(_), Some(target)) => {
                    let place = sink.place(target).unwrap_or(&mut self.control);
                    self.inbound.read_payload(&mut &self.stream, place)
                }
            };
            match progress.inspect_err(|_| self.is_readable = false)? {
                ReadProgress::Header(header) => {
                    let received = self.inbound.received();
                    let target = sink.aim(&header, received, &mut self.control);
                    self.target = target.map_err(FramedError::Protocol)?;
                    if self.target.is_none() {
                        return Ok(FrameRead::Blocked);
                    }
                }
                ReadProgress::Complete(header) => {
                    let target = self.target.take();
                    let is_control = target.is_none_or(|target| sink.place(&target).is_none());
                    return Ok(FrameRead::Frame { header, is_control });
                }
                ReadProgress::Blocked => {
                    self.is_readable = false;
                    return Ok(FrameRead::Blocked);
                }
                ReadProgress::Closed => {
                    self.is_readable = false;
                    return Ok(FrameRead::Closed);
                }
            }
        }
    }

    /// Reads a control frame, without a sink; `None` if none has arrived in full. Frames of a kind
    /// that may be longer than [`CONTROL_BYTES`] are refused before memory is set aside for them.
    pub(crate) fn read_control(&mut self) -> Result<Option<Header>, String> {
        self.read_control_if(|kind| kind.max_payload_bytes() <= CONTROL_BYTES)
    }

    /// As [`Self::read_control`], for a peer that has not said which one it is. What it says must
    /// agree with what it proved in the handshake.
    pub(crate) fn read_hello(&mut self) -> Result<Option<Header>, String> {
        let header = self.read_control_if(|kind| kind == FrameKind::Hello)?;
        if header.is_some() {
            check_claims(self.claims, &self.control)?;
        }
        Ok(header)
    }

    fn read_control_if(
        &mut self,
        may_arrive: impl Fn(FrameKind) -> bool,
    ) -> Result<Option<Header>, String> {
        match self.open().map_err(|error| error.to_string())? {
            HandshakeProgress::Open => {}
            HandshakeProgress::Blocked => return Ok(None),
            HandshakeProgress::Refused(refusal) => return Ok(Some(self.refused(&refusal))),
        }
        loop {
            if let Some(header) = self.inbound.header()
                && !may_arrive(header.kind)
            {
                return Err(ProtocolError::Unexpected(header.kind).to_string());
            }
            match self.read_buffered().map_err(|error| error.to_string())? {
                ReadProgress::Header(_) => {}
                ReadProgress::Complete(header) => return Ok(Some(header)),
                ReadProgress::Blocked => return Ok(None),
                ReadProgress::Closed => return Err("it closed the connection".into()),
            }
        }
    }

    /// Reads more of a header or, after that, of a payload of any kind into the control buffer.
    pub(crate) fn read_buffered(&mut self) -> Result<ReadProgress, InboundError> {
        if self.opening.is_some() {
            return Ok(ReadProgress::Blocked);
        }
        let Some(header) = self.inbound.header() else {
            return self.inbound.read_header(&mut &self.stream, &mut []);
        };
        self.control.resize(header.len as usize, 0);
        self.inbound.read_payload(&mut &self.stream, &mut self.control)
    }
}

#[cfg(test)]
mod tests;
