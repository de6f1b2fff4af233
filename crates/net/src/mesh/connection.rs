//! One connection to another worker.

use std::io;
use std::net::Shutdown;

use mio::event::Event;
use mio::{Registry, Token};
use paceline_exchange::{
    FrameKind, Header, PeerSource, PeerTarget, ProtocolError, Replica, ReplicaEvent, StepMemory,
};

use super::fault::MeshFault;
use crate::error::LinkError;
use crate::framed::{FrameRead, FrameSink, FrameSource, FramedConnection, SourceFrame};
use crate::inbound::ReadProgress;
use crate::socket::BOTH_WAYS;
use crate::traffic::Traffic;

/// Why a connection counts as lost when the other end has closed it.
pub(super) const CLOSED: &str = "it closed the connection";

/// One connection to another worker.
pub(super) struct MeshConnection {
    frames: FramedConnection<PeerSource, PeerTarget>,
    /// The other end has closed; there may still be something to read.
    pub(super) has_ended: bool,
    /// The other end has closed, and everything has been read.
    pub(super) is_closed: bool,
    /// The last frame of this connection has been sent, at least in part.
    has_last: bool,
    /// The kind of the frame that arrived last, if it was the first chunk of something.
    first_chunk: Option<FrameKind>,
}

impl MeshConnection {
    pub(super) fn new(frames: FramedConnection<PeerSource, PeerTarget>) -> Self {
        Self { frames, has_ended: false, is_closed: false, has_last: false, first_chunk: None }
    }

    /// Where the other end is, as the end of a sentence.
    pub(super) fn peer_address(&mut self) -> String {
        format!(" at {}", self.frames.stream().peer())
    }

    /// Whether the other end may be this task.
    pub(super) fn may_be(&self, task: &str) -> bool {
        self.frames.may_be(task)
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.frames.traffic()
    }

    pub(super) fn wake(&mut self) {
        self.frames.wake();
    }

    /// An event of the poll concerns this connection.
    pub(super) fn wake_by(&mut self, event: &Event) {
        self.frames.wake_by(event);
        self.has_ended |= event.is_read_closed();
    }

    /// Whether the socket has taken everything that was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.frames.is_sent()
    }

    /// Makes the connection known to its poll by another token.
    pub(super) fn reregister(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.reregister(self.frames.stream().socket_mut(), token, BOTH_WAYS)
    }

    pub(super) fn send_control(&mut self, header: &Header, body: &[u8]) -> io::Result<()> {
        self.frames.send_control(header, body)
    }

    /// Sends what the step has for this peer until the socket takes no more. Returns whether it
    /// took any byte.
    pub(super) fn send_chunks(
        &mut self,
        slot: usize,
        replica: &mut Replica,
        memory: &dyn StepMemory,
    ) -> Result<bool, MeshFault> {
        let sent = self.frames.send_frames(&mut ReplicaSource { replica, slot, memory });
        sent.map_err(|error| MeshFault::lost(slot, error))
    }

    /// Finishes the frame that has been sent in part, then sends a last control frame, then closes
    /// this direction. Returns whether all that is done; if not, it must be called again.
    pub(super) fn send_last(
        &mut self,
        header: &Header,
        body: &[u8],
        replica: &mut Replica,
        memory: &dyn StepMemory,
    ) -> io::Result<bool> {
        // The frame in question is known already, so the slot is not asked for another one.
        let source = ReplicaSource { replica, slot: 0, memory };
        if !self.frames.continue_frame(&source)? {
            return Ok(false);
        }
        if std::mem::replace(&mut self.has_last, true) {
            self.frames.flush()?;
        } else {
            self.frames.send_control(header, body)?;
        }
        if self.frames.is_sent() {
            self.frames.stream().shutdown(Shutdown::Write)?;
        }
        Ok(self.frames.is_sent())
    }

    /// Reads a control frame, outside of a step; `None` if none has arrived in full.
    /// Its payload is in [`Self::control`].
    pub(super) fn read_control(&mut self) -> Result<Option<Header>, String> {
        self.frames.read_control()
    }

    /// As [`Self::read_control`], but accepts only a `Hello`.
    pub(super) fn read_hello(&mut self) -> Result<Option<Header>, String> {
        self.frames.read_hello()
    }

    /// The payload of the last control frame.
    pub(super) fn control(&self) -> &[u8] {
        self.frames.control()
    }

    /// The kind of the last frame, if it was the first chunk of something; returned once.
    pub(super) fn take_first_chunk(&mut self) -> Option<FrameKind> {
        self.first_chunk.take()
    }

    /// Reads until a frame has arrived; `None` if nothing can be read now, or its turn has not
    /// come.
    pub(super) fn read_event(
        &mut self,
        slot: usize,
        replica: &mut Replica,
        memory: &mut dyn StepMemory,
    ) -> Result<Option<ReplicaEvent>, MeshFault> {
        let has_ended = self.has_ended;
        let sink = &mut ReplicaSink { replica, slot, memory, likely: None, has_ended };
        match self.frames.read_frame(sink).map_err(|error| MeshFault::lost(slot, error))? {
            FrameRead::Frame { header, is_control } => {
                let carries =
                    header.kind.carries_floats() || header.kind == FrameKind::KeyedGradient;
                let is_first = carries && header.chunk == 0;
                self.first_chunk = is_first.then_some(header.kind);
                let bytes = if is_control { self.frames.control() } else { &[] };
                let event = replica.frame_arrived(slot, &header, bytes, memory);
                event.map(Some).map_err(|error| MeshFault::on_frame(slot, error))
            }
            FrameRead::Blocked => Ok(None),
            FrameRead::Closed => {
                (self.has_ended, self.is_closed) = (true, true);
                if replica.needs(slot) {
                    return Err(MeshFault::lost(slot, CLOSED));
                }
                Ok(None)
            }
        }
    }

    /// Finishes the frame that has been sent in part. Returns whether nothing of it is left.
    pub(super) fn finish_frame(
        &mut self,
        replica: &mut Replica,
        memory: &dyn StepMemory,
    ) -> io::Result<bool> {
        self.frames.continue_frame(&ReplicaSource { replica, slot: 0, memory })
    }

    /// Why the other worker's run ended, if it has sent that before it ended. Reads and discards
    /// everything else that it has sent.
    pub(super) fn read_abort_reason(&mut self) -> Option<LinkError> {
        let header = self.skip_to(&[FrameKind::Abort, FrameKind::Stop])?;
        if header.kind == FrameKind::Stop {
            return Some(LinkError::CutShort);
        }
        Some(LinkError::Aborted(String::from_utf8_lossy(self.frames.control()).into_owned()))
    }

    /// The report with which the other worker leaves, if it has arrived. Reads and discards
    /// everything else.
    pub(super) fn read_leave(&mut self) -> Option<&[u8]> {
        self.skip_to(&[FrameKind::Leave])?;
        Some(self.frames.control())
    }

    /// Reads and discards frames up to one of these kinds.
    fn skip_to(&mut self, kinds: &[FrameKind]) -> Option<Header> {
        loop {
            self.frames.wake();
            match self.frames.read_buffered() {
                Ok(ReadProgress::Complete(header)) if kinds.contains(&header.kind) => {
                    return Some(header);
                }
                Ok(ReadProgress::Header(_) | ReadProgress::Complete(_)) => {}
                Ok(ReadProgress::Blocked) => return None,
                Ok(ReadProgress::Closed) | Err(_) => {
                    (self.has_ended, self.is_closed) = (true, true);
                    return None;
                }
            }
        }
    }
}

/// The frames that a replica sends to one peer.
struct ReplicaSource<'a> {
    replica: &'a mut Replica,
    slot: usize,
    memory: &'a dyn StepMemory,
}

impl FrameSource for ReplicaSource<'_> {
    type Origin = PeerSource;

    fn next_frame(&mut self) -> Option<SourceFrame<PeerSource>> {
        let next = self.replica.next_frame(self.slot, self.memory)?;
        Some(SourceFrame { header: next.header, origin: next.source })
    }

    fn bytes(&self, source: &PeerSource) -> [&[u8]; 2] {
        [self.replica.payload(source, self.memory), self.replica.payload_tail(source)]
    }
}

/// Reads the payloads of one peer's frames into the replica.
struct ReplicaSink<'a> {
    replica: &'a mut Replica,
    slot: usize,
    memory: &'a mut dyn StepMemory,
    likely: Option<PeerTarget>,
    /// The other end has closed.
    has_ended: bool,
}

impl FrameSink for ReplicaSink<'_> {
    type Target = PeerTarget;

    fn likely_place(&mut self) -> &mut [u8] {
        self.likely = self.replica.likely_target(self.slot);
        let Some(likely) = &self.likely else { return &mut [] };
        self.replica.target_bytes(self.slot, likely, self.memory)
    }

    fn aim(
        &mut self,
        header: &Header,
        received: usize,
        control: &mut Vec<u8>,
    ) -> Result<Option<PeerTarget>, String> {
        let target = self.replica.read_target(self.slot, header).map_err(|e| e.to_string())?;
        match &target {
            PeerTarget::Later if self.has_ended && self.replica.is_lost_before(header) => {
                return Err(CLOSED.into());
            }
            PeerTarget::Later if received == 0 => return Ok(None),
            PeerTarget::Bytes(len) => {
                control.clear();
                control.resize(*len, 0);
                if let Some(likely) = &self.likely {
                    let read =
                        &self.replica.target_bytes(self.slot, likely, self.memory)[..received];
                    control[..received].copy_from_slice(read);
                }
            }
            // A worker that keeps to the protocol sends what the replica has predicted.
            target if received > 0 && self.likely.as_ref() != Some(target) => {
                return Err(ProtocolError::Unexpected(header.kind).to_string());
            }
            _ => {}
        }
        Ok(Some(target))
    }

    fn place(&mut self, target: &PeerTarget) -> Option<&mut [u8]> {
        match target {
            PeerTarget::Bytes(_) => None,
            target => Some(self.replica.target_bytes(self.slot, target, self.memory)),
        }
    }
}
