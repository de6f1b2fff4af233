//! One server, as a worker's socket sees it.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use paceline_exchange::{
    Client, ClientEvent, HEADER_BYTES, Header, ReadTarget, Refusal, as_bytes, as_bytes_mut,
};

use crate::dial::TRY_EVERY;
use crate::error::LinkError;
use crate::inbound::{Inbound, Progress};
use crate::outbound::{Outbound, write_frame};
use crate::peer::PeerState;
use crate::traffic::Traffic;

/// A frame with a part of a gradient, or with keys, that the socket has not taken whole.
struct Sending {
    head: [u8; HEADER_BYTES],
    gradient: Range<usize>,
    written: usize,
}

/// How long to wait after a second break during one exchange: twice as long each time.
const BREAK_PAUSE: Duration = Duration::from_millis(5);
/// How long to wait between two calls of a lost server: twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// A server that is lost, until it lets us in again.
struct Down {
    since: Instant,
    why: String,
    pause: Duration,
}

/// How long to wait before a server is called whose connection has broken so often during the
/// present exchange. The first break is answered at once; those that follow it at its heels are not.
fn pause_after(breaks: u32) -> Duration {
    match breaks.checked_sub(2) {
        None => Duration::ZERO,
        Some(more) => TRY_EVERY.min(BREAK_PAUSE * 2u32.pow(more.min(8))),
    }
}

/// One server and the connection to it.
pub(super) struct Peer {
    /// Its name, such as `ps:0`.
    pub(super) name: String,
    pub(super) address: String,
    pub(super) state: PeerState,
    pub(super) stream: Option<TcpStream>,
    /// There may be something to read.
    pub(super) readable: bool,
    pub(super) said_bye: bool,
    /// If it hangs up, that is as good as a goodbye.
    pub(super) may_go: bool,
    /// It has nothing more to say, and may close the connection.
    pub(super) may_close: bool,
    /// When to try to connect again.
    pub(super) next_try: Instant,
    /// How often the connection broke during the present exchange.
    pub(super) breaks: u32,
    down: Option<Down>,
    /// Connections before this one, for as long as the server may not have heard of this one.
    retired: Vec<TcpStream>,
    /// What went through connections before this one: bytes sent and received.
    earlier: Traffic,
    inbound: Inbound,
    /// Where the present payload goes.
    target: Option<ReadTarget>,
    control: Vec<u8>,
    outbound: Outbound,
    sending: Option<Sending>,
    sent_part_bytes: u64,
    /// The last frame that arrived was the first part of an answer.
    has_first_part: bool,
}

impl Peer {
    pub(super) fn new(index: usize, address: &str) -> Self {
        Self {
            name: format!("ps:{index}"),
            address: address.to_owned(),
            state: PeerState::Refused("not tried yet".into()),
            stream: None,
            readable: false,
            said_bye: false,
            may_go: false,
            may_close: false,
            next_try: Instant::now(),
            breaks: 0,
            down: None,
            retired: Vec::new(),
            earlier: Traffic::default(),
            inbound: Inbound::default(),
            target: None,
            control: Vec::new(),
            outbound: Outbound::default(),
            sending: None,
            sent_part_bytes: 0,
            has_first_part: false,
        }
    }

    /// A new connection has been made.
    pub(super) fn connected(&mut self, stream: TcpStream) {
        self.stream = Some(stream);
        self.state = PeerState::Connected;
        self.earlier.sent += self.outbound.sent_bytes();
        self.earlier.received += self.inbound.received_bytes();
        self.inbound = Inbound::default();
        self.outbound = Outbound::default();
        self.target = None;
        self.sending = None;
        self.readable = true;
    }

    /// The connection broke.
    pub(super) fn broke(&mut self, why: &str) {
        let since = self.down.take().map_or_else(Instant::now, |down| down.since);
        self.down = Some(Down { since, why: why.to_owned(), pause: FIRST_PAUSE });
        self.state = PeerState::Refused(why.to_owned());
        self.stream = None;
        self.readable = false;
        self.sending = None;
        self.next_try = Instant::now() + pause_after(self.breaks);
    }

    /// The connection is of no more use, but is not closed before the server has let us in on
    /// another: it may know us by any of them.
    pub(super) fn retire(&mut self) {
        self.retired.extend(self.stream.take());
        self.broke("the run has gone back to a checkpoint");
    }

    /// Somebody has called the server again.
    pub(super) fn tried(&mut self, tried: Result<(), PeerState>) {
        let (Err(state), Some(down)) = (tried, &mut self.down) else { return };
        down.pause = (down.pause * 2).min(LAST_PAUSE);
        self.next_try = Instant::now() + down.pause;
        self.stream = None;
        self.state = state;
    }

    /// The server has let us in.
    pub(super) fn welcomed(&mut self) {
        self.state = PeerState::Ready;
        self.down = None;
        self.retired.clear();
    }

    /// The server has given the slot to another, so that nothing is left to say to it.
    pub(super) fn is_rid_of_us(&mut self) {
        self.down = None;
        self.retired.clear();
        (self.said_bye, self.may_close) = (true, true);
    }

    /// Whether there is no connection, or one on which the server has not let us in yet.
    pub(super) fn is_down(&self) -> bool {
        self.stream.is_none() || self.down.is_some()
    }

    /// For how long the server has been lost.
    pub(super) fn down_for(&self) -> Option<Duration> {
        self.down.as_ref().map(|down| down.since.elapsed())
    }

    /// Why the server is lost.
    pub(super) fn why_down(&self) -> &str {
        self.down.as_ref().map_or("", |down| &down.why)
    }

    /// The server does not let us in.
    pub(super) fn refused(&mut self, refusal: Refusal) {
        self.state = PeerState::Denied(refusal);
        self.stream = None;
        self.readable = false;
    }

    pub(super) fn lost(&self, why: impl std::fmt::Display) -> LinkError {
        LinkError::Lost {
            server: self.name.clone(),
            address: self.address.clone(),
            why: why.to_string(),
        }
    }

    /// Bytes sent and received through all connections to this server so far.
    pub(super) fn traffic(&self) -> Traffic {
        Traffic {
            sent: self.earlier.sent + self.outbound.sent_bytes() + self.sent_part_bytes,
            received: self.earlier.received + self.inbound.received_bytes(),
        }
    }

    pub(super) fn wake(&mut self) {
        self.readable = true;
        self.inbound.wake();
    }

    /// Sends a control frame; what the socket does not take is kept.
    pub(super) fn send_control(&mut self, header: &Header, body: &[u8]) -> Result<(), LinkError> {
        let Some(stream) = &mut self.stream else { return Err(self.lost("not connected")) };
        let frame = [&header.encode()[..], body].concat();
        let sent = self.outbound.send(stream, &frame);
        sent.map_err(|error| self.lost(error))
    }

    pub(super) fn flush(&mut self) -> Result<(), LinkError> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let flushed = self.outbound.flush(stream);
        flushed.map_err(|error| self.lost(error))
    }

    /// Sends parts of the gradient (or requests for parts) until the socket takes no more;
    /// says whether it took anything.
    pub(super) fn send_parts(
        &mut self,
        server: usize,
        client: &mut Client,
        grad: &[f32],
    ) -> Result<bool, LinkError> {
        self.flush()?;
        let mut progress = false;
        while self.outbound.is_empty() {
            if self.sending.is_none() {
                let Some(next) = client.next_frame(server) else { break };
                let (head, gradient) = (next.header.encode(), next.gradient);
                self.sending = Some(Sending { head, gradient, written: 0 });
            }
            let before = self.sent_part_bytes;
            let whole =
                self.send_on(grad, client.keys(server)).map_err(|error| self.lost(error))?;
            progress |= self.sent_part_bytes > before;
            if !whole {
                break;
            }
            self.sending = None;
        }
        Ok(progress)
    }

    /// Goes on with the part that is being sent; says whether all of it is gone.
    fn send_on(&mut self, grad: &[f32], keys: &[u8]) -> io::Result<bool> {
        let (Some(stream), Some(sending)) = (&mut self.stream, &mut self.sending) else {
            return Ok(false);
        };
        let body = as_bytes(&grad[sending.gradient.clone()]);
        let frame = [&sending.head[..], body, keys];
        let written = write_frame(stream, frame, sending.written)?;
        self.sent_part_bytes += (written - sending.written) as u64;
        sending.written = written;
        Ok(written == frame.iter().map(|piece| piece.len()).sum::<usize>())
    }

    /// Whether everything that was begun to be sent is gone.
    pub(super) fn is_sent(&self) -> bool {
        self.sending.is_none() && self.outbound.is_empty()
    }

    /// Whether the last frame was the first part of an answer; said once.
    pub(super) fn takes_first_part(&mut self) -> bool {
        std::mem::take(&mut self.has_first_part)
    }

    /// Reads until something has arrived that means anything; none if nothing can be read now.
    pub(super) fn read_event(
        &mut self,
        server: usize,
        client: &mut Client,
        params: &mut [f32],
    ) -> Result<Option<ClientEvent>, LinkError> {
        if !self.readable {
            return Ok(None);
        }
        loop {
            let Some(stream) = &mut self.stream else { return Ok(None) };
            let progress = match &self.target {
                None => {
                    let guess = client.likely_target(server).unwrap_or(0..0);
                    let place = as_bytes_mut(&mut params[guess.clone()]);
                    let read = self.inbound.read_header(stream, place);
                    if let Ok(Progress::Header(header)) = &read {
                        let expect =
                            client.read_target(server, header).map_err(|e| self.lost(e))?;
                        self.aim(expect, guess, params);
                    }
                    read
                }
                Some(target) => {
                    let place = match target {
                        ReadTarget::Floats(range) => as_bytes_mut(&mut params[range.clone()]),
                        ReadTarget::Bytes(_) => &mut self.control[..],
                    };
                    let header = self.inbound.header().copied();
                    let read = self.inbound.read_payload(stream, place);
                    if let (Ok(Progress::Complete), Some(header)) = (&read, header) {
                        let is_floats = matches!(self.target.take(), Some(ReadTarget::Floats(_)));
                        self.has_first_part = is_floats && header.chunk == 0;
                        let bytes = if is_floats { &[] } else { &self.control[..] };
                        let event = client.frame_arrived(server, &header, bytes);
                        return event.map(Some).map_err(|error| self.lost(error));
                    }
                    read
                }
            };
            let progress = match progress {
                Err(_) if self.may_go => Progress::Closed,
                progress => progress.map_err(|error| self.lost(error))?,
            };
            match progress {
                Progress::Header(_) | Progress::Complete => {}
                Progress::Blocked => {
                    self.readable = false;
                    return Ok(None);
                }
                // Who has said goodbye may go.
                Progress::Closed if self.may_close || self.may_go => {
                    self.said_bye = true;
                    self.readable = false;
                    return Ok(None);
                }
                Progress::Closed => return Err(self.lost("it closed the connection")),
            }
        }
    }

    /// The payload of the present frame belongs to `expect`; what has been read of it lies at
    /// the guessed place, and is moved if the guess was wrong. A guessed place has not been
    /// answered, so nothing of worth is lost there.
    fn aim(&mut self, expect: ReadTarget, guess: Range<usize>, params: &mut [f32]) {
        let got = self.inbound.got();
        match &expect {
            ReadTarget::Floats(range) if *range != guess => {
                let all = as_bytes_mut(params);
                all.copy_within(guess.start * 4..guess.start * 4 + got, range.start * 4);
            }
            ReadTarget::Floats(_) => {}
            ReadTarget::Bytes(len) => {
                self.control.clear();
                self.control.resize(*len, 0);
                let read = &as_bytes(params)[guess.start * 4..guess.start * 4 + got];
                self.control[..got].copy_from_slice(read);
            }
        }
        self.target = Some(expect);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_breaks_again_and_again_is_made_ever_later_up_to_a_limit() {
        let pauses_ms = (0..8).map(|breaks| pause_after(breaks).as_millis());
        assert_eq!(pauses_ms.collect::<Vec<_>>(), [0, 0, 5, 10, 20, 40, 50, 50]);
        assert_eq!(pause_after(u32::MAX), TRY_EVERY);
    }
}
