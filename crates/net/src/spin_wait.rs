//! Spins for a short while before a thread sleeps.
//!
//! On a virtual machine an idle core takes some 70 microseconds to wake, many times what an
//! exchange takes. A thread that waits for a peer therefore looks again for a while before it
//! sleeps. Between two looks it yields its core: with more tasks than cores another task has work
//! to do there, and burning the core would only delay the answer.

use std::time::{Duration, Instant};

/// How long a thread spins before it sleeps.
const SPIN_FOR: Duration = Duration::from_micros(100);

/// One wait.
#[derive(Debug)]
pub(crate) struct SpinWait {
    has_spun: bool,
    until: Option<Instant>,
}

impl SpinWait {
    pub(crate) fn new() -> Self {
        Self { has_spun: false, until: None }
    }

    /// Yields the core and returns `true` if the caller must look again, `false` if it must
    /// sleep. The first call, which is most often the last, does not read the clock.
    pub(crate) fn spin(&mut self) -> bool {
        if std::mem::replace(&mut self.has_spun, true) {
            let now = Instant::now();
            if now >= *self.until.get_or_insert(now + SPIN_FOR) {
                return false;
            }
        }
        std::thread::yield_now();
        true
    }
}
