//! Accepts connections, and ends the server when its run is over.
//!
//! No stranger ends the server: a connection that cannot be accepted, read or given a thread is
//! closed, and the next one has its turn.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use paceline_exchange::{Generation, Level, Outcome, Payload, Server};
use paceline_trust::Credentials;
use socket2::SockRef;

use super::connection::ClientConnection;
use super::host::ServerHost;
use super::observer::ServerObserver;
use super::shared::{ServerCore, ServerShared};
use super::stranger_notes::StrangerNotes;
use super::strangers::{Dismissal, Greeting, Strangers, end_properly};
use super::thread::run;
use super::totals::ServerTotals;
use crate::inbound::Inbound;
use crate::socket::{BOTH_WAYS, poll_once, raise_descriptor_limit, set_options};
use crate::traffic::Traffic;

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// How often the server is given the time.
const TICK: Duration = Duration::from_millis(100);
/// How long the next strangers wait after one was sent away. They are then accepted several at a
/// time, which costs half as much as waking up for each.
const PAUSE: Duration = Duration::from_millis(5);
/// Connections that the system may keep until they are accepted.
const BACKLOG: i32 = 4_096;
/// How many connections are accepted before their bytes are read.
const ACCEPT_AT_ONCE: usize = 256;

/// A connection has a socket and a poll.
const DESCRIPTORS_PER_CONNECTION: u64 = 2;
/// Files, evaluators and strangers.
const OTHER_DESCRIPTORS: u64 = 256;

/// Why [`serve`] failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The run failed or was aborted.
    #[error("{0}")]
    Failed(String),
    /// The operating system refuses a socket, a poll or a thread.
    #[error("the server's sockets: {0}")]
    Io(#[from] io::Error),
}

/// How [`serve`] ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeEnd {
    /// The run is over.
    Finished,
    /// The run goes back to the checkpoint of a newer generation: load it and serve again.
    Rewind(Generation),
}

/// Serves the clients of `server` until the run is over or goes back to a checkpoint. Clients must
/// prove that they have the same credentials.
///
/// Starts a thread for each client that the server lets in; all have ended on return.
pub fn serve(
    listener: &TcpListener,
    server: &mut Server,
    credentials: &Credentials,
    observer: &mut dyn ServerObserver,
) -> Result<ServeEnd, ServeError> {
    check_descriptors(server.stats().slots.len())?;
    listener.set_nonblocking(true)?;
    // Connections inherit this: closing one resets it, until it is a client's. Ending each properly
    // would be a third of what a stranger costs, and leaves the system with its memory.
    SockRef::from(listener).set_linger(Some(Duration::ZERO))?;
    SockRef::from(listener).listen(BACKLOG)?;
    let mut poll = Poll::new()?;
    let mut listener = mio::net::TcpListener::from_std(listener.try_clone()?);
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let waker = Waker::new(poll.registry(), WAKER)?;
    let strangers = Strangers::new(poll.registry().try_clone()?, credentials.clone());
    let shared = ServerShared::new(server, observer, waker);
    thread::scope(|scope| {
        let notes = StrangerNotes::new(Instant::now());
        let acceptor = Acceptor {
            shared: &shared,
            scope,
            listener,
            strangers,
            notes,
            opened: 0,
            dismissed: false,
        };
        let served = acceptor.accept_until_over(&mut poll);
        shared.end_threads(matches!(served, Ok(ServeEnd::Rewind(_))));
        served
    })
}

/// The thread that accepts connections, reads their `Hello`, and ticks.
struct Acceptor<'scope, 'env, 'a> {
    shared: &'scope ServerShared<'a>,
    scope: &'scope Scope<'scope, 'env>,
    listener: mio::net::TcpListener,
    strangers: Strangers,
    notes: StrangerNotes,
    /// Connections of clients so far.
    opened: u64,
    /// Whether a stranger was sent away since the last pause.
    dismissed: bool,
}

impl Acceptor<'_, '_, '_> {
    fn accept_until_over(mut self, poll: &mut Poll) -> Result<ServeEnd, ServeError> {
        let mut events = Events::with_capacity(ACCEPT_AT_ONCE);
        let (mut by_slot, mut ticked, mut has_more) = (Vec::new(), Instant::now(), false);
        loop {
            if std::mem::take(&mut self.dismissed) {
                thread::sleep(PAUSE);
            }
            let timeout = if has_more { Duration::ZERO } else { TICK - ticked.elapsed().min(TICK) };
            poll_once(poll, &mut events, timeout)?;
            let mut is_due = ticked.elapsed() >= TICK;
            for event in &events {
                is_due |= event.token() == WAKER;
                match self.strangers.read(event) {
                    Some(Ok(greeting)) => self.greet(greeting),
                    Some(Err(dismissal)) => self.note(&dismissal),
                    None => {}
                }
            }
            has_more = self.accept();
            if !is_due {
                continue;
            }
            ticked = Instant::now();
            if let Some(end) = self.tick(&mut by_slot)? {
                return Ok(end);
            }
        }
    }

    /// Lets the server and its observer know the time. Returns how the run has ended, if it has.
    fn tick(&mut self, by_slot: &mut Vec<Traffic>) -> Result<Option<ServeEnd>, ServeError> {
        let mut overdue = Vec::new();
        self.strangers.dismiss_overdue(|dismissal| overdue.push(dismissal));
        overdue.iter().for_each(|dismissal| self.note(dismissal));
        let shared = self.shared;
        let mut core = shared.core();
        if let Some(summary) = self.notes.summary(Instant::now()) {
            core.observer.note(Level::Warning, &summary);
        }
        let mut host = ServerHost::of_acceptor(shared);
        host.with(&mut core, |server, host| server.tick(shared.now_ms(), host));
        let ServerCore { server, observer, closed, closed_by_slot } = &mut *core;
        shared.traffic_by_slot(closed_by_slot, by_slot);
        observer.traffic(by_slot);
        observer.totals(&shared.totals(closed));
        observer.tick(server).map_err(ServeError::Failed)?;
        let outcome = server.outcome().cloned();
        host.deliver(core);
        match outcome {
            None => Ok(None),
            Some(Outcome::Done) => Ok(Some(ServeEnd::Finished)),
            Some(Outcome::Rewind(to)) => Ok(Some(ServeEnd::Rewind(to))),
            Some(Outcome::Failed(why)) => Err(ServeError::Failed(why)),
        }
    }

    /// Accepts some of the connections that wait. Returns whether more may wait.
    fn accept(&mut self) -> bool {
        for _ in 0..ACCEPT_AT_ONCE {
            let dismissal = match self.listener.accept() {
                Ok((stream, address)) => self.meet(stream, address).err(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // A client that went away at once.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => None,
                Err(error) => {
                    // Out of descriptors: sending a stranger away frees its descriptors.
                    self.warn(&format!("cannot accept a connection: {error}"));
                    let Some(dismissal) = self.strangers.make_room() else { return false };
                    Some(dismissal)
                }
            };
            dismissal.iter().for_each(|dismissal| self.note(dismissal));
        }
        true
    }

    /// Reads what a new connection has sent already. Most hostile ones end here, before they have
    /// a place among the strangers.
    fn meet(&mut self, stream: TcpStream, address: SocketAddr) -> Result<(), Dismissal> {
        let mut stranger = self.strangers.meet(stream, address)?;
        match stranger.read(false)? {
            None => self.strangers.keep(stranger)?,
            Some(header) => self.greet(stranger.into_greeting(header)?),
        }
        Ok(())
    }

    /// Hands a `Hello` to the server. A client that it accepts gets a thread.
    fn greet(&mut self, greeting: Greeting) {
        let Greeting { header, payload, stream, address, inbound, sealer } = greeting;
        let shared = self.shared;
        if shared.is_full() {
            return self.warn(&format!("too many connections; turned away {address}"));
        }
        if set_options(stream.socket()).and_then(|()| end_properly(&stream)).is_err() {
            return;
        }
        self.opened += 1;
        let connection = shared.add(stream, sealer, self.opened);
        connection.set_received_bytes(inbound.received_bytes());
        let (mut host, id, now_ms) =
            (ServerHost::of_greeting(shared), connection.id(), shared.now_ms());
        let mut core = shared.core();
        core.server.connection_opened(id, now_ms);
        host.with(&mut core, |server, host| {
            server.frame_arrived(id, &header, Payload::Bytes(&payload), now_ms, host);
        });
        connection.set_slot(core.server.slot_of(id));
        host.deliver(core);
        let is_refused = connection.is_closing();
        for note in host.take_notes() {
            if !is_refused || self.notes.may_write(Instant::now()) {
                shared.core().observer.note(note.level, &note.text);
            }
        }
        if is_refused && connection.waiting_bytes() == 0 {
            return close(shared, &connection);
        }
        if let Err(error) = self.start_thread(&connection, inbound) {
            self.warn(&format!("cannot start a thread for the connection of {address}: {error}"));
            let mut core = shared.core();
            host.with(&mut core, |server, host| {
                server.connection_closed(
                    id,
                    &format!("cannot start a thread for it: {error}"),
                    now_ms,
                    host,
                );
            });
            host.deliver(core);
            close(shared, &connection);
        }
    }

    fn start_thread(&self, connection: &Arc<ClientConnection>, inbound: Inbound) -> io::Result<()> {
        let poll = Poll::new()?;
        let descriptor = connection.stream().socket().as_raw_fd();
        poll.registry().register(&mut SourceFd(&descriptor), Token(0), BOTH_WAYS)?;
        let (connection, shared) = (connection.clone(), self.shared);
        thread::Builder::new()
            .name("connection".into())
            .spawn_scoped(self.scope, move || run(&connection, shared, poll, inbound))?;
        Ok(())
    }

    fn note(&mut self, dismissal: &Dismissal) {
        let Dismissal { why, address, level } = dismissal;
        self.dismissed = true;
        if self.notes.may_write(Instant::now()) {
            let text = format!("closed the connection of a stranger: {why} ({address})");
            self.shared.core().observer.note(*level, &text);
        }
    }

    fn warn(&mut self, text: &str) {
        if self.notes.may_write(Instant::now()) {
            self.shared.core().observer.note(Level::Warning, text);
        }
    }
}

/// Closes a connection that has no thread.
fn close(shared: &ServerShared<'_>, connection: &ClientConnection) {
    shared.remove(connection, &ServerTotals::default());
    connection.shut_down();
}

/// Checks that the process may open what a server with this many slots needs.
fn check_descriptors(slots: usize) -> io::Result<()> {
    let needed = DESCRIPTORS_PER_CONNECTION * slots as u64 + OTHER_DESCRIPTORS;
    let most = raise_descriptor_limit();
    if needed <= most {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "a server with {slots} workers needs {needed} open files, but this process may open only \
         {most}: raise the limit, for example with `ulimit -n {needed}`"
    )))
}
