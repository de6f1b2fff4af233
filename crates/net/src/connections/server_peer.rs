//! One server and the connection to it.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use paceline_exchange::{
    Client, ClientEvent, FrameKind, GradientChanges, Header, OutgoingFrame, ReadTarget, Refusal,
    RoundedChunk, WireFormat, as_bytes, as_bytes_mut,
};

use super::buffers::Buffers;
use crate::dial::RETRY_PAUSE;
use crate::error::LinkError;
use crate::framed::{
    FrameRead, FrameSink, FrameSource, FramedConnection, FramedError, SourceFrame,
};
use crate::peer_state::PeerState;
use crate::traffic::Traffic;

/// The pause before a reconnect after the second break during one exchange; doubles with each
/// further one.
const BREAK_PAUSE: Duration = Duration::from_millis(5);
/// The pauses between attempts to reach a lost server: the first, doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// The time since a connection broke, until the server admits this process again.
struct Outage {
    since: Instant,
    why: String,
    pause: Duration,
}

/// The pause before a reconnect after `breaks` breaks during the current exchange. The first break
/// is repaired at once.
fn pause_after(breaks: u32) -> Duration {
    match breaks.checked_sub(2) {
        None => Duration::ZERO,
        Some(more) => RETRY_PAUSE.min(BREAK_PAUSE * 2u32.pow(more.min(8))),
    }
}

/// One server and the connection to it.
pub(super) struct ServerPeer {
    /// The server's name, such as `ps:0`.
    pub(super) name: String,
    pub(super) address: String,
    pub(super) state: PeerState,
    connection: Option<FramedConnection<Range<usize>, ReadTarget>>,
    /// The server has answered the current goodbye.
    pub(super) said_goodbye: bool,
    /// If the connection ends, that counts as the answer to the goodbye.
    pub(super) may_vanish: bool,
    /// The server has nothing more to say, and may close the connection.
    pub(super) may_close: bool,
    /// When to connect again.
    pub(super) next_attempt: Instant,
    /// How often the connection broke during the current exchange.
    pub(super) breaks: u32,
    outage: Option<Outage>,
    /// Earlier connections, kept open until the server has admitted this process on a new one.
    retired: Vec<FramedConnection<Range<usize>, ReadTarget>>,
    /// The traffic of earlier connections.
    earlier: Traffic,
    /// The last frame was the first chunk of an answer.
    is_first_chunk: bool,
    /// Rounded parameters that are being read.
    rounded: RoundedChunk,
    /// Chunks that do not lie in one piece: parameters that are being read, and a gradient that
    /// is being sent.
    scattered: Vec<f32>,
    gathered: Vec<f32>,
}

impl ServerPeer {
    pub(super) fn new(index: usize, address: &str) -> Self {
        Self {
            name: format!("ps:{index}"),
            address: address.to_owned(),
            state: PeerState::Untried,
            connection: None,
            said_goodbye: false,
            may_vanish: false,
            may_close: false,
            next_attempt: Instant::now(),
            breaks: 0,
            outage: None,
            retired: Vec::new(),
            earlier: Traffic::default(),
            is_first_chunk: false,
            rounded: RoundedChunk::default(),
            scattered: Vec::new(),
            gathered: Vec::new(),
        }
    }

    pub(super) fn connected(&mut self, connection: FramedConnection<Range<usize>, ReadTarget>) {
        self.connection = Some(connection);
        self.state = PeerState::Connected;
    }

    /// Closes the connection, if there is one.
    pub(super) fn disconnect(&mut self) {
        drop(self.take_connection());
    }

    fn take_connection(&mut self) -> Option<FramedConnection<Range<usize>, ReadTarget>> {
        let connection = self.connection.take()?;
        self.earlier += connection.traffic();
        Some(connection)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// The connection broke.
    pub(super) fn broke(&mut self, why: &str) {
        let since = self.outage.take().map_or_else(Instant::now, |outage| outage.since);
        self.outage = Some(Outage { since, why: why.to_owned(), pause: FIRST_PAUSE });
        self.state = PeerState::Refused(why.to_owned());
        self.disconnect();
        self.next_attempt = Instant::now() + pause_after(self.breaks);
    }

    /// Gives the connection up for a new one, but does not close it before the server has admitted
    /// this process on that: a server that has not heard of the newer generation must not take
    /// this process for lost.
    pub(super) fn retire(&mut self) {
        let connection = self.take_connection();
        self.retired.extend(connection);
        self.broke("the run has gone back to a checkpoint");
    }

    /// A reconnect was attempted. After a failure the next one comes later.
    pub(super) fn attempted(&mut self, attempt: Result<(), PeerState>) {
        let (Err(state), Some(outage)) = (attempt, &mut self.outage) else { return };
        outage.pause = (outage.pause * 2).min(LAST_PAUSE);
        self.next_attempt = Instant::now() + outage.pause;
        self.disconnect();
        self.state = state;
    }

    /// The server has admitted this process.
    pub(super) fn welcomed(&mut self) {
        self.state = PeerState::Ready;
        self.outage = None;
        self.retired.clear();
    }

    /// The server has given the slot to another process: nothing is left to say to it.
    pub(super) fn gave_slot_away(&mut self) {
        self.outage = None;
        self.retired.clear();
        (self.said_goodbye, self.may_close) = (true, true);
    }

    /// Whether there is no connection, or the server has not admitted this process on it yet.
    pub(super) fn is_down(&self) -> bool {
        self.connection.is_none() || self.outage.is_some()
    }

    /// For how long the server has been lost.
    pub(super) fn down_for(&self) -> Option<Duration> {
        self.outage.as_ref().map(|outage| outage.since.elapsed())
    }

    /// Why the server is lost.
    pub(super) fn why_down(&self) -> &str {
        self.outage.as_ref().map_or("", |outage| &outage.why)
    }

    /// The server refuses this process.
    pub(super) fn refused(&mut self, refusal: Refusal) {
        self.state = PeerState::Denied(refusal);
        self.disconnect();
    }

    pub(super) fn lost(&self, why: impl std::fmt::Display) -> LinkError {
        LinkError::Lost {
            task: self.name.clone(),
            address: self.address.clone(),
            why: why.to_string(),
        }
    }

    /// Bytes sent and received through all connections to this server.
    pub(super) fn traffic(&self) -> Traffic {
        let mut traffic = self.earlier;
        if let Some(connection) = &self.connection {
            traffic += connection.traffic();
        }
        traffic
    }

    /// The connection, if there is one.
    pub(super) fn open(&mut self) -> Option<&mut FramedConnection<Range<usize>, ReadTarget>> {
        self.connection.as_mut()
    }

    pub(super) fn is_readable(&self) -> bool {
        self.connection.as_ref().is_some_and(FramedConnection::is_readable)
    }

    /// Whether the socket has taken everything that was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.connection.as_ref().is_none_or(FramedConnection::is_sent)
    }

    pub(super) fn send_control(&mut self, header: &Header, body: &[u8]) -> Result<(), LinkError> {
        let Some(connection) = &mut self.connection else {
            return Err(self.lost("not connected"));
        };
        let sent = connection.send_control(header, body);
        sent.map_err(|error| self.lost(error))
    }

    pub(super) fn flush(&mut self) -> Result<(), LinkError> {
        let flushed = self.connection.as_mut().map_or(Ok(()), FramedConnection::flush);
        flushed.map_err(|error| self.lost(error))
    }

    /// Sends chunks of the gradient, or requests for chunks, until the socket takes no more.
    /// Returns whether it took any byte.
    pub(super) fn send_chunks(
        &mut self,
        server: usize,
        client: &mut Client,
        buffers: &impl Buffers,
        changes: &mut GradientChanges,
    ) -> Result<bool, LinkError> {
        let gathered = &mut self.gathered;
        let send = |connection: &mut FramedConnection<_, _>| -> io::Result<bool> {
            connection.send_frames(&mut PushSource { client, server, buffers, changes, gathered })
        };
        let sent = self.connection.as_mut().map_or(Ok(false), send);
        sent.map_err(|error| self.lost(error))
    }

    /// Whether the last frame was the first chunk of an answer; true only at the first call.
    pub(super) fn take_first_chunk(&mut self) -> bool {
        std::mem::take(&mut self.is_first_chunk)
    }

    /// Reads until a frame has arrived; `None` if nothing can be read now.
    pub(super) fn read_event(
        &mut self,
        server: usize,
        client: &mut Client,
        buffers: &mut impl Buffers,
        changes: &mut GradientChanges,
    ) -> Result<Option<ClientEvent>, LinkError> {
        let Some(connection) = &mut self.connection else { return Ok(None) };
        let mut sink = ParamsSink {
            client,
            server,
            buffers,
            changes,
            rounded: &mut self.rounded,
            scattered: &mut self.scattered,
            likely: None,
        };
        match connection.read_frame(&mut sink) {
            Ok(FrameRead::Frame { header, is_control }) => {
                sink.put_in_place(&header);
                let is_answer = matches!(header.kind, FrameKind::Params | FrameKind::Values);
                self.is_first_chunk = is_answer && header.chunk == 0;
                let bytes = if is_control { connection.control() } else { &[] };
                let event = client.frame_arrived(server, &header, bytes);
                event.map(Some).map_err(|error| self.lost(error))
            }
            Ok(FrameRead::Blocked) => Ok(None),
            Ok(FrameRead::Closed) if self.may_close || self.may_vanish => {
                self.said_goodbye = true;
                Ok(None)
            }
            Err(FramedError::Stream(_)) if self.may_vanish => {
                self.said_goodbye = true;
                Ok(None)
            }
            Ok(FrameRead::Closed) => Err(self.lost("it closed the connection")),
            Err(error) => Err(self.lost(error)),
        }
    }
}

/// The frames that a client sends to one server.
struct PushSource<'a, B> {
    client: &'a mut Client,
    server: usize,
    buffers: &'a B,
    changes: &'a mut GradientChanges,
    gathered: &'a mut Vec<f32>,
}

impl<B: Buffers> FrameSource for PushSource<'_, B> {
    type Origin = Range<usize>;

    fn next_frame(&mut self) -> Option<SourceFrame<Range<usize>>> {
        let OutgoingFrame { header, gradient: range, is_new } =
            self.client.next_frame(self.server)?;
        match self.client.wire() {
            WireFormat::Bf16 if is_new => {
                let mut start = range.start;
                self.buffers.for_each_gradient(&range, &mut |piece| {
                    self.changes.update(start..start + piece.len(), piece);
                    start += piece.len();
                });
            }
            WireFormat::F32 if self.buffers.gradient(&range).is_none() => {
                self.gathered.clear();
                let gathered = &mut *self.gathered;
                self.buffers.for_each_gradient(&range, &mut |piece| {
                    gathered.extend_from_slice(piece);
                });
            }
            _ => {}
        }
        Some(SourceFrame { header, origin: range })
    }

    fn bytes(&self, range: &Range<usize>) -> [&[u8]; 2] {
        let numbers = match self.client.wire() {
            WireFormat::F32 => as_bytes(self.buffers.gradient(range).unwrap_or(self.gathered)),
            WireFormat::Bf16 => self.changes.bytes(range.clone()),
        };
        [numbers, self.client.keys(self.server)]
    }
}

/// Reads parameters from one server into their place.
struct ParamsSink<'a, B> {
    client: &'a mut Client,
    server: usize,
    buffers: &'a mut B,
    changes: &'a mut GradientChanges,
    rounded: &'a mut RoundedChunk,
    scattered: &'a mut Vec<f32>,
    /// Where the next frame likely belongs. Nothing has been answered there yet, so a wrong guess
    /// overwrites nothing of value.
    likely: Option<ReadTarget>,
}

impl<B: Buffers> ParamsSink<'_, B> {
    fn bytes_of(&mut self, target: &ReadTarget) -> &mut [u8] {
        match target.clone() {
            ReadTarget::Floats(range) => match self.buffers.params(&range) {
                Some(params) => as_bytes_mut(params),
                None => {
                    self.scattered.resize(range.len(), 0.0);
                    as_bytes_mut(self.scattered)
                }
            },
            ReadTarget::KnownGradient(range) => as_bytes_mut(self.changes.known_mut(range)),
            ReadTarget::Rounded(range) => self.rounded.bytes_mut(range.len()),
            ReadTarget::Bytes(_) => &mut [],
        }
    }

    /// The memory of the likely target.
    fn likely_bytes(&mut self) -> &mut [u8] {
        match self.likely.clone() {
            Some(likely) => self.bytes_of(&likely),
            None => &mut [],
        }
    }

    /// Puts parameters that have been read elsewhere in their place.
    fn put_in_place(&mut self, header: &Header) {
        if !matches!(header.kind, FrameKind::Params | FrameKind::Values) {
            return;
        }
        let mut start = 0;
        match self.client.read_target(self.server, header) {
            Ok(ReadTarget::Rounded(range)) => {
                self.buffers.for_each_params(&range, &mut |params| {
                    self.rounded.widen_into(start, params);
                    start += params.len();
                });
                self.buffers.arrived(&range);
            }
            Ok(ReadTarget::Floats(range)) => {
                if self.buffers.params(&range).is_none() {
                    self.buffers.for_each_params(&range, &mut |params| {
                        params.copy_from_slice(&self.scattered[start..start + params.len()]);
                        start += params.len();
                    });
                }
                self.buffers.arrived(&range);
            }
            _ => {}
        }
    }
}

impl<B: Buffers> FrameSink for ParamsSink<'_, B> {
    type Target = ReadTarget;

    fn likely_place(&mut self) -> &mut [u8] {
        self.likely = self.client.likely_target(self.server);
        self.likely_bytes()
    }

    fn aim(
        &mut self,
        header: &Header,
        received: usize,
        control: &mut Vec<u8>,
    ) -> Result<Option<ReadTarget>, String> {
        let target = self.client.read_target(self.server, header).map_err(|e| e.to_string())?;
        let is_rounded = |target: &ReadTarget| matches!(target, ReadTarget::Rounded(_));
        // One buffer serves all rounded chunks.
        let is_there = self
            .likely
            .as_ref()
            .is_some_and(|likely| *likely == target || is_rounded(likely) && is_rounded(&target));
        if !is_there {
            control.clear();
            control.extend_from_slice(&self.likely_bytes()[..received]);
            match &target {
                ReadTarget::Bytes(len) => control.resize(*len, 0),
                target => self.bytes_of(target)[..received].copy_from_slice(control),
            }
        }
        Ok(Some(target))
    }

    fn place(&mut self, target: &ReadTarget) -> Option<&mut [u8]> {
        match target {
            ReadTarget::Bytes(_) => None,
            target => Some(self.bytes_of(target)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_further_break_delays_the_reconnect_up_to_a_limit() {
        let pauses_ms = (0..8).map(|breaks| pause_after(breaks).as_millis());
        assert_eq!(pauses_ms.collect::<Vec<_>>(), [0, 0, 5, 10, 20, 40, 50, 50]);
        assert_eq!(pause_after(u32::MAX), RETRY_PAUSE);
    }
}
