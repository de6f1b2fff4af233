//! Connections whose clients have not said `Hello`.
//!
//! The thread that accepts reads these connections too, so a stranger costs a descriptor and a few
//! bytes, but no thread. It gets a thread when the server has accepted its `Hello`. There is room
//! for a bounded number. When the room is full, the stranger that has waited longest leaves, of the
//! address that most of them came from: a client of the run says `Hello` at once and is never the
//! one.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use paceline_exchange::{FrameKind, Header};

use crate::inbound::{Inbound, ReadProgress};

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
}

/// A client that has said `Hello`.
pub(super) struct Greeting {
    pub(super) header: Header,
    pub(super) payload: Vec<u8>,
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    /// The connection's reading side, with what has arrived behind the `Hello`.
    pub(super) inbound: Inbound,
}

/// All connections whose clients have not said `Hello`.
pub(super) struct Strangers {
    registry: Registry,
    /// By token; free places are used again.
    places: Vec<Option<Stranger>>,
    free: Vec<usize>,
    most: usize,
}

struct Stranger {
    stream: TcpStream,
    address: SocketAddr,
    accepted: Instant,
    inbound: Inbound,
    payload: Vec<u8>,
}

impl Strangers {
    /// A room without strangers; their sockets wake the poll of this registry.
    pub(super) fn new(registry: Registry) -> Self {
        Self { registry, places: Vec::new(), free: Vec::new(), most: MAX_STRANGERS }
    }

    /// Takes in a new connection, and sends another one away if the room is full. Returns why a
    /// connection was sent away, be it this one.
    pub(super) fn take_in(
        &mut self,
        mut stream: TcpStream,
        address: SocketAddr,
    ) -> Option<Dismissal> {
        let is_full = self.places.len() - self.free.len() >= self.most;
        let dismissed = is_full.then(|| self.make_room()).flatten();
        let place = self.free.pop().unwrap_or(self.places.len());
        let token = Token(FIRST_TOKEN + place);
        if let Err(error) = self.registry.register(&mut stream, token, Interest::READABLE) {
            self.free.extend((place < self.places.len()).then_some(place));
            return Some(Dismissal { why: error.to_string(), address });
        }
        if place == self.places.len() {
            self.places.push(None);
        }
        let (inbound, payload) = Default::default();
        let accepted = Instant::now();
        self.places[place] = Some(Stranger { stream, address, accepted, inbound, payload });
        dismissed
    }

    /// Reads what a stranger has sent. Returns its `Hello` once that is complete, or why it was
    /// sent away; `None` if it has more to say, or the event concerns no stranger.
    pub(super) fn read(&mut self, event: &Event) -> Option<Result<Greeting, Dismissal>> {
        let place = event.token().0.checked_sub(FIRST_TOKEN)?;
        let stranger = self.places.get_mut(place)?.as_mut()?;
        let read = stranger.read(event.is_read_closed()).transpose()?;
        let Stranger { stream, address, inbound, payload, .. } = self.remove(place)?;
        Some(match read {
            Ok(header) => Ok(Greeting { header, payload, stream, address, inbound }),
            Err(why) => Err(Dismissal { why, address }),
        })
    }

    /// Sends away those that have not said `Hello` in time.
    pub(super) fn dismiss_overdue(&mut self, mut note: impl FnMut(Dismissal)) {
        let now = Instant::now();
        for place in 0..self.places.len() {
            let is_overdue = |stranger: &Stranger| now - stranger.accepted >= HELLO_TIMEOUT;
            if self.places[place].as_ref().is_some_and(is_overdue)
                && let Some(Stranger { address, .. }) = self.remove(place)
            {
                note(Dismissal { why: "no Hello in time".into(), address });
            }
        }
    }

    /// Sends away the stranger that has waited longest, of the address with most strangers.
    pub(super) fn make_room(&mut self) -> Option<Dismissal> {
        let mut by_address: HashMap<IpAddr, usize> = HashMap::new();
        let present = || (0..).zip(&self.places).filter_map(|(at, s)| Some((at, s.as_ref()?)));
        present().for_each(|(_, s)| *by_address.entry(s.address.ip()).or_default() += 1);
        let (place, _) = present()
            .max_by_key(|(_, s)| (by_address[&s.address.ip()], std::cmp::Reverse(s.accepted)))?;
        let Stranger { address, .. } = self.remove(place)?;
        Some(Dismissal { why: "too many connections without Hello".into(), address })
    }

    fn remove(&mut self, place: usize) -> Option<Stranger> {
        let mut stranger = self.places.get_mut(place)?.take()?;
        self.free.push(place);
        let _ = self.registry.deregister(&mut stranger.stream);
        Some(stranger)
    }
}

impl Stranger {
    /// Reads up to the end of a `Hello`; `None` if it is not complete.
    fn read(&mut self, is_ending: bool) -> Result<Option<Header>, String> {
        if is_ending {
            self.inbound.expect_end();
        }
        self.inbound.wake();
        loop {
            let progress = match self.inbound.header().copied() {
                None => self.inbound.read_header(&mut self.stream, &mut []),
                Some(header) if header.kind != FrameKind::Hello => {
                    return Err("a frame before Hello".into());
                }
                Some(header) => {
                    self.payload.resize(header.len as usize, 0);
                    self.inbound.read_payload(&mut self.stream, &mut self.payload)
                }
            };
            match progress.map_err(|error| error.to_string())? {
                ReadProgress::Header(_) => {}
                ReadProgress::Complete(header) => return Ok(Some(header)),
                ReadProgress::Blocked => return Ok(None),
                ReadProgress::Closed => return Err("the other end closed it".into()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
