//! A wait that may be long: it has a limit, and says once a second what it waits for.

use std::time::{Duration, Instant};

use crate::error::LinkError;

/// How often a wait notes what it waits for.
pub(crate) const NOTE_EVERY: Duration = Duration::from_secs(1);
/// The longest that a wait sleeps before it checks whether to give up.
pub(crate) const CHECK_EVERY: Duration = Duration::from_millis(250);

/// The clock of one wait.
pub(crate) struct LongWait {
    begun: Instant,
    noted: Instant,
}

impl LongWait {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self { begun: now, noted: now }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Fails once the wait has reached its limit.
    pub(crate) fn check(
        &self,
        limit: Duration,
        awaited: impl FnOnce() -> String,
    ) -> Result<(), LinkError> {
        let waited = self.elapsed();
        if waited < limit {
            return Ok(());
        }
        Err(LinkError::Stalled { seconds: waited.as_secs(), awaited: awaited() })
    }

    /// Fails once a start has reached its limit.
    pub(crate) fn check_start(
        &self,
        limit: Duration,
        missing: impl FnOnce() -> String,
    ) -> Result<(), LinkError> {
        if self.elapsed() < limit {
            return Ok(());
        }
        Err(LinkError::NotStarted { seconds: limit.as_secs(), missing: missing() })
    }

    /// What a start waits for, as a message: `waiting for ps:0 at host:5000 (3 s of 60 s)`.
    pub(crate) fn describe_start(&self, limit: Duration, awaited: &str) -> String {
        format!("waiting for {awaited} ({} s of {} s)", self.elapsed().as_secs(), limit.as_secs())
    }

    /// Whether it is time to note what the wait is for. True once a second.
    pub(crate) fn should_note(&mut self) -> bool {
        if self.noted.elapsed() < NOTE_EVERY {
            return false;
        }
        self.noted = Instant::now();
        true
    }
}
