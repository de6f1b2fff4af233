//! How workers find each other: at the start, and again after a loss.
//!
//! A worker connects to all slots below its own, and accepts connections from all above. Workers
//! may start in any order; each notes which others it waits for.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use mio::{Events, Poll, Token, Waker};
use paceline_exchange::{
    FrameKind, GreetError, Header, Hello, Refusal, Replica, ReplicaEvent, WholeGradient,
};

use super::config::MeshConfig;
use super::connection::{CLOSED, MeshConnection};
use super::fault::MeshFault;
use super::listener::PeerListener;
use super::state::{Absence, Mesh, MeshPeer};
use crate::dial::{RETRY_PAUSE, dial};
use crate::error::LinkError;
use crate::long_wait::LongWait;
use crate::observer::LinkObserver;
use crate::opening::certificate_refusal;
use crate::peer_state::PeerState;

/// The token of the waker: its events only end a poll.
const WAKER: Token = Token(usize::MAX - 2);

/// Why workers look for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GatherReason {
    /// The run starts, as far as this worker knows.
    Start,
    /// A worker was lost.
    Loss,
}

/// The state of a peer before the first attempt to reach it from `slot`.
pub(super) fn initial_state(peer: usize, slot: usize) -> PeerState {
    if peer > slot { PeerState::Awaited } else { PeerState::Untried }
}

impl Mesh {
    /// Connects to all workers of lower slots and accepts those of higher slots, until all are
    /// connected. Notes once a second which are missing. The last slot needs no listener.
    ///
    /// # Panics
    /// If there are not as many addresses as workers, or no listener where one is needed.
    pub fn connect(
        replica: Replica,
        config: MeshConfig,
        listener: Option<TcpListener>,
        observer: &mut impl LinkObserver,
    ) -> Result<Self, LinkError> {
        let (slot, workers) = (replica.slot(), replica.workers());
        assert_eq!(config.addresses.len(), workers, "addresses");
        assert!(listener.is_some() || slot + 1 == workers, "higher slots need a listener");
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let listener = listener.map(|listener| PeerListener::new(listener, &poll)).transpose()?;
        let now = Instant::now();
        let peer = |other| MeshPeer {
            state: initial_state(other, slot),
            connection: None,
            next_attempt: now,
            absence: Absence { since: now, limit: config.start_timeout, is_lost: false },
        };
        let mut mesh = Self {
            peers: (0..workers).map(peer).collect(),
            replica,
            poll,
            events: Events::with_capacity(64),
            waker,
            config,
            listener,
            losses: 0,
            closed_traffic: Default::default(),
        };
        mesh.gather(GatherReason::Start, observer)?;
        if !mesh.replica.recovers() {
            mesh.listener = None;
        }
        if let Err(fault) = mesh.catch_up(observer) {
            mesh.recover(fault, &mut WholeGradient::none(), observer)?;
        }
        Ok(mesh)
    }

    /// Connects and accepts until all needed workers are connected.
    pub(super) fn gather(
        &mut self,
        reason: GatherReason,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        let mut wait = LongWait::new();
        while !self.replica.is_started() {
            self.connect_missing();
            self.poll(RETRY_PAUSE).map_err(MeshFault::into_error)?;
            self.accept(observer)?;
            self.read_greetings()?;
            if observer.should_give_up() {
                return Err(LinkError::Interrupted { awaited: self.missing() });
            }
            match reason {
                GatherReason::Start => {
                    wait.check_start(self.config.start_timeout, || self.missing())?;
                }
                GatherReason::Loss => {
                    self.check_absences()?;
                    self.report_losses();
                }
            }
            if wait.should_note() {
                observer.note(&match reason {
                    GatherReason::Start => {
                        wait.describe_start(self.config.start_timeout, &self.missing())
                    }
                    GatherReason::Loss => {
                        format!("step {} waits for {}", self.global_step(), self.missing())
                    }
                });
            }
        }
        // Connections that are not needed would only disturb the run.
        for slot in self.replica.others() {
            if !self.replica.is_connected(slot) {
                self.close(slot);
            }
        }
        self.wake_all();
        Ok(())
    }

    /// The missing workers, and the state of each.
    fn missing(&self) -> String {
        let missing = self.replica.others().filter(|&slot| !self.replica.is_connected(slot));
        let states: Vec<_> = missing.map(|slot| self.describe(slot)).collect();
        if states.is_empty() { "all workers to start".into() } else { states.join("; ") }
    }

    /// A worker, its address and its state.
    fn describe(&self, slot: usize) -> String {
        let (name, address) = (self.replica.name(slot), &self.config.addresses[slot]);
        format!("{name} at {address}, {}", self.peers[slot].state)
    }

    /// Connects to every lower slot that is not connected and whose next attempt is due; in place
    /// of a lost worker also to higher ones.
    fn connect_missing(&mut self) {
        let own = self.replica.slot();
        let dialled = if self.config.dials_all { self.peers.len() } else { own };
        for slot in (0..dialled).filter(|&slot| slot != own) {
            let peer = &self.peers[slot];
            if peer.connection.is_some() || Instant::now() < peer.next_attempt {
                continue;
            }
            let attempt = self.dial_slot(slot);
            let peer = &mut self.peers[slot];
            peer.next_attempt = Instant::now() + RETRY_PAUSE;
            match attempt {
                Ok(()) => peer.state = PeerState::Connected,
                // A worker that refused this one is running: that it then hung up says nothing new.
                Err(_) if matches!(peer.state, PeerState::Denied(_)) => {}
                Err(state) => peer.state = state,
            }
        }
    }

    fn dial_slot(&mut self, slot: usize) -> Result<(), PeerState> {
        let MeshConfig { addresses, credentials, .. } = &self.config;
        let (registry, hello) = (self.poll.registry(), self.replica.hello(slot));
        let peer = self.replica.name(slot);
        let connection = dial(peer, &addresses[slot], registry, Token(slot), credentials, hello)?;
        self.peers[slot].connection = Some(MeshConnection::new(connection));
        Ok(())
    }

    /// Reads what connected workers say before the start. A connection lost now is made again.
    fn read_greetings(&mut self) -> Result<(), LinkError> {
        for slot in self.replica.others() {
            let Some(mut connection) = self.peers[slot].connection.take() else { continue };
            connection.wake();
            let state = if self.replica.is_connected(slot) {
                self.read_early_frame(slot, &mut connection)?
            } else {
                self.read_greeting(slot, &mut connection)
            };
            let peer = &mut self.peers[slot];
            match state {
                Ok(PeerState::Denied(refusal)) => {
                    let is_permanent = refusal.is_permanent();
                    peer.state = PeerState::Denied(refusal);
                    if is_permanent {
                        return Err(LinkError::Denied(self.describe(slot)));
                    }
                }
                Ok(state) => {
                    peer.state = state;
                    peer.connection = Some(connection);
                }
                Err(fault) => {
                    self.replica.connection_lost(slot);
                    if !matches!(peer.state, PeerState::Denied(_)) {
                        peer.state = PeerState::Refused(fault.into_error().to_string());
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads from a worker that is connected already. That worker may be ahead of this one: frames
    /// of later steps stay unread until their turn. Only an abort of the run ends the gathering.
    fn read_early_frame(
        &mut self,
        slot: usize,
        connection: &mut MeshConnection,
    ) -> Result<Result<PeerState, MeshFault>, LinkError> {
        match connection.read_event(slot, &mut self.replica, &mut WholeGradient::none()) {
            Ok(Some(ReplicaEvent::Abort(why))) => Err(LinkError::Aborted(why)),
            Ok(Some(ReplicaEvent::CutShort)) => Err(LinkError::CutShort),
            Ok(_) if connection.is_closed => Ok(Err(MeshFault::lost(slot, CLOSED))),
            read => Ok(read.map(|_| PeerState::Ready)),
        }
    }

    fn read_greeting(
        &mut self,
        slot: usize,
        connection: &mut MeshConnection,
    ) -> Result<PeerState, MeshFault> {
        let read = connection.read_control().map_err(|why| MeshFault::lost(slot, why))?;
        let Some(header) = read else { return Ok(PeerState::Connected) };
        let answered = self.replica.hello_answered(slot, &header, connection.control());
        let refusal = answered.map_err(|error| MeshFault::lost(slot, error))?;
        Ok(refusal.map_or(PeerState::Ready, PeerState::Denied))
    }

    /// Accepts waiting connections, and reads from all which worker they belong to.
    pub(super) fn accept(&mut self, observer: &mut impl LinkObserver) -> Result<(), LinkError> {
        let Some(mut listener) = self.listener.take() else { return Ok(()) };
        listener.accept(&self.poll, &self.config.credentials);
        let accepted = self.read_hellos(&mut listener, observer);
        self.listener = Some(listener);
        accepted
    }

    fn read_hellos(
        &mut self,
        listener: &mut PeerListener,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        for mut peer in std::mem::take(&mut listener.unidentified) {
            peer.connection.wake();
            let has_time = peer.has_time();
            let hello = match peer.connection.read_hello() {
                Ok(None) if has_time => {
                    listener.unidentified.push(peer);
                    continue;
                }
                Ok(Some(header)) => match self.foreign_certificate(&peer.connection) {
                    Some(refusal) => Err(GreetError::Refused { refusal, slot: None }),
                    None => self.replica.accept_hello(&header, peer.connection.control()),
                },
                Ok(None) | Err(_) => continue,
            };
            match hello {
                Ok(slot) => self.welcome(slot, peer.connection)?,
                Err(GreetError::Stranger(_)) => {}
                Err(GreetError::Refused { refusal, slot }) => {
                    let name = slot.map_or("a connection", |slot| self.replica.name(slot));
                    let at = peer.connection.peer_address();
                    observer.note(&format!("refused {name}{at}: {}", refusal.text));
                    send_refusal(&mut peer.connection, &refusal);
                    if let Some(slot) = slot.filter(|&slot| !self.replica.is_connected(slot)) {
                        self.peers[slot].state = PeerState::Denied(refusal);
                    }
                }
            }
        }
        Ok(())
    }

    /// Refuses a worker whose certificate is that of another task.
    fn foreign_certificate(&self, connection: &MeshConnection) -> Option<Refusal> {
        // A `Hello` that cannot be read, or that names a slot that does not exist, is refused for
        // that.
        let slot = Hello::decode(connection.control()).ok()?.slot as usize;
        let name =
            Some(slot).filter(|slot| *slot < self.peers.len()).map(|s| self.replica.name(s))?;
        (!connection.may_be(name)).then(|| certificate_refusal(name))
    }

    /// Takes the connection of the worker in `slot`.
    fn welcome(&mut self, slot: usize, mut connection: MeshConnection) -> Result<(), LinkError> {
        self.close(slot);
        connection.reregister(self.poll.registry(), Token(slot))?;
        let welcome = self.replica.welcome();
        if connection.send_control(&welcome.header, &welcome.body).is_ok() {
            self.peers[slot].state = PeerState::Ready;
            self.peers[slot].connection = Some(connection);
        } else {
            self.replica.connection_lost(slot);
        }
        Ok(())
    }
}

fn send_refusal(connection: &mut MeshConnection, refusal: &Refusal) {
    let body = refusal.encode();
    let header = Header::new(FrameKind::Refuse, body.len());
    // The other worker may be gone already.
    let _ = connection.send_control(&header, &body);
}
