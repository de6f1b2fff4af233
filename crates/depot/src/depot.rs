//! The side that keeps files: it accepts connections and answers requests.

use std::io;
use std::net::{Shutdown, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use paceline_trust::StrangerRoom;

use crate::answer::answer;
use crate::channel::Channel;
use crate::message::DepotRequest;
use crate::state::{DepotConfig, DepotState};

/// How often the depot looks for new connections.
const ACCEPT_EVERY: Duration = Duration::from_millis(20);
/// Connections that may be open for each task: one that sends files, one for checkpoints, and one
/// that the other side has given up.
const CONNECTIONS_PER_TASK: usize = 3;
/// Connections that have not proved that they belong to the run.
const MAX_STRANGERS: usize = 512;
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
        let state = Arc::new(DepotState {
            config,
            is_over: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            strangers: StrangerRoom::new(MAX_STRANGERS),
            active: AtomicUsize::new(0),
            done: Mutex::default(),
            has_changed: Condvar::new(),
        });
        let shared = state.clone();
        let accept = move || accept_all(&listener, &shared);
        let thread = thread::Builder::new().name("depot".into()).spawn(accept)?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// Waits until all tasks have sent everything, for at most this long after the last one has
    /// sent anything; `waiting` receives the names of the others about once a second. Returns those
    /// that are left.
    pub fn wait_for_files(
        &self,
        limit: Duration,
        waiting: &mut dyn FnMut(&[String]),
    ) -> Vec<String> {
        let mut deadline = Instant::now() + limit;
        let mut done = self.state.done();
        loop {
            let names = self.state.config.folders.iter().map(|(name, _)| name);
            let left: Vec<_> = names.filter(|name| !done.contains(*name)).cloned().collect();
            let now = Instant::now();
            if self.state.active.load(Ordering::Relaxed) > 0 {
                deadline = now + limit;
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
        let Ok(other) = stream.try_clone() else { continue };
        let place = state.strangers.enter(Box::new(move || {
            let _ = other.shutdown(Shutdown::Both);
        }));
        let shared = state.clone();
        let serve = move || {
            let accepted = Channel::accept(stream, &shared.config.credentials);
            shared.strangers.leave(place);
            let served = accepted.and_then(|channel| serve(&shared, channel));
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

/// Answers the requests of one connection, until it ends.
fn serve(state: &DepotState, mut channel: Channel) -> io::Result<()> {
    let most = CONNECTIONS_PER_TASK * (state.config.folders.len() + 1);
    if state.connections.fetch_add(1, Ordering::Relaxed) >= most {
        state.connections.fetch_sub(1, Ordering::Relaxed);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "too many connections"));
    }
    let served = answer_all(state, &mut channel);
    state.connections.fetch_sub(1, Ordering::Relaxed);
    served
}

fn answer_all(state: &DepotState, channel: &mut Channel) -> io::Result<()> {
    while !state.is_over() {
        let received = channel.receive::<DepotRequest>()?;
        state.active.fetch_add(1, Ordering::Relaxed);
        let answered = answer(state, channel, received);
        state.active.fetch_sub(1, Ordering::Relaxed);
        answered?;
    }
    Ok(())
}
