//! The side that keeps files: it accepts connections and answers requests.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::answer::answer;
use crate::channel::Channel;
use crate::message::DepotRequest;
use crate::state::{DepotConfig, DepotState};

/// How often the depot looks for new connections.
const ACCEPT_EVERY: Duration = Duration::from_millis(20);
/// Connections that may be open for each task: one that sends files, one for checkpoints, and one
/// that the other side has given up.
const CONNECTIONS_PER_TASK: usize = 3;
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

/// Accepts connections until the depot is dropped, each for a thread of its own. Further ones than
/// tasks need wait in the system's queue.
fn accept_all(listener: &TcpListener, state: &Arc<DepotState>) {
    let most = CONNECTIONS_PER_TASK * (state.config.folders.len() + 1);
    while !state.is_over() {
        let has_room = state.connections.load(Ordering::Relaxed) < most;
        let accepted = if has_room { listener.accept().ok() } else { None };
        let Some((stream, _)) = accepted else {
            thread::sleep(ACCEPT_EVERY);
            continue;
        };
        let peer = stream.peer_addr();
        state.connections.fetch_add(1, Ordering::Relaxed);
        let shared = state.clone();
        let serve = move || {
            if let Err(error) = serve(&shared, stream)
                && error.kind() == io::ErrorKind::PermissionDenied
                && let Ok(peer) = peer
            {
                (shared.config.note)(&format!("refused files from {peer}: {error}"));
            }
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("depot-task".into()).spawn(serve).is_err() {
            state.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Answers the requests of one connection, until it ends.
fn serve(state: &DepotState, stream: TcpStream) -> io::Result<()> {
    let mut channel = Channel::accept(stream, &state.config.credentials)?;
    while !state.is_over() {
        let received = channel.receive::<DepotRequest>()?;
        state.active.fetch_add(1, Ordering::Relaxed);
        let answered = answer(state, &mut channel, received);
        state.active.fetch_sub(1, Ordering::Relaxed);
        answered?;
    }
    Ok(())
}
