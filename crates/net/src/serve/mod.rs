//! A server's side: a thread for each connection, around one machine.
//!
//! A connection's thread reads frames, hands each to the machine, and writes what the machine
//! wants sent, to whomever it goes. The machine is behind a lock that is held only while it
//! decides and applies, a few microseconds for a small model, and never across a call to a
//! socket: what is to be sent is copied out of the parameters and written after the lock is
//! released. Threads and not one event loop, because reading and writing cost many times what
//! deciding and applying do, and because a worker and the thread that serves it can then take
//! turns on one core without waking another.

mod connection;
mod hands;
mod near;

use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};
use paceline_exchange::{ConnId, Generation, GradientStage, Level, Outcome, Server, Stats};
use paceline_observe::Phases;

use crate::prepare;
use crate::traffic::Traffic;
use connection::Connection;
use hands::{Hands, ThreadPhase};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// How often the machine is told that time goes by.
const TICK: Duration = Duration::from_millis(100);
/// How long the last frames of a run may take to be written.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Connections that are open at one time; more are turned away.
const MAX_CONNECTIONS: usize = 2_400;

/// Observes a server: writes its log, its report and its checkpoints.
///
/// All calls but [`wants_phases`](Self::wants_phases) are made under the lock around the server's
/// state: no gradient is applied until they return.
pub trait ServerObserver: Send {
    /// A message for the log.
    fn note(&mut self, level: Level, text: &str);
    /// The server's report for the coordinator, in whatever format that expects.
    fn report(&mut self, totals: &ServerTotals, stats: &Stats) -> Vec<u8>;
    /// Takes a checkpoint of `step`. The state does not change until this returns. Returns
    /// whether the checkpoint was taken.
    fn checkpoint(&mut self, _step: u64, _server: &Server) -> bool {
        true
    }
    /// Called about ten times a second. An error ends the server.
    fn tick(&mut self, server: &Server) -> Result<(), String>;
    /// Called before each tick with the bytes sent to and received from each slot so far. The last
    /// entry is for connections without a slot, such as an evaluator's.
    fn traffic(&mut self, _by_slot: &[Traffic]) {}
    /// Called before each tick with the seconds that all connections' threads together have spent
    /// in each of [`ServerTotals::PHASES`] so far. Threads publish their times every 64 gradients
    /// and at every control frame, so the sum lags a little.
    fn phase_seconds(&mut self, _by_phase: [f64; 4]) {}
    /// A tracer for the thread of a new connection; `None` traces nothing.
    fn trace_connection(&mut self) -> Option<Box<dyn ConnectionTracer>> {
        None
    }
    /// Whether threads measure their phases at all; asked once for each new connection.
    fn wants_phases(&self) -> bool {
        true
    }
}

/// Traces what one connection's thread does, for a timeline.
pub trait ConnectionTracer: Send {
    /// A phase, given by its index in [`ServerTotals::PHASES`], has ended.
    fn phase_ended(&mut self, phase: usize, begun: Instant, ended: Instant);
    /// The gradient of `slot` for plan step `step` arrived, was applied or was answered.
    fn gradient_reached(&mut self, stage: GradientStage, slot: usize, step: u64);
}

/// What went through a server's connections, and what their threads did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerTotals {
    /// Bytes to all clients.
    pub sent_bytes: u64,
    /// Bytes from all clients.
    pub received_bytes: u64,
    /// Seconds from the first gradient of a connection to its end; the longest of all.
    pub seconds: f64,
    /// Seconds that the connections' threads spent in each phase, summed over them.
    pub phases: [f64; 4],
}

impl ServerTotals {
    /// The phases of a connection's thread, by name.
    pub const PHASES: [&'static str; 4] = ThreadPhase::NAMES;

    fn add(&mut self, other: &ServerTotals) {
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.seconds = self.seconds.max(other.seconds);
        self.phases.iter_mut().zip(other.phases).for_each(|(sum, more)| *sum += more);
    }
}

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
    machine: &mut Server,
    observer: &mut dyn ServerObserver,
) -> Result<ServeEnd, ServeError> {
    listener.set_nonblocking(true)?;
    let mut poll = Poll::new()?;
    let mut listener = mio::net::TcpListener::from_std(listener.try_clone()?);
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let gone_by_slot = vec![Traffic::default(); machine.stats().slots.len() + 1];
    let shared = Shared {
        core: Mutex::new(Core { machine, observer, gone: ServerTotals::default(), gone_by_slot }),
        connections: Mutex::default(),
        started: Instant::now(),
        over: AtomicBool::new(false),
        waker: Waker::new(poll.registry(), WAKER)?,
    };
    thread::scope(|scope| {
        let served = shared.accept_until_over(scope, &mut poll, &listener);
        shared.finish(matches!(served, Ok(ServeEnd::Rewind(_))));
        served
    })
}

/// What the lock is around: the machine, and who watches it.
struct Core<'a> {
    machine: &'a mut Server,
    observer: &'a mut dyn ServerObserver,
    /// What went through connections that are gone.
    gone: ServerTotals,
    /// The same for each slot, and last for everybody else.
    gone_by_slot: Vec<Traffic>,
}

/// What all threads of a server share.
struct Shared<'a> {
    core: Mutex<Core<'a>>,
    /// By the place that a connection's name tells; empty places are used again.
    connections: Mutex<Vec<Option<Arc<Connection>>>>,
    started: Instant,
    /// Threads are to end.
    over: AtomicBool,
    /// Wakes the thread that accepts, when the run is over.
    waker: Waker,
}

impl<'a> Shared<'a> {
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// A thread that panicked has not left the machine in a state worth refusing: its panic
    /// ends the server anyway, when the scope is left.
    fn core(&self) -> MutexGuard<'_, Core<'a>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Option<Arc<Connection>>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts connections, tells the machine the time, and returns when the run is over.
    fn accept_until_over<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        poll: &mut Poll,
        listener: &mio::net::TcpListener,
    ) -> Result<ServeEnd, ServeError> {
        let mut events = Events::with_capacity(64);
        let (mut opened, mut moved) = (0, Vec::new());
        loop {
            poll_once(poll, &mut events, TICK)?;
            while let Some(stream) = self.accept(listener) {
                opened += 1;
                self.open(scope, stream, opened)?;
            }
            let mut core = self.core();
            let mut hands = Hands::new(self, None);
            hands.with(&mut core, |machine, hands| machine.tick(self.now_ms(), hands));
            let Core { machine, observer, gone, gone_by_slot } = &mut *core;
            self.moved(gone_by_slot, &mut moved);
            observer.traffic(&moved);
            observer.phase_seconds(self.spent(gone));
            observer.tick(machine).map_err(ServeError::Failed)?;
            let outcome = machine.outcome().cloned();
            hands.deliver(core);
            match outcome {
                None => {}
                Some(Outcome::Done) => return Ok(ServeEnd::Finished),
                Some(Outcome::Rewind(to)) => return Ok(ServeEnd::Rewind(to)),
                Some(Outcome::Failed(why)) => return Err(ServeError::Failed(why)),
            }
        }
    }

    /// Bytes sent and received for each slot by the connections there are and those that are
    /// gone.
    fn moved(&self, gone: &[Traffic], moved: &mut Vec<Traffic>) {
        moved.clear();
        moved.extend_from_slice(gone);
        for connection in self.connections().iter().flatten() {
            count(moved, connection);
        }
    }

    /// Seconds in each phase, by all threads there are and those that are gone.
    fn spent(&self, gone: &ServerTotals) -> [f64; 4] {
        let mut all = *gone;
        self.connections().iter().flatten().for_each(|connection| all.add(&connection.served()));
        all.phases
    }

    fn accept(&self, listener: &mio::net::TcpListener) -> Option<mio::net::TcpStream> {
        match listener.accept() {
            Ok((stream, _)) => Some(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => {
                // Out of file descriptors, or a peer that went away at once: not fatal.
                self.core().observer.note(Level::Warning, &format!("cannot accept: {error}"));
                None
            }
        }
    }

    /// Gives a new connection a name, a place and a thread.
    fn open<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        mut stream: mio::net::TcpStream,
        number: u64,
    ) -> io::Result<()> {
        let mut places = self.connections();
        let index = places.iter().position(Option::is_none).unwrap_or(places.len());
        if index >= MAX_CONNECTIONS {
            drop(places);
            self.core().observer.note(Level::Warning, "too many connections; turned one away");
            return Ok(());
        }
        if prepare(&stream).is_err() {
            return Ok(());
        }
        let poll = Poll::new()?;
        let both = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(0), both)?;
        let connection = Arc::new(Connection::new(name(index, number), stream));
        if index == places.len() {
            places.push(None);
        }
        places[index] = Some(connection.clone());
        drop(places);
        self.core().machine.connection_opened(connection.id(), self.now_ms());
        thread::Builder::new()
            .name("connection".into())
            .spawn_scoped(scope, move || connection.attend(self, poll))?;
        Ok(())
    }

    /// The connection of this name, if it is still open.
    fn find(&self, id: ConnId) -> Option<Arc<Connection>> {
        let places = self.connections();
        places.get(place(id))?.as_ref().filter(|connection| connection.id() == id).cloned()
    }

    /// Takes a connection that has ended out of the books.
    fn forget(&self, connection: &Connection, served: &ServerTotals) {
        // Under the lock, so that a report counts it once.
        let mut core = self.core();
        core.gone.add(served);
        count(&mut core.gone_by_slot, connection);
        self.connections()[place(connection.id())] = None;
    }

    /// Has all threads end, once each has written what it has to; or at once, if nothing of it is
    /// of use any more.
    fn finish(&self, at_once: bool) {
        self.over.store(true, Ordering::Relaxed);
        for connection in self.connections().iter().flatten() {
            match at_once {
                true => connection.hang_up(),
                false => connection.stop_reading(),
            }
        }
    }
}

/// Adds what went through a connection to its slot's sum.
fn count(by_slot: &mut [Traffic], connection: &Connection) {
    let last = by_slot.len() - 1;
    by_slot[connection.slot().unwrap_or(last).min(last)] += connection.traffic();
}

/// Connections are named by their place and, so that no name comes twice, by their number.
fn name(index: usize, number: u64) -> ConnId {
    ConnId(number << 16 | index as u64)
}

fn place(id: ConnId) -> usize {
    (id.0 & 0xffff) as usize
}

/// Polls, and takes being interrupted by a signal for nothing having happened.
pub(crate) fn poll_once(poll: &mut Poll, events: &mut Events, timeout: Duration) -> io::Result<()> {
    match poll.poll(events, Some(timeout)) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        result => result,
    }
}
