//! A process's connection to server 0, beside those of its slots: which slots it fills.
//!
//! If the connection breaks, [`RosterConnection::next_call`] makes it again. Meanwhile the process
//! misses only offers, which go to other processes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use paceline_exchange::{Enrolment, RosterEvent};
use paceline_trust::Credentials;

use crate::dial::{RECONNECT_PAUSE, RETRY_PAUSE, connect, dial};
use crate::error::LinkError;
use crate::framed::FramedConnection;
use crate::long_wait::LongWait;
use crate::observer::LinkObserver;
use crate::peer_state::PeerState;
use crate::socket::poll_once;

const SERVER: Token = Token(0);
const WAKER: Token = Token(1);
/// After [`RosterConnection::close`] no run lasts until the next attempt to connect.
const NEVER: Duration = Duration::from_secs(3600);

/// A process's connection to server 0, which assigns slots to the processes on its roster.
pub struct RosterConnection {
    enrolment: Enrolment,
    credentials: Credentials,
    address: String,
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    connection: Option<FramedConnection>,
    state: PeerState,
    next_attempt: Instant,
    /// Since when there is no connection on which this process is enrolled.
    lost: Option<Instant>,
}

/// A process has no connection to server 0 on which it is enrolled.
#[derive(Clone, Debug)]
pub struct RosterLoss {
    /// Time since the connection was lost, or since the first attempt to connect.
    pub elapsed: Duration,
    /// The state of server 0, as far as this process knows.
    pub why: String,
}

impl RosterConnection {
    /// Connects to server 0 until that has put this process on its roster, for at most `limit`.
    /// Notes once a second what it waits for, and which of the other servers are missing.
    ///
    /// # Panics
    /// If there are no servers.
    pub fn enrol(
        enrolment: Enrolment,
        credentials: Credentials,
        servers: &[String],
        limit: Duration,
        observer: &mut impl LinkObserver,
    ) -> Result<Self, LinkError> {
        let poll = Poll::new()?;
        let now = Instant::now();
        let mut roster = Self {
            enrolment,
            credentials,
            address: servers[0].clone(),
            events: Events::with_capacity(8),
            waker: Arc::new(Waker::new(poll.registry(), WAKER)?),
            poll,
            connection: None,
            state: PeerState::Untried,
            next_attempt: now,
            lost: Some(now),
        };
        let mut wait = LongWait::new();
        loop {
            match roster.next_call(RETRY_PAUSE)? {
                Some(RosterEvent::Enrolled(_)) => return Ok(roster),
                Some(RosterEvent::Abort(why)) => return Err(LinkError::Aborted(why)),
                Some(RosterEvent::Refused(refusal)) if refusal.is_permanent() => {
                    return Err(LinkError::Denied(roster.describe_server_0()));
                }
                _ => {}
            }
            if observer.should_give_up() {
                return Err(LinkError::Interrupted { awaited: roster.describe_server_0() });
            }
            wait.check_start(limit, || roster.missing(servers))?;
            if wait.should_note() {
                let missing = roster.missing(servers);
                observer.note(&wait.describe_start(limit, &missing));
            }
        }
    }

    /// The servers that the start waits for, as far as this process can see.
    fn missing(&self, servers: &[String]) -> String {
        let mut missing = self.describe_server_0();
        for (index, address) in servers.iter().enumerate().skip(1) {
            if let Err(state) = connect(address) {
                missing.push_str(&format!("; ps:{index} at {address}, {state}"));
            }
        }
        missing
    }

    fn describe_server_0(&self) -> String {
        format!("ps:0 at {}, {}", self.address, self.state)
    }

    /// The name that server 0 gave this process.
    pub fn name(&self) -> &str {
        &self.enrolment.process.name
    }

    /// Ends the current or the next [`next_call`](Self::next_call) early, from any thread.
    pub fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    /// If this process is on no roster at the moment: for how long, and why.
    pub fn lost(&self) -> Option<RosterLoss> {
        let why = || self.describe_server_0();
        self.lost.map(|since| RosterLoss { elapsed: since.elapsed(), why: why() })
    }

    /// The next call from server 0, or `None` after `wait`. Connects again if the connection broke.
    pub fn next_call(&mut self, wait: Duration) -> Result<Option<RosterEvent>, LinkError> {
        if self.connection.is_none() && Instant::now() >= self.next_attempt {
            self.next_attempt = Instant::now() + RETRY_PAUSE;
            self.connect();
        }
        if let Some(call) = self.read() {
            return Ok(Some(call));
        }
        let until_attempt = self.next_attempt.saturating_duration_since(Instant::now());
        let is_open = self.connection.is_some();
        let wait = if is_open { wait } else { wait.min(until_attempt.min(RETRY_PAUSE)) };
        poll_once(&mut self.poll, &mut self.events, wait)?;
        if let Some(connection) = &mut self.connection {
            connection.wake();
        }
        Ok(self.read())
    }

    /// Closes the connection: server 0 offers this process no more slots.
    pub fn close(&mut self) {
        self.connection = None;
        self.next_attempt = Instant::now() + NEVER;
    }

    fn connect(&mut self) {
        let (registry, hello) = (self.poll.registry(), self.enrolment.hello());
        match dial("ps:0", &self.address, registry, SERVER, &self.credentials, hello) {
            Ok(connection) => {
                (self.connection, self.state) = (Some(connection), PeerState::Connected);
            }
            // A server that refused this process is running: that it then hung up says nothing new.
            Err(_) if matches!(self.state, PeerState::Denied(_)) => {}
            Err(state) => self.state = state,
        }
    }

    /// Reads a call, if one has arrived.
    fn read(&mut self) -> Option<RosterEvent> {
        let connection = self.connection.as_mut()?;
        let flushed = connection.flush().map_err(|error| error.to_string());
        let call = match flushed.and_then(|()| connection.read_control()) {
            Ok(None) => return None,
            Ok(Some(header)) => {
                let call = self.enrolment.frame_arrived(&header, connection.control());
                call.map_err(|error| error.to_string())
            }
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
        self.connection = None;
        if self.state == PeerState::Ready {
            self.next_attempt = Instant::now() + RECONNECT_PAUSE;
        }
        self.state = state;
        self.lost.get_or_insert_with(Instant::now);
    }
}
