//! The side that keeps files: it accepts connections and answers requests.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use paceline_trust::{ConnectionPlace, ConnectionRoom};

use crate::answer::answer;
use crate::channel::{Channel, MAX_MESSAGE};
use crate::message::DepotRequest;
use crate::state::{DepotConfig, DepotState};

/// How often the depot looks for new connections.
const ACCEPT_EVERY: Duration = Duration::from_millis(20);
/// Connections that may be open for each task: one that sends files, one for checkpoints, and one
/// that the other side has given up.
const CONNECTIONS_PER_TASK: usize = 3;
/// The most connections that have not proved that they belong to the run.
const MAX_STRANGERS: usize = 512;
/// The longest message of a run with one task, and how much longer it is with each further one: a
/// task that delivers a shard says how far each slot has come on each chunk of it.
const MESSAGE_BYTES: usize = 1 << 20;
const MESSAGE_BYTES_PER_TASK: usize = 256 << 10;
/// The stack of a connection's thread.
const STACK_BYTES: usize = 512 << 10;
/// How long one wait for the last files lasts before it is reported.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Keeps the files of a run. Dropping it closes all connections.
pub struct Depot {
    state: Arc<DepotState>,
    thread: Option<JoinHandle<()>>,
}

impl Depot {
    /// Keeps files for the tasks that connect to this socket.
    ///
    /// # Errors
    /// If the system refuses a thread or the socket.
    pub fn start(listener: TcpListener, config: DepotConfig) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let tasks = config.folders.len() + 1;
        let state = Arc::new(DepotState {
            config,
            is_over: AtomicBool::new(false),
            connections: ConnectionRoom::new(CONNECTIONS_PER_TASK * tasks),
            strangers: ConnectionRoom::new(MAX_STRANGERS),
            active: AtomicUsize::new(0),
            done: Mutex::default(),
            has_changed: Condvar::new(),
        });
        let shared = state.clone();
        let accept = move || accept_all(&listener, &shared);
        let thread = thread::Builder::new().name("depot".into()).spawn(accept)?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// Waits until all tasks have sent everything, for at most `limit` after the last one has sent
    /// anything, and in all for at most `most`, so that a task that keeps sending cannot hold up
    /// the run's end. `waiting` receives the names of the others about once a second. Returns those
    /// that are left.
    pub fn wait_for_files(
        &self,
        limit: Duration,
        most: Duration,
        waiting: &mut dyn FnMut(&[String]),
    ) -> Vec<String> {
        let end = Instant::now() + most;
        let mut deadline = end.min(Instant::now() + limit);
        let mut done = self.state.done();
        loop {
            let names = self.state.config.folders.iter().map(|(name, _)| name);
            let left: Vec<_> = names.filter(|name| !done.contains(*name)).cloned().collect();
            let now = Instant::now();
            if self.state.active.load(Ordering::Relaxed) > 0 {
                deadline = end.min(now + limit);
            }
            if left.is_empty() || now >= deadline {
                return left;
            }
            let slice = REPORT_EVERY.min(deadline - now);
            let waited = self.state.has_changed.wait_timeout(done, slice);
            let timeout;
            (done, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                waiting(&left);
            }
        }
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Accepts connections until the depot is dropped, each for a thread of its own.
fn accept_all(listener: &TcpListener, state: &Arc<DepotState>) {
    while !state.is_over() {
        let Ok((stream, peer)) = listener.accept() else {
            thread::sleep(ACCEPT_EVERY);
            continue;
        };
        let address = peer.ip().to_canonical();
        let Some(close) = closing(&stream) else { continue };
        let place = state.strangers.enter(address, close);
        let shared = state.clone();
        let serve = move || {
            let close = closing(&stream);
            let accepted = Channel::accept(stream, &shared.config.credentials);
            shared.strangers.leave(place);
            let served = accepted.and_then(|mut channel| {
                let Some(close) = close else { return Ok(()) };
                let place = shared.connections.enter(address, close);
                answer_all(&shared, &mut channel, place)
            });
            if let Err(error) = served
                && error.kind() == io::ErrorKind::PermissionDenied
            {
                (shared.config.note)(&format!("refused files from {peer}: {error}"));
            }
        };
        let thread = thread::Builder::new().name("depot-task".into()).stack_size(STACK_BYTES);
        if thread.spawn(serve).is_err() {
            state.strangers.leave(place);
        }
    }
}

/// What closes a connection, whichever thread waits for it.
fn closing(stream: &TcpStream) -> Option<Box<dyn FnOnce() + Send>> {
    let other = stream.try_clone().ok()?;
    Some(Box::new(move || {
        let _ = other.shutdown(Shutdown::Both);
    }))
}

/// Answers the requests of one connection, until it ends.
fn answer_all(
    state: &DepotState,
    channel: &mut Channel,
    mut place: ConnectionPlace,
) -> io::Result<()> {
    let tasks = state.config.folders.len();
    let most = (MESSAGE_BYTES + tasks * MESSAGE_BYTES_PER_TASK).min(MAX_MESSAGE);
    let mut answer_next = || {
        let received = channel.receive::<DepotRequest>(most)?;
        place = state.connections.wait_anew(place);
        state.active.fetch_add(1, Ordering::Relaxed);
        let answered = answer(state, channel, received);
        state.active.fetch_sub(1, Ordering::Relaxed);
        place = state.connections.wait_anew(place);
        answered
    };
    let mut answered = Ok(());
    while answered.is_ok() && !state.is_over() {
        answered = answer_next();
    }
    state.connections.leave(place);
    answered
}
