//! A process's connection to server 0 beside those of its slots: what it is called to do.
//!
//! The connection may break and is made again for as long as anybody asks for the next call: all
//! that a process misses meanwhile is offers, which then go to others.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Poll, Token, Waker};
use paceline_exchange::{Enrolment, FrameKind, Header, Refusal, RosterEvent};

use crate::dial::{TRY_AGAIN, TRY_EVERY, dial, reach};
use crate::error::LinkError;
use crate::inbound::{Inbound, Progress};
use crate::link::SECOND;
use crate::observer::LinkObserver;
use crate::outbound::Outbound;
use crate::peer::PeerState;
use crate::serve::poll_once;

const SERVER: Token = Token(0);
const WAKER: Token = Token(1);

/// A process's connection to server 0, which assigns slots to the processes on its roster.
pub struct RosterConnection {
    enrolment: Enrolment,
    address: String,
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    line: Option<Line>,
    state: PeerState,
    next_try: Instant,
    /// Since when there is no connection on which it is enrolled.
    lost: Option<Instant>,
}

impl RosterConnection {
    /// Connects to server 0 until that has put this process on its roster, for at most `limit`.
    /// Notes once a second what it waits for, and which of the other servers are missing.
    ///
    /// # Panics
    /// If there are no servers.
    pub fn enrol(
        enrolment: Enrolment,
        servers: &[String],
        limit: Duration,
        observer: &mut impl LinkObserver,
    ) -> Result<Self, LinkError> {
        let poll = Poll::new()?;
        let begun = Instant::now();
        let mut roster = Self {
            enrolment,
            address: servers[0].clone(),
            events: Events::with_capacity(8),
            waker: Arc::new(Waker::new(poll.registry(), WAKER)?),
            poll,
            line: None,
            state: PeerState::Refused("not tried yet".into()),
            next_try: begun,
            lost: Some(begun),
        };
        let mut told = begun;
        loop {
            match roster.next_call(TRY_EVERY)? {
                Some(RosterEvent::Enrolled(_)) => return Ok(roster),
                Some(RosterEvent::Abort(why)) => return Err(LinkError::Aborted(why)),
                _ => {}
            }
            if observer.should_give_up() {
                return Err(LinkError::Interrupted);
            }
            if begun.elapsed() >= limit {
                let missing = roster.missing(servers);
                return Err(LinkError::NotStarted { seconds: limit.as_secs(), missing });
            }
            if told.elapsed() >= SECOND {
                told = Instant::now();
                let missing = roster.missing(servers);
                observer.note(&format!("waiting for the start: {missing}"));
            }
        }
    }

    /// Whom the start waits for, as far as that can be seen from here.
    fn missing(&self, servers: &[String]) -> String {
        let mut missing = format!("ps:0 at {} is {}", self.address, self.state);
        for (index, address) in servers.iter().enumerate().skip(1) {
            if let Err(state) = reach(address) {
                missing.push_str(&format!("; ps:{index} at {address} is {state}"));
            }
        }
        missing
    }

    /// The name that server 0 gave this process.
    pub fn name(&self) -> &str {
        &self.enrolment.process.name
    }

    /// Ends the present or the next [`next_call`](Self::next_call) early, from any thread.
    pub fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    /// If this process is on no roster at the moment: for how long, and why.
    pub fn lost(&self) -> Option<(Duration, String)> {
        let why = format!("ps:0 at {} is {}", self.address, self.state);
        self.lost.map(|since| (since.elapsed(), why))
    }

    /// The next call from server 0, or `None` after `wait`. Connects again if the connection broke.
    pub fn next_call(&mut self, wait: Duration) -> Result<Option<RosterEvent>, LinkError> {
        if self.line.is_none() && Instant::now() >= self.next_try {
            self.next_try = Instant::now() + TRY_EVERY;
            self.connect();
        }
        if let Some(call) = self.read() {
            return Ok(Some(call));
        }
        let until_try = self.next_try.saturating_duration_since(Instant::now()).min(TRY_EVERY);
        let wait = if self.line.is_none() { wait.min(until_try) } else { wait };
        poll_once(&mut self.poll, &mut self.events, wait)?;
        if let Some(line) = &mut self.line {
            line.inbound.wake();
        }
        Ok(self.read())
    }

    /// Closes the connection: server 0 offers this process no more slots.
    pub fn close(&mut self) {
        self.line = None;
        self.next_try = Instant::now() + Duration::from_secs(3600);
    }

    fn connect(&mut self) {
        let opened = dial(&self.address, self.poll.registry(), SERVER).and_then(|stream| {
            let mut line = Line::new(stream);
            let (header, body) = self.enrolment.hello();
            line.send(&header, &body).map_err(|error| PeerState::Refused(error.to_string()))?;
            Ok(line)
        });
        match opened {
            Ok(line) => (self.line, self.state) = (Some(line), PeerState::Connected),
            // A server that denies us is there; that it hung up is no news.
            Err(_) if matches!(self.state, PeerState::Denied(_)) => {}
            Err(state) => self.state = state,
        }
    }

    /// Reads a call, if one is there.
    fn read(&mut self) -> Option<RosterEvent> {
        let line = self.line.as_mut()?;
        let call = match line.read() {
            Ok(None) => return None,
            Ok(Some(header)) => self
                .enrolment
                .frame_arrived(&header, &line.payload)
                .map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        match &call {
            Ok(RosterEvent::Enrolled(_)) => (self.state, self.lost) = (PeerState::Ready, None),
            Ok(RosterEvent::Refused(refusal)) => self.hang_up(PeerState::Denied(refusal.clone())),
            Ok(_) => {}
            Err(why) => self.hang_up(PeerState::Refused(why.clone())),
        }
        call.ok()
    }

    fn hang_up(&mut self, state: PeerState) {
        self.line = None;
        if self.state == PeerState::Ready {
            self.next_try = Instant::now() + TRY_AGAIN;
        }
        self.state = state;
        self.lost.get_or_insert_with(Instant::now);
    }
}

/// Asks a server of a run what a new worker must know to join it; waits for at most `limit`.
///
/// The answer's meaning is up to the program that configured the server.
pub fn request_join_info(
    address: &str,
    token: &[u8],
    limit: Duration,
) -> Result<Vec<u8>, LinkError> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(8);
    let begun = Instant::now();
    let lost = |why: String| LinkError::Lost {
        server: "the server".into(),
        address: address.to_owned(),
        why,
    };
    let stream = dial(address, poll.registry(), SERVER).map_err(|state| lost(state.to_string()))?;
    let mut line = Line::new(stream);
    let (header, body) = paceline_exchange::request_join_info(token.to_vec());
    line.send(&header, &body).map_err(|error| lost(error.to_string()))?;
    while begun.elapsed() < limit {
        poll_once(&mut poll, &mut events, SECOND / 10)?;
        line.inbound.wake();
        let Some(header) = line.read().map_err(lost)? else { continue };
        return match header.kind {
            FrameKind::JoinInfo => Ok(line.payload),
            FrameKind::Refuse => match Refusal::decode(&line.payload) {
                Ok(refusal) => Err(lost(PeerState::Denied(refusal).to_string())),
                Err(error) => Err(lost(error.to_string())),
            },
            kind => Err(lost(format!("{kind:?} was not expected"))),
        };
    }
    Err(LinkError::Stalled { seconds: limit.as_secs(), whom: format!("the server at {address}") })
}

/// A connection that carries small frames only.
struct Line {
    stream: TcpStream,
    inbound: Inbound,
    outbound: Outbound,
    payload: Vec<u8>,
}

impl Line {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            inbound: Inbound::default(),
            outbound: Outbound::default(),
            payload: Vec::new(),
        }
    }

    fn send(&mut self, header: &Header, body: &[u8]) -> io::Result<()> {
        self.outbound.send(&mut self.stream, &[&header.encode()[..], body].concat())
    }

    /// Reads a frame, whose payload is then in `payload`, if one is there; an error if none will
    /// come any more.
    fn read(&mut self) -> Result<Option<Header>, String> {
        self.outbound.flush(&mut self.stream).map_err(|error| error.to_string())?;
        loop {
            let progress = match self.inbound.header().copied() {
                None => self.inbound.read_header(&mut self.stream, &mut []),
                Some(header) if header.kind.max_payload_bytes() > LONGEST => {
                    return Err(format!("{:?} was not expected", header.kind));
                }
                Some(header) => {
                    self.payload.resize(header.len as usize, 0);
                    let read = self.inbound.read_payload(&mut self.stream, &mut self.payload);
                    if let Ok(Progress::Complete) = read {
                        return Ok(Some(header));
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
}

/// The longest payload that is read here.
const LONGEST: usize = paceline_exchange::CONTROL_BYTES;
