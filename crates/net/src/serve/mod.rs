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
use paceline_exchange::{
    ConnId, Generation, GradientStage, Level, Outcome, Server, ServerPhase, Stats,
};

use crate::prepare;
use connection::Connection;
use hands::Hands;

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// How often the machine is told that time goes by.
const TICK: Duration = Duration::from_millis(100);
/// How long the last frames of a run may take to be written.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Connections that are open at one time; more are turned away.
const MAX_CONNECTIONS: usize = 2_400;

/// Whoever wants to know what a server does: its log and its report.
pub trait Watcher: Send {
    /// Something for the log.
    fn note(&mut self, level: Level, text: &str);
    /// The server's report for the chief.
    fn report(&mut self, served: &Served, stats: &Stats) -> Vec<u8>;
    /// The chief asks for a checkpoint of this step: what is copied out of the machine now is of
    /// one piece. Everybody waits for it. Says whether it was taken.
    fn checkpoint(&mut self, _step: u64, _machine: &Server) -> bool {
        true
    }
    /// Called a few times a second, with the machine as it is. An error ends the server.
    fn tick(&mut self, machine: &Server) -> Result<(), String>;
    /// Called before each tick, with the bytes that went to and came from each slot so far, and
    /// last those of everybody else.
    fn moved(&mut self, _by_slot: &[(u64, u64)]) {}
    /// Called before each tick, with the seconds that all connections' threads have spent in each
    /// of [`Served::PHASES`] so far; of each thread, as it had told when it last thought of it.
    fn spent(&mut self, _by_phase: [f64; 4]) {}
    /// Somebody to follow what the thread of a new connection does, if that is wanted.
    fn follow(&mut self) -> Option<Box<dyn Follower>> {
        None
    }
    /// Whether what threads do with their time is to be known.
    fn wants_phases(&self) -> bool {
        true
    }
}

/// Somebody who follows one thread of a server.
pub trait Follower: Send {
    /// A phase, by its place in [`Served::PHASES`], has ended.
    fn phase(&mut self, phase: usize, begun: Instant, ended: Instant);
    /// Something has become of the gradient that a slot made for a step of the plan.
    fn trail(&mut self, trail: GradientStage, slot: usize, step: u64);
}

/// What went through a server's connections, and what their threads did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Bytes to all clients.
    pub sent_bytes: u64,
    /// Bytes from all clients.
    pub received_bytes: u64,
    /// Seconds from the first gradient of a connection to its end; the longest of all.
    pub seconds: f64,
    /// Seconds that the connections' threads spent in each phase, summed over them.
    pub phases: [f64; 4],
}

impl Served {
    /// The names of the phases.
    pub const PHASES: [&'static str; 4] = ["receive", "apply", "send", "idle"];

    fn index(phase: ServerPhase) -> usize {
        match phase {
            ServerPhase::Receive => 0,
            ServerPhase::Apply => 1,
            ServerPhase::Send => 2,
            ServerPhase::Idle => 3,
        }
    }

    fn add(&mut self, other: &Served) {
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.seconds = self.seconds.max(other.seconds);
        self.phases.iter_mut().zip(other.phases).for_each(|(sum, more)| *sum += more);
    }
}

/// Why a server ended before its run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The run failed, or somebody called it off.
    #[error("{0}")]
    Failed(String),
    /// The system does not give what a server needs.
    #[error("the server's sockets: {0}")]
    Io(#[from] io::Error),
}

/// How a server's machine came to its end, if nothing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The run is over.
    Over,
    /// The run goes back to the checkpoint of a newer generation: serve again, from there.
    GoBack(Generation),
}

/// Serves until the run is over, or goes back.
///
/// The listener must be listening already.
pub fn serve(
    listener: &TcpListener,
    machine: &mut Server,
    watcher: &mut dyn Watcher,
) -> Result<Ended, ServeError> {
    listener.set_nonblocking(true)?;
    let mut poll = Poll::new()?;
    let mut listener = mio::net::TcpListener::from_std(listener.try_clone()?);
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let gone_by_slot = vec![(0, 0); machine.stats().slots.len() + 1];
    let shared = Shared {
        core: Mutex::new(Core { machine, watcher, gone: Served::default(), gone_by_slot }),
        connections: Mutex::default(),
        started: Instant::now(),
        over: AtomicBool::new(false),
        waker: Waker::new(poll.registry(), WAKER)?,
    };
    thread::scope(|scope| {
        let served = shared.accept_until_over(scope, &mut poll, &listener);
        shared.finish(matches!(served, Ok(Ended::GoBack(_))));
        served
    })
}

/// What the lock is around: the machine, and who watches it.
struct Core<'a> {
    machine: &'a mut Server,
    watcher: &'a mut dyn Watcher,
    /// What went through connections that are gone.
    gone: Served,
    /// The same for each slot, and last for everybody else.
    gone_by_slot: Vec<(u64, u64)>,
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
    ) -> Result<Ended, ServeError> {
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
            let Core { machine, watcher, gone, gone_by_slot } = &mut *core;
            self.moved(gone_by_slot, &mut moved);
            watcher.moved(&moved);
            watcher.spent(self.spent(gone));
            watcher.tick(machine).map_err(ServeError::Failed)?;
            let outcome = machine.outcome().cloned();
            hands.deliver(core);
            match outcome {
                None => {}
                Some(Outcome::Done) => return Ok(Ended::Over),
                Some(Outcome::Rewind(to)) => return Ok(Ended::GoBack(to)),
                Some(Outcome::Failed(why)) => return Err(ServeError::Failed(why)),
            }
        }
    }

    /// Bytes sent and received for each slot by the connections there are and those that are
    /// gone.
    fn moved(&self, gone: &[(u64, u64)], moved: &mut Vec<(u64, u64)>) {
        moved.clear();
        moved.extend_from_slice(gone);
        for connection in self.connections().iter().flatten() {
            count(moved, connection);
        }
    }

    /// Seconds in each phase, by all threads there are and those that are gone.
    fn spent(&self, gone: &Served) -> [f64; 4] {
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
                self.core().watcher.note(Level::Warning, &format!("cannot accept: {error}"));
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
            self.core().watcher.note(Level::Warning, "too many connections; turned one away");
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
    fn forget(&self, connection: &Connection, served: &Served) {
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
fn count(by_slot: &mut [(u64, u64)], connection: &Connection) {
    let last = by_slot.len() - 1;
    let sum = &mut by_slot[connection.slot().unwrap_or(last).min(last)];
    let (sent, received) = connection.moved();
    *sum = (sum.0 + sent, sum.1 + received);
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
