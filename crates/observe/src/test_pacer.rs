//! Decides when the model is tested next.
//!
//! A fixed interval tests at multiples of a number of steps. Without one, tests are spaced by
//! their cost: all of them together, with the one at the end of the run, take at most
//! [`MAX_SHARE`] of the run's processor time. The steps of the tests then depend on the machine's
//! speed. That changes no parameter, but it would change where a run with a target loss stops.

use std::time::{Duration, Instant};

/// The greatest share of a run's processor time that tests without a fixed interval take.
const MAX_SHARE: f64 = 0.05;

/// How long to wait after a test that took this long, if tests are spaced by their cost.
pub fn pause_after(took: Duration) -> Duration {
    took.mul_f64(1.0 / MAX_SHARE - 1.0)
}

/// What the cost of a test depends on, before one has been measured.
#[derive(Clone, Copy, Debug)]
pub struct TestLoad {
    /// Examples of a test.
    pub examples: usize,
    /// The expected cost of testing an example, relative to training on it.
    pub relative_cost: f64,
    /// Threads of a test.
    pub threads: usize,
    /// Threads of the training loop.
    pub loop_threads: usize,
    /// Examples of a step of the training loop.
    pub batch: usize,
}

/// How far the training loop beside the tests has come.
#[derive(Clone, Copy, Debug)]
pub struct LoopProgress {
    /// The global step.
    pub step: u64,
    /// Steps of this loop.
    pub steps: u64,
    /// When the loop started.
    pub start: Instant,
    /// The time now.
    pub now: Instant,
}

/// Decides when the model is tested next.
#[derive(Clone, Debug)]
pub struct TestPacer {
    /// Steps between tests, if the interval is fixed.
    every: Option<u64>,
    load: TestLoad,
    /// No test is due before this global step.
    next: u64,
    /// Time in which the loop fetched the parameters of the last test.
    fetching: Duration,
    /// Processor time of the last test.
    cost: Option<Duration>,
    /// Processor time of all tests so far.
    spent: Duration,
}

impl TestPacer {
    /// Paces the tests of a run that is at `step`, every `every` steps or by their cost.
    pub fn new(every: Option<u64>, load: TestLoad, step: u64) -> Self {
        let (fetching, cost, spent) = (Duration::ZERO, None, Duration::ZERO);
        let mut pacer = Self { every, load, next: 0, fetching, cost, spent };
        pacer.plan(step);
        pacer
    }

    /// The steps between tests, if they are fixed.
    pub fn every(&self) -> Option<u64> {
        self.every
    }

    /// Plans the test after the one at `step`.
    pub fn plan(&mut self, step: u64) {
        let every = self.every.unwrap_or(1);
        self.next = (step / every).saturating_add(1).saturating_mul(every);
    }

    /// A test has begun, whose parameters took this long to fetch.
    pub fn begin(&mut self, step: u64, fetching: Duration) {
        self.fetching = fetching;
        self.plan(step);
    }

    /// The last test took this long.
    pub fn end(&mut self, took: Duration) {
        let cost = self.fetching + took * self.load.threads as u32;
        self.cost = Some(cost);
        self.spent += cost;
    }

    /// Whether a test is due.
    #[inline]
    pub fn is_due(&mut self, at: LoopProgress) -> bool {
        at.step >= self.next && (self.every.is_some() || self.has_budget(at))
    }

    /// Whether a test now, and another one at the end, stay within the greatest share.
    fn has_budget(&mut self, at: LoopProgress) -> bool {
        let elapsed = at.now.saturating_duration_since(at.start).as_secs_f64();
        let worked = elapsed * self.load.loop_threads as f64;
        let expected = || {
            let trained = at.steps.max(1) as f64 * self.load.batch as f64;
            self.load.relative_cost * self.load.examples as f64 * worked / trained
        };
        let cost = self.cost.map_or_else(expected, |cost| cost.as_secs_f64());
        let needed = (self.spent.as_secs_f64() + 2.0 * cost) / MAX_SHARE;
        if worked > 0.0 && worked >= needed {
            return true;
        }
        // So that short steps do not all compute this: at the current rate, the budget does not
        // suffice within half of the missing steps.
        let missing = (needed / worked - 1.0).clamp(0.0, 1.0);
        let steps = (at.steps as f64 * missing / 2.0) as u64;
        self.next = at.step.saturating_add(steps.max(1));
        false
    }
}

#[cfg(test)]
mod tests;
