//! Watches a test while it runs: shows how far it has come, and ends it if the task must stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use paceline_model::ScoreFeed;

use crate::context::{LongWork, TaskContext};
use crate::error::TrainError;

/// How long a test may take once the task was asked to stop.
pub(crate) const LAST_TEST: Duration = Duration::from_millis(300);

/// Watches one test after another.
#[derive(Clone)]
pub struct TestWatch {
    /// Where the scores of tests that see all parameters go.
    pub scores: ScoreFeed,
    context: Arc<dyn TaskContext>,
    /// Whether the task waits for the test, so that its progress is the task's.
    is_awaited: Arc<AtomicBool>,
    begun: Instant,
}

impl TestWatch {
    /// Watches tests that the task waits for.
    pub fn new(context: Arc<dyn TaskContext>) -> Self {
        let is_awaited = Arc::new(AtomicBool::new(true));
        Self { scores: ScoreFeed::default(), context, is_awaited, begun: Instant::now() }
    }

    /// The task starts or stops waiting for the test.
    pub(crate) fn set_awaited(&self, is_awaited: bool) {
        self.is_awaited.store(is_awaited, Ordering::Relaxed);
    }

    /// A test begins now.
    pub(crate) fn begin(&mut self) {
        self.begun = Instant::now();
    }

    /// The test has come to `done` of `total` examples. Fails if the task was asked to stop and
    /// the rest of the test would take long.
    pub(crate) fn tested(&self, done: usize, total: usize) -> Result<(), TrainError> {
        if self.is_awaited.load(Ordering::Relaxed) {
            self.context.working(LongWork::Test { done: done as u64, total: total as u64 });
        }
        let must_stop = done < total && self.context.stop_signal().is_some();
        if must_stop && self.begun.elapsed() > LAST_TEST {
            return Err(TrainError::Interrupted("a test was interrupted".into()));
        }
        Ok(())
    }
}
