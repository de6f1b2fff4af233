//! Accepts connections, and ends the server when its run is over.

use std::io;
use std::net::TcpListener;
use std::thread::{self, Scope};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use paceline_exchange::{Generation, Level, Outcome, Server};

use super::host::ServerHost;
use super::observer::ServerObserver;
use super::shared::{ServerCore, ServerShared};
use super::thread::run;
use crate::socket::{BOTH_WAYS, poll_once, set_options};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// How often the server learns the time.
const TICK: Duration = Duration::from_millis(100);

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

/// Serves the clients of `server` until the run is over or goes back to a checkpoint.
///
/// Starts a thread for each connection that `listener` accepts; all have ended on return.
pub fn serve(
    listener: &TcpListener,
    server: &mut Server,
    observer: &mut dyn ServerObserver,
) -> Result<ServeEnd, ServeError> {
    listener.set_nonblocking(true)?;
    let mut poll = Poll::new()?;
    let mut listener = mio::net::TcpListener::from_std(listener.try_clone()?);
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let waker = Waker::new(poll.registry(), WAKER)?;
    let shared = ServerShared::new(server, observer, waker);
    thread::scope(|scope| {
        let served = accept_until_over(&shared, scope, &mut poll, &listener);
        shared.end_threads(matches!(served, Ok(ServeEnd::Rewind(_))));
        served
    })
}

/// Accepts connections and ticks until the run is over.
fn accept_until_over<'scope>(
    shared: &'scope ServerShared<'_>,
    scope: &'scope Scope<'scope, '_>,
    poll: &mut Poll,
    listener: &mio::net::TcpListener,
) -> Result<ServeEnd, ServeError> {
    let mut events = Events::with_capacity(64);
    let (mut opened, mut by_slot) = (0, Vec::new());
    loop {
        poll_once(poll, &mut events, TICK)?;
        while let Some(stream) = accept(shared, listener) {
            opened += 1;
            open(shared, scope, stream, opened)?;
        }
        let mut core = shared.core();
        let mut host = ServerHost::of_acceptor(shared);
        host.with(&mut core, |server, host| server.tick(shared.now_ms(), host));
        let ServerCore { server, observer, closed, closed_by_slot } = &mut *core;
        shared.traffic_by_slot(closed_by_slot, &mut by_slot);
        observer.traffic(&by_slot);
        observer.totals(&shared.totals(closed));
        observer.tick(server).map_err(ServeError::Failed)?;
        let outcome = server.outcome().cloned();
        host.deliver(core);
        match outcome {
            None => {}
            Some(Outcome::Done) => return Ok(ServeEnd::Finished),
            Some(Outcome::Rewind(to)) => return Ok(ServeEnd::Rewind(to)),
            Some(Outcome::Failed(why)) => return Err(ServeError::Failed(why)),
        }
    }
}

fn accept(shared: &ServerShared<'_>, listener: &mio::net::TcpListener) -> Option<TcpStream> {
    match listener.accept() {
        Ok((stream, _)) => Some(stream),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => {
            // Out of file descriptors, or a client that went away at once: not fatal.
            shared.core().observer.note(Level::Warning, &format!("cannot accept: {error}"));
            None
        }
    }
}

/// Gives a new connection its thread.
fn open<'scope>(
    shared: &'scope ServerShared<'_>,
    scope: &'scope Scope<'scope, '_>,
    mut stream: TcpStream,
    number: u64,
) -> io::Result<()> {
    if shared.is_full() {
        shared.core().observer.note(Level::Warning, "too many connections; turned one away");
        return Ok(());
    }
    if set_options(&stream).is_err() {
        return Ok(());
    }
    let poll = Poll::new()?;
    poll.registry().register(&mut stream, Token(0), BOTH_WAYS)?;
    let connection = shared.add(stream, number);
    shared.core().server.connection_opened(connection.id(), shared.now_ms());
    thread::Builder::new()
        .name("connection".into())
        .spawn_scoped(scope, move || run(&connection, shared, poll))?;
    Ok(())
}
