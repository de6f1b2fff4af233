//! Connections whose clients have not said `Hello`.
//!
//! The thread that accepts reads these connections too, so a stranger costs a descriptor and a few
//! bytes, but no thread. Its `Hello` is read when it has proved that it knows the run's secret. It
//! gets a thread when the server has accepted its `Hello`. There is room for a bounded number. When
//! the room is full, the address with the most strangers loses the stranger that has waited
//! longest. A client of the run says `Hello` at once, so it is never that one.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use paceline_exchange::{FrameKind, Header, Hello, Level, PeerRole, Refusal, RefuseCode};
use paceline_trust::{
    Accepted, AddressCrowds, Claims, Credentials, FrameKeys, FrameSealer, HandshakeError,
};
use socket2::SockRef;

use crate::inbound::{Inbound, ReadProgress};
use crate::opening::{Accepting, OpeningError, certificate_refusal, check_claims, refusal_frame};
use crate::peer_stream::PeerStream;

/// The most strangers at a time.
const MAX_STRANGERS: usize = 512;
/// How long a stranger may take to say `Hello`.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// The tokens of strangers begin here.
const FIRST_TOKEN: usize = 2;

/// Why a stranger was sent away, and its address.
pub(super) struct Dismissal {
    pub(super) why: String,
    pub(super) address: SocketAddr,
    pub(super) level: Level,
}

impl Dismissal {
    fn new(why: impl Into<String>, address: SocketAddr) -> Self {
        Self { why: why.into(), address, level: Level::Info }
    }
}

/// A client that has said `Hello`.
pub(super) struct Greeting {
    pub(super) header: Header,
    pub(super) payload: Vec<u8>,
    pub(super) stream: PeerStream,
    pub(super) address: SocketAddr,
    /// The connection's reading side, with what has arrived behind the `Hello`.
    pub(super) inbound: Inbound,
    /// Seals what is sent to the client.
    pub(super) sealer: Option<FrameSealer>,
}

/// All connections whose clients have not said `Hello`.
pub(super) struct Strangers {
    registry: Registry,
    credentials: Credentials,
    /// By token; free places are used again.
    places: Vec<Option<Stranger>>,
    free: Vec<usize>,
    /// When each was accepted, and its token.
    crowds: AddressCrowds<(Instant, usize)>,
    most: usize,
}

/// A connection whose client has not said `Hello`.
pub(super) struct Stranger {
    stream: PeerStream,
    address: SocketAddr,
    accepted: Instant,
    state: StrangerState,
}

/// How far a stranger has come.
enum StrangerState {
    /// It has not proved that it knows the run's secret.
    Opening(Box<Accepting>),
    /// It has, and its `Hello` is being read.
    Proved(Box<ProvedStranger>),
}

/// A stranger that has proved that it knows the run's secret.
struct ProvedStranger {
    claims: Claims,
    sealer: Option<FrameSealer>,
    inbound: Inbound,
    payload: Vec<u8>,
}

impl Strangers {
    /// A room without strangers; their sockets wake the poll of this registry.
    pub(super) fn new(registry: Registry, credentials: Credentials) -> Self {
        let (places, free, crowds) = (Vec::new(), Vec::new(), AddressCrowds::default());
        Self { registry, credentials, places, free, crowds, most: MAX_STRANGERS }
    }

    /// The stranger at the other end of a new connection.
    pub(super) fn meet(
        &self,
        stream: TcpStream,
        address: SocketAddr,
    ) -> Result<Stranger, Dismissal> {
        let stream = PeerStream::accept(stream, address, &self.credentials)
            .map_err(|error| Dismissal::new(error.to_string(), address))?;
        if stream.is_encrypted() {
            // The reason for a refusal is written by TLS, or by the protocol behind it.
            end_properly(&stream).map_err(|error| Dismissal::new(error.to_string(), address))?;
        }
        let requires_seals = self.credentials.seals(address.ip());
        let accepting = Accepting::new(&self.credentials, requires_seals);
        let state = StrangerState::Opening(Box::new(accepting));
        Ok(Stranger { stream, address, accepted: Instant::now(), state })
    }

    /// Gives a stranger a place, and sends another one away if the room is full.
    ///
    /// # Errors
    /// Why a connection was sent away; that may be this one.
    pub(super) fn keep(&mut self, mut stranger: Stranger) -> Result<(), Dismissal> {
        let is_full = self.places.len() - self.free.len() >= self.most;
        let dismissed = is_full.then(|| self.make_room()).flatten();
        let place = self.free.pop().unwrap_or(self.places.len());
        let (socket, token) = (stranger.stream.socket_mut(), Token(FIRST_TOKEN + place));
        if let Err(error) = self.registry.register(socket, token, Interest::READABLE) {
            self.free.extend((place < self.places.len()).then_some(place));
            return Err(Dismissal::new(error.to_string(), stranger.address));
        }
        if place == self.places.len() {
            self.places.push(None);
        }
        self.crowds.enter(stranger.address.ip(), (stranger.accepted, place));
        self.places[place] = Some(stranger);
        dismissed.map_or(Ok(()), Err)
    }

    /// Reads what a stranger has sent. Returns its `Hello` once that is complete, or why it was
    /// sent away; `None` if it has more to say, or the event concerns no stranger.
    pub(super) fn read(&mut self, event: &Event) -> Option<Result<Greeting, Dismissal>> {
        let place = event.token().0.checked_sub(FIRST_TOKEN)?;
        let stranger = self.places.get_mut(place)?.as_mut()?;
        let read = stranger.read(event.is_read_closed()).transpose()?;
        let mut stranger = self.remove(place)?;
        Some(read.and_then(|header| {
            // It gets a poll of its own. The socket of one that is sent away is closed, and leaves
            // this poll by that.
            let _ = self.registry.deregister(stranger.stream.socket_mut());
            stranger.into_greeting(header)
        }))
    }

    /// Sends away those that have not said `Hello` in time.
    pub(super) fn dismiss_overdue(&mut self, mut note: impl FnMut(Dismissal)) {
        let now = Instant::now();
        for place in 0..self.places.len() {
            let is_overdue = |stranger: &Stranger| now - stranger.accepted >= HELLO_TIMEOUT;
            if self.places[place].as_ref().is_some_and(is_overdue)
                && let Some(Stranger { address, .. }) = self.remove(place)
            {
                note(Dismissal::new("no Hello in time", address));
            }
        }
    }

    /// Sends away the stranger that has waited longest, of the address with most strangers.
    pub(super) fn make_room(&mut self) -> Option<Dismissal> {
        let (_, place) = self.crowds.surplus()?;
        let Stranger { address, .. } = self.remove(place)?;
        Some(Dismissal::new("too many connections without Hello", address))
    }

    /// Takes a stranger out of its place.
    fn remove(&mut self, place: usize) -> Option<Stranger> {
        let stranger = self.places.get_mut(place)?.take()?;
        self.free.push(place);
        self.crowds.leave(stranger.address.ip(), (stranger.accepted, place));
        Some(stranger)
    }
}

impl Stranger {
    /// Reads up to the end of a `Hello`; `None` if it is not complete.
    pub(super) fn read(&mut self, is_ending: bool) -> Result<Option<Header>, Dismissal> {
        if let StrangerState::Opening(accepting) = &mut self.state {
            match accepting.advance(&mut &self.stream) {
                Ok(None) => return Ok(None),
                Ok(Some(Accepted { claims, keys })) => {
                    self.state = StrangerState::Proved(Box::new(ProvedStranger {
                        claims,
                        sealer: keys.as_ref().map(FrameKeys::sealer),
                        inbound: Inbound::new(keys.as_ref().map(FrameKeys::opener)),
                        payload: Vec::new(),
                    }));
                }
                Err(error) => return Err(self.dismiss_opening(&error)),
            }
        }
        let header = self.read_hello(is_ending);
        let header = header.map_err(|why| Dismissal::new(why, self.address))?;
        match header.and_then(|_| self.foreign_certificate()) {
            None => Ok(header),
            Some(refusal) => {
                // It may be gone already.
                let _ = (&self.stream).write(&refusal_frame(&refusal));
                let dismissal = Dismissal::new(refusal.text, self.address);
                Err(Dismissal { level: Level::Warning, ..dismissal })
            }
        }
    }

    /// The client that this stranger is, once its `Hello` is complete.
    pub(super) fn into_greeting(self, header: Header) -> Result<Greeting, Dismissal> {
        let Stranger { stream, address, state, .. } = self;
        let StrangerState::Proved(proved) = state else {
            return Err(Dismissal::new("a Hello before the proof", address));
        };
        let ProvedStranger { sealer, inbound, payload, .. } = *proved;
        Ok(Greeting { header, payload, stream, address, inbound, sealer })
    }

    /// Refuses a client whose certificate is not that of the task that it says it is.
    fn foreign_certificate(&self) -> Option<Refusal> {
        let StrangerState::Proved(proved) = &self.state else { return None };
        let hello = Hello::decode(&proved.payload).ok()?;
        if self.stream.is_encrypted() && !says_its_name(&hello) {
            let text = "it does not say which task it is".to_owned();
            return Some(Refusal { code: RefuseCode::WrongCertificate, text });
        }
        let task = stated_task(&hello);
        if self.stream.is_encrypted() && !may_play(hello.role, &task) {
            let text = format!("{task} may not be a worker");
            return Some(Refusal { code: RefuseCode::WrongCertificate, text });
        }
        (!self.stream.may_be(&task)).then(|| certificate_refusal(&task))
    }

    /// A task of this version with another secret or settings deserves a warning.
    fn dismiss_opening(&self, error: &OpeningError) -> Dismissal {
        use HandshakeError::{Seals, Service, Token, Version};
        let is_paceline = match error {
            OpeningError::Handshake(error) => {
                matches!(error, Version { .. } | Token | Seals | Service)
            }
            OpeningError::OlderVersion(_) => true,
            OpeningError::Certificate(_) => true,
            OpeningError::Io(_) | OpeningError::Closed => false,
            OpeningError::Unasked | OpeningError::Doubtful(_) => false,
        };
        if is_paceline && !matches!(error, OpeningError::Handshake(Token)) {
            // It was sent the reason.
            let _ = end_properly(&self.stream);
        }
        let level = if is_paceline { Level::Warning } else { Level::Info };
        Dismissal { level, ..Dismissal::new(error.to_string(), self.address) }
    }

    fn read_hello(&mut self, is_ending: bool) -> Result<Option<Header>, String> {
        let StrangerState::Proved(proved) = &mut self.state else { return Ok(None) };
        let ProvedStranger { claims, inbound, payload, .. } = &mut **proved;
        if is_ending {
            inbound.expect_end();
        }
        inbound.wake();
        loop {
            let progress = match inbound.header().copied() {
                None => inbound.read_header(&mut &self.stream, &mut []),
                Some(header) if header.kind != FrameKind::Hello => {
                    return Err("a frame before Hello".into());
                }
                Some(header) => {
                    payload.resize(header.len as usize, 0);
                    inbound.read_payload(&mut &self.stream, payload)
                }
            };
            match progress.map_err(|error| error.to_string())? {
                ReadProgress::Header(_) => {}
                ReadProgress::Complete(header) => {
                    return check_claims(Some(*claims), payload).map(|()| Some(header));
                }
                ReadProgress::Blocked => return Ok(None),
                ReadProgress::Closed => return Err("the other end closed it".into()),
            }
        }
    }
}

/// Lets what was sent on a connection arrive after it is closed.
pub(super) fn end_properly(stream: &PeerStream) -> io::Result<()> {
    SockRef::from(stream.socket()).set_linger(None)
}

/// The task that a client says it is. A worker that joins later has no number yet.
fn stated_task(hello: &Hello) -> String {
    match hello.role {
        PeerRole::Worker | PeerRole::Process if !hello.process.name.is_empty() => {
            hello.process.name.clone()
        }
        PeerRole::Worker | PeerRole::Replica => format!("worker:{}", hello.slot),
        PeerRole::Evaluator => format!("evaluator:{}", hello.slot),
        PeerRole::Process | PeerRole::Newcomer => "worker".into(),
    }
}

/// Whether a client that fills a slot, or has a place on the roster, says which task it is. Only
/// the server knows whose slot or place that is, and it compares names.
fn says_its_name(hello: &Hello) -> bool {
    let needs_name = match hello.role {
        PeerRole::Worker => true,
        PeerRole::Process => hello.slot != Hello::NO_SLOT,
        PeerRole::Replica | PeerRole::Evaluator | PeerRole::Newcomer => false,
    };
    !(needs_name && hello.process.name.is_empty())
}

/// Whether a task of this name may have a role. Otherwise an evaluator could act as a worker with
/// its own certificate.
fn may_play(role: PeerRole, task: &str) -> bool {
    let kind = task.split(':').next().unwrap_or(task);
    role == PeerRole::Evaluator || ["worker", "chief"].contains(&kind)
}

#[cfg(test)]
mod tests;
