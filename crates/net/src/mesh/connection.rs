//! One connection to another worker: frames in and out, without copies.

use std::io;

use mio::net::TcpStream;
use paceline_exchange::{
    FrameKind, HEADER_BYTES, Header, PeerSource, PeerTarget, ProtocolError, Replica, ReplicaError,
    ReplicaEvent, as_bytes,
};

use crate::error::LinkError;
use crate::inbound::{Inbound, InboundError, Progress};
use crate::outbound::{Outbound, write_frame};
use crate::traffic::Traffic;

/// Why a worker cannot go on.
#[derive(Debug)]
pub(super) enum Fault {
    /// A peer is gone, or does not keep to the protocol.
    Lost { slot: usize, why: String },
    /// Anything else.
    Failed(LinkError),
}

impl Fault {
    pub(super) fn lost(slot: usize, why: impl std::fmt::Display) -> Self {
        Fault::Lost { slot, why: why.to_string() }
    }

    /// The fault as whoever uses a mesh is told of it.
    pub(super) fn into_error(self) -> LinkError {
        match self {
            Fault::Lost { why, .. } => LinkError::Aborted(why),
            Fault::Failed(error) => error,
        }
    }

    fn of(slot: usize, error: ReplicaError) -> Self {
        match error {
            ReplicaError::Protocol(error) => Fault::lost(slot, error),
            error => error.into(),
        }
    }
}

impl From<LinkError> for Fault {
    fn from(error: LinkError) -> Self {
        Fault::Failed(error)
    }
}

impl From<ReplicaError> for Fault {
    fn from(error: ReplicaError) -> Self {
        Fault::Failed(LinkError::Aborted(error.to_string()))
    }
}

/// A frame that the socket has not taken whole.
struct Sending {
    head: [u8; HEADER_BYTES],
    source: PeerSource,
    written: usize,
}

/// One connection.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// There may be something to read.
    readable: bool,
    /// The other end has closed; there may still be something to read.
    pub(super) has_ended: bool,
    /// Everything has been read, and the other end has closed.
    pub(super) is_closed: bool,
    inbound: Inbound,
    /// Where the present payload goes.
    target: Option<PeerTarget>,
    control: Vec<u8>,
    outbound: Outbound,
    sending: Option<Sending>,
    sent_part_bytes: u64,
    /// The last frame is on its way.
    has_last: bool,
    /// What the last frame that arrived was the first part of, if it was one.
    first_part: Option<FrameKind>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            readable: true,
            has_ended: false,
            is_closed: false,
            inbound: Inbound::default(),
            target: None,
            control: Vec::new(),
            outbound: Outbound::default(),
            sending: None,
            sent_part_bytes: 0,
            has_last: false,
            first_part: None,
        }
    }

    fn sent_bytes(&self) -> u64 {
        self.outbound.sent_bytes() + self.sent_part_bytes
    }

    /// Bytes sent and received.
    pub(super) fn traffic(&self) -> Traffic {
        Traffic { sent: self.sent_bytes(), received: self.inbound.received_bytes() }
    }

    pub(super) fn wake(&mut self) {
        self.readable = true;
        self.inbound.wake();
    }

    /// Whether everything that was begun to be sent is gone.
    pub(super) fn is_sent(&self) -> bool {
        self.sending.is_none() && self.outbound.is_empty()
    }

    /// Sends a control frame; what the socket does not take is kept.
    pub(super) fn send_control(
        &mut self,
        slot: usize,
        header: &Header,
        body: &[u8],
    ) -> Result<(), Fault> {
        let frame = [&header.encode()[..], body].concat();
        self.outbound.send(&mut self.stream, &frame).map_err(|error| Fault::lost(slot, error))
    }

    /// Sends a frame once: again and again called, it is written on.
    pub(super) fn send_last(&mut self, frame: &[u8]) -> io::Result<()> {
        if self.has_last {
            return self.outbound.flush(&mut self.stream);
        }
        self.has_last = true;
        self.outbound.send(&mut self.stream, frame)
    }

    /// Sends what the step has for this peer until the socket takes no more; says whether it
    /// took anything.
    pub(super) fn send_parts(
        &mut self,
        slot: usize,
        replica: &mut Replica,
        gradient: &[f32],
    ) -> Result<bool, Fault> {
        let before = self.sent_bytes();
        self.outbound.flush(&mut self.stream).map_err(|error| Fault::lost(slot, error))?;
        while self.outbound.is_empty() {
            if self.sending.is_none() {
                let Some(next) = replica.next_frame(slot) else { break };
                let (head, source) = (next.header.encode(), next.source);
                self.sending = Some(Sending { head, source, written: 0 });
            }
            let sent = self.send_on(replica, gradient);
            if !sent.map_err(|error| Fault::lost(slot, error))? {
                break;
            }
        }
        Ok(self.sent_bytes() > before)
    }

    /// Goes on with the frame that is being sent; says whether all of it is gone.
    pub(super) fn send_on(&mut self, replica: &Replica, gradient: &[f32]) -> io::Result<bool> {
        let Some(sending) = &mut self.sending else { return Ok(true) };
        let body = as_bytes(replica.payload(&sending.source, gradient));
        let written = write_frame(&mut self.stream, [&sending.head, body, &[]], sending.written)?;
        self.sent_part_bytes += (written - sending.written) as u64;
        sending.written = written;
        let is_whole = written == HEADER_BYTES + body.len();
        if is_whole {
            self.sending = None;
        }
        Ok(is_whole)
    }

    /// Reads a frame that is no part of a step; none if it is not here yet.
    pub(super) fn read_control(&mut self) -> Result<Option<(Header, &[u8])>, String> {
        loop {
            let progress = match self.inbound.header() {
                None => self.inbound.read_header(&mut self.stream, &mut []),
                Some(header) if header.kind.carries_floats() => {
                    return Err(ProtocolError::Unexpected(header.kind).to_string());
                }
                Some(header) => {
                    let header = *header;
                    self.control.resize(header.len as usize, 0);
                    let read = self.inbound.read_payload(&mut self.stream, &mut self.control);
                    if let Ok(Progress::Complete) = read {
                        return Ok(Some((header, &self.control)));
                    }
                    read
                }
            };
            match progress.map_err(|error| error.to_string())? {
                Progress::Header(_) | Progress::Complete => {}
                Progress::Blocked => return Ok(None),
                Progress::Closed => return Err("it closed the connection".into()),
            }
        }
    }

    /// What the last frame was the first part of, if it was one; said once.
    pub(super) fn takes_first_part(&mut self) -> Option<FrameKind> {
        self.first_part.take()
    }

    /// Reads until a frame has arrived; none if nothing can be read now, or its turn has not
    /// come.
    pub(super) fn read_event(
        &mut self,
        slot: usize,
        replica: &mut Replica,
    ) -> Result<Option<ReplicaEvent>, Fault> {
        if !self.readable {
            return Ok(None);
        }
        loop {
            let read = match (self.inbound.header().copied(), self.target.clone()) {
                (None, _) => self.read_header(slot, replica)?,
                (Some(header), None) => {
                    if !self.aim(slot, &header, None, replica)? {
                        return Ok(None);
                    }
                    continue;
                }
                (Some(header), Some(target)) => {
                    let place = match target {
                        PeerTarget::Bytes(_) => &mut self.control[..],
                        _ => replica.target_bytes(slot, &target),
                    };
                    let read = self.inbound.read_payload(&mut self.stream, place);
                    if let Ok(Progress::Complete) = read {
                        let is_bytes = matches!(self.target.take(), Some(PeerTarget::Bytes(_)));
                        let is_first = header.kind.carries_floats() && header.chunk == 0;
                        self.first_part = is_first.then_some(header.kind);
                        let bytes = if is_bytes { &self.control[..] } else { &[] };
                        let event = replica.frame_arrived(slot, &header, bytes);
                        return event.map(Some).map_err(|error| Fault::of(slot, error));
                    }
                    read
                }
            };
            match read.map_err(|error| Fault::lost(slot, error))? {
                Progress::Header(_) | Progress::Complete => {
                    if self.target.is_none() {
                        return Ok(None);
                    }
                }
                Progress::Blocked => {
                    self.readable = false;
                    return Ok(None);
                }
                Progress::Closed => {
                    (self.readable, self.has_ended, self.is_closed) = (false, true, true);
                    return match replica.needs(slot) {
                        true => Err(Fault::lost(slot, "it closed the connection")),
                        false => Ok(None),
                    };
                }
            }
        }
    }

    /// Reads a header and, where its place can be foretold, its payload with it.
    fn read_header(
        &mut self,
        slot: usize,
        replica: &mut Replica,
    ) -> Result<Result<Progress, InboundError>, Fault> {
        let likely = replica.likely_target(slot);
        let place =
            likely.as_ref().map_or(&mut [][..], |likely| replica.target_bytes(slot, likely));
        let read = self.inbound.read_header(&mut self.stream, place);
        if let Ok(Progress::Header(header)) = &read {
            self.aim(slot, header, likely, replica)?;
        }
        Ok(read)
    }

    /// Finds out where the payload of the present frame goes; says whether its turn has come.
    /// What has been read of it lies at the likely place.
    fn aim(
        &mut self,
        slot: usize,
        header: &Header,
        likely: Option<PeerTarget>,
        replica: &mut Replica,
    ) -> Result<bool, Fault> {
        let place = replica.read_target(slot, header).map_err(|error| Fault::lost(slot, error))?;
        let got = self.inbound.got();
        match &place {
            PeerTarget::Later if self.has_ended && replica.is_lost_before(header) => {
                return Err(Fault::lost(slot, "it closed the connection"));
            }
            PeerTarget::Later if got == 0 => return Ok(false),
            PeerTarget::Bytes(len) => {
                self.control.clear();
                self.control.resize(*len, 0);
                if let Some(likely) = likely {
                    let read = &replica.target_bytes(slot, &likely)[..got];
                    self.control[..got].copy_from_slice(read);
                }
            }
            // What can be foretold comes as foretold, or somebody breaks the protocol.
            place if got > 0 && likely.as_ref() != Some(place) => {
                return Err(Fault::lost(slot, ProtocolError::Unexpected(header.kind)));
            }
            _ => {}
        }
        self.target = Some(place);
        Ok(true)
    }

    /// Of a peer that is lost: why its run failed, if it could still say so. Whatever else it had
    /// sent is read and forgotten.
    pub(super) fn last_words(&mut self) -> Option<String> {
        self.wake();
        loop {
            let progress = match self.inbound.header().copied() {
                None => self.inbound.read_header(&mut self.stream, &mut []),
                Some(header) => {
                    self.control.resize(header.len as usize, 0);
                    let read = self.inbound.read_payload(&mut self.stream, &mut self.control);
                    if matches!(read, Ok(Progress::Complete)) && header.kind == FrameKind::Abort {
                        return Some(String::from_utf8_lossy(&self.control).into_owned());
                    }
                    read
                }
            };
            match progress {
                Ok(Progress::Header(_) | Progress::Complete) => self.inbound.wake(),
                Ok(Progress::Blocked) => return None,
                Ok(Progress::Closed) | Err(_) => {
                    (self.has_ended, self.is_closed) = (true, true);
                    return None;
                }
            }
        }
    }
}
