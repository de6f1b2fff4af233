//! Spins for a short while before a thread sleeps.
//!
//! On a virtual machine an idle core takes some 70 microseconds to wake, many times what an
//! exchange takes. A thread that waits for a peer therefore looks again for a while before it
//! sleeps. Between two looks it yields its core: with more tasks than cores another task has work
//! to do there, and burning the core would only delay the answer.

use std::time::{Duration, Instant};

use paceline_observe::run_delay;

/// How long a thread spins before it sleeps.
const SPIN_FOR: Duration = Duration::from_micros(100);
/// A yield that takes longer than this has let another thread run.
const LONG_YIELD: Duration = Duration::from_micros(5);

/// One wait.
#[derive(Debug)]
pub(crate) struct SpinWait {
    /// When the thread first yielded its core, and when it last did.
    yielded: Option<(Instant, Instant)>,
    /// Whether another thread ran during the last yield.
    is_contended: bool,
    /// Whether this is the wait of a server's thread, which needs no core during any of its yields.
    is_server: bool,
}

impl SpinWait {
    /// The wait of a worker, which continues as soon as its answer is there.
    pub(crate) fn new() -> Self {
        Self { yielded: None, is_contended: false, is_server: false }
    }

    /// The wait of a server's thread for the next frame. It yields to the worker that computes, so
    /// none of the time is a lack of cores.
    pub(crate) fn of_server() -> Self {
        Self { yielded: None, is_contended: false, is_server: true }
    }

    /// Yields the core and returns `true` if the caller must look again, `false` if it must
    /// sleep.
    pub(crate) fn spin(&mut self) -> bool {
        let now = Instant::now();
        let (first, last) = self.yielded.unwrap_or((now, now));
        // The look after the last yield has found nothing: the thread had no use for its core.
        if !self.is_server {
            ignore_if_long(now - last);
        }
        if now - first >= SPIN_FOR {
            return false;
        }
        self.yielded = Some((first, now));
        std::thread::yield_now();
        let took = now.elapsed();
        self.is_contended = took > LONG_YIELD;
        if self.is_server {
            ignore_if_long(took);
        }
        true
    }

    /// Whether another thread ran during the last yield: cores are scarce, and a thread that sleeps
    /// leaves them to those that have work.
    pub(crate) fn is_contended(&self) -> bool {
        self.is_contended
    }
}

/// Leaves a yield out of the thread's run delay if another thread ran meanwhile.
fn ignore_if_long(yielded: Duration) {
    if yielded > LONG_YIELD {
        run_delay::ignore(yielded);
    }
}
