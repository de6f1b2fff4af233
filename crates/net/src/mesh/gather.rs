//! Everybody finds everybody, in any order, and says whom they still wait for: at the start, and
//! again when somebody was lost.
//!
//! A worker connects to all slots below its own, and is connected to by all above.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use paceline_exchange::{FrameKind, GreetError, Header, Replica, ReplicaEvent};

use super::connection::{Connection, Fault};
use super::{Mesh, MeshConfig, Peer};
use crate::dial::{TRY_EVERY, dial};
use crate::error::LinkError;
use crate::link::SECOND;
use crate::observer::LinkObserver;
use crate::peer::PeerState;
use crate::prepare;

/// The listener, and connections that have not said who they are, only wake us up.
const DOOR: Token = Token(usize::MAX - 1);
/// Connections that have not said who they are; more have to wait outside.
const MOST_STRANGERS: usize = 64;
/// How long one may stay without saying.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Why everybody looks for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// The run begins, as far as this worker knows.
    Start,
    /// Somebody was lost.
    Loss,
}

/// What is known of a peer before anything was tried.
pub(super) fn state_before(peer: usize, slot: usize) -> PeerState {
    match peer > slot {
        true => PeerState::Awaited,
        false => PeerState::Refused("not tried yet".into()),
    }
}

/// Who knocks at the door.
pub(super) struct Door {
    listener: mio::net::TcpListener,
    strangers: Vec<(Connection, Instant)>,
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
        assert!(listener.is_some() || slot + 1 == workers, "nobody could come in");
        let poll = Poll::new()?;
        let door = listener.map(|listener| Door::open(listener, &poll)).transpose()?;
        let now = Instant::now();
        let missing = (now, config.start_timeout);
        let peer = |other| Peer {
            state: state_before(other, slot),
            connection: None,
            next_try: now,
            missing,
        };
        let peers = (0..workers).map(peer).collect();
        let events = Events::with_capacity(64);
        let (losses, gone_traffic) = (0, Default::default());
        let mut mesh = Self { replica, peers, poll, events, config, door, losses, gone_traffic };
        mesh.gather(Occasion::Start, observer)?;
        if !mesh.replica.recovers() {
            mesh.door = None;
        }
        if let Err(fault) = mesh.catch_up(observer) {
            mesh.recover(fault, &[], observer)?;
        }
        Ok(mesh)
    }

    /// Connects to everybody and lets everybody in, until all are here who are needed.
    pub(super) fn gather(
        &mut self,
        occasion: Occasion,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        let begun = Instant::now();
        let mut told = begun;
        while !self.replica.is_started() {
            self.connect_missing();
            self.look(TRY_EVERY).map_err(|fault| fault.into_error())?;
            self.let_in(observer)?;
            self.read_answers()?;
            if observer.should_give_up() {
                return Err(LinkError::Interrupted);
            }
            match occasion {
                Occasion::Start if begun.elapsed() >= self.config.start_timeout => {
                    let seconds = self.config.start_timeout.as_secs();
                    return Err(LinkError::NotStarted { seconds, missing: self.missing() });
                }
                Occasion::Start => {}
                Occasion::Loss => self.check_patience()?,
            }
            if told.elapsed() >= SECOND {
                told = Instant::now();
                let what = match occasion {
                    Occasion::Start => "the start".into(),
                    Occasion::Loss => format!("step {}", self.global_step()),
                };
                observer.note(&format!("waiting for {what}: {}", self.missing()));
            }
        }
        // Who has called and is not needed would only be in the way.
        for slot in self.replica.others() {
            if !self.replica.is_connected(slot) {
                self.close(slot);
            }
        }
        self.wake_all();
        Ok(())
    }

    /// Who is missing, and what state each is in.
    fn missing(&self) -> String {
        let missing = self.replica.others().filter(|&slot| !self.replica.is_connected(slot));
        let states = missing.map(|slot| {
            let (name, address) = (self.replica.name(slot), &self.config.addresses[slot]);
            format!("{name} at {address} is {}", self.peers[slot].state)
        });
        states.collect::<Vec<_>>().join("; ")
    }

    /// Tries every lower slot that is not connected and whose time to be tried has come.
    fn connect_missing(&mut self) {
        for slot in 0..self.replica.slot() {
            let peer = &self.peers[slot];
            if peer.connection.is_some() || Instant::now() < peer.next_try {
                continue;
            }
            let tried = self.dial_slot(slot);
            let peer = &mut self.peers[slot];
            peer.next_try = Instant::now() + TRY_EVERY;
            match tried {
                Ok(()) => peer.state = PeerState::Connected,
                // A peer that denies us is there; that it hung up is no news.
                Err(_) if matches!(peer.state, PeerState::Denied(_)) => {}
                Err(state) => peer.state = state,
            }
        }
    }

    fn dial_slot(&mut self, slot: usize) -> Result<(), PeerState> {
        let stream = dial(&self.config.addresses[slot], self.poll.registry(), Token(slot))?;
        let mut connection = Connection::new(stream);
        let (header, body) = self.replica.hello(slot);
        let said = connection.send_control(slot, &header, &body);
        said.map_err(|_| PeerState::Refused("it closed the connection".into()))?;
        self.peers[slot].connection = Some(connection);
        Ok(())
    }

    /// Reads what those have to say that are connected. Losing one now is no loss: it is tried
    /// again, or comes again.
    fn read_answers(&mut self) -> Result<(), LinkError> {
        for slot in self.replica.others() {
            let Some(mut connection) = self.peers[slot].connection.take() else { continue };
            connection.wake();
            let state = match self.replica.is_connected(slot) {
                // It may be ahead of us; what it says then is read in its turn.
                true => match connection.read_event(slot, &mut self.replica) {
                    Ok(Some(ReplicaEvent::Abort(why))) => return Err(LinkError::Aborted(why)),
                    Ok(_) if connection.is_closed => {
                        Err(Fault::lost(slot, "it closed the connection"))
                    }
                    read => read.map(|_| PeerState::Ready),
                },
                false => self.read_answer(slot, &mut connection),
            };
            let peer = &mut self.peers[slot];
            match state {
                Ok(PeerState::Denied(refusal)) => peer.state = PeerState::Denied(refusal),
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

    fn read_answer(
        &mut self,
        slot: usize,
        connection: &mut Connection,
    ) -> Result<PeerState, Fault> {
        let read = connection.read_control().map_err(|why| Fault::lost(slot, why))?;
        let Some((header, bytes)) = read else { return Ok(PeerState::Connected) };
        let answered = self.replica.hello_answered(slot, &header, bytes);
        let refusal = answered.map_err(|error| Fault::lost(slot, error))?;
        Ok(refusal.map_or(PeerState::Ready, PeerState::Denied))
    }

    /// Takes in who has come, and hears who they are.
    pub(super) fn let_in(&mut self, observer: &mut impl LinkObserver) -> Result<(), LinkError> {
        let Some(mut door) = self.door.take() else { return Ok(()) };
        let heard = door.accept(&self.poll).map_err(LinkError::Io);
        let heard = heard.and_then(|()| self.hear_strangers(&mut door, observer));
        self.door = Some(door);
        heard
    }

    fn hear_strangers(
        &mut self,
        door: &mut Door,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        for (mut stranger, since) in std::mem::take(&mut door.strangers) {
            stranger.wake();
            let heard = match stranger.read_control() {
                Ok(None) if since.elapsed() < HELLO_TIMEOUT => {
                    door.strangers.push((stranger, since));
                    continue;
                }
                Ok(Some((header, bytes))) => self.replica.accept_hello(&header, bytes),
                Ok(None) | Err(_) => continue,
            };
            match heard {
                Ok(slot) => {
                    self.close(slot);
                    let both = Interest::READABLE | Interest::WRITABLE;
                    let registry = self.poll.registry();
                    registry.reregister(&mut stranger.stream, Token(slot), both)?;
                    let (header, body) = self.replica.welcome();
                    match stranger.send_control(slot, &header, &body) {
                        Ok(()) => {
                            self.peers[slot].state = PeerState::Ready;
                            self.peers[slot].connection = Some(stranger);
                        }
                        Err(_) => self.replica.connection_lost(slot),
                    }
                }
                Err(GreetError::Stranger(_)) => {}
                Err(GreetError::Refused { refusal, slot }) => {
                    observer.note(&format!("refused a connection: {}", refusal.text));
                    let body = refusal.encode();
                    let header = Header::new(FrameKind::Refuse, body.len());
                    let _ = stranger.send_control(0, &header, &body);
                    if let Some(peer) = slot.filter(|&slot| !self.replica.is_connected(slot)) {
                        self.peers[peer].state = PeerState::Denied(refusal);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Door {
    fn open(listener: TcpListener, poll: &Poll) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let mut listener = mio::net::TcpListener::from_std(listener);
        poll.registry().register(&mut listener, DOOR, Interest::READABLE)?;
        Ok(Self { listener, strangers: Vec::new() })
    }

    fn accept(&mut self, poll: &Poll) -> std::io::Result<()> {
        while self.strangers.len() < MOST_STRANGERS {
            // A connection that failed before it was accepted is nobody's loss.
            let Ok((mut stream, _)) = self.listener.accept() else { break };
            let both = Interest::READABLE | Interest::WRITABLE;
            if prepare(&stream).is_ok() {
                poll.registry().register(&mut stream, DOOR, both)?;
                self.strangers.push((Connection::new(stream), Instant::now()));
            }
        }
        Ok(())
    }
}
