//! Ends a step of a shared mode in the middle, once the run must end.
//!
//! A step of a large network takes seconds, and a task has two to end. Between two layers every
//! worker therefore checks whether to give its step up ([`StepStop::stops_computing`]). A step that
//! was given up leaves no trace: what is saved is the last step that was complete.
//!
//! The coordinator may give up its step at any time, and thereby cuts the run short. Another worker
//! may do so on its own only while the others have nothing of its step: otherwise a coordinator
//! that has applied a part of it could never complete it. It then waits until the coordinator,
//! which knows too that the run must end, has cut the run short.
//!
//! A coordinator that makes its updates itself keeps no copy of the parameters. Once it has applied
//! a part of a step ([`StepStop::may_apply`]), all workers have contributed to that step or are
//! about to, and the step is completed.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::context::TaskContext;

/// How long steps are still completed. Runs of short steps end cleanly within it.
const GRACE: Duration = Duration::from_millis(250);
/// The same for an exchange whose gradient is computed: it may soon be complete.
const EXCHANGE_GRACE: Duration = Duration::from_millis(700);

const OPEN: u8 = 0;
const APPLIED: u8 = 1;
const CUT: u8 = 2;

/// Who may give up a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopRole {
    /// The coordinator, at any time.
    Coordinator,
    /// A worker, at any time: gradients are applied one by one.
    Independent,
    /// A worker, as long as the others have nothing of its step.
    Cautious,
    /// A worker that only follows: others make steps without it.
    Follower,
}

/// Whether a worker gives up its step.
pub(crate) struct StepStop {
    context: Arc<dyn TaskContext>,
    role: StopRole,
    /// When the worker first saw that the run must end.
    seen: OnceLock<Instant>,
    /// The others may have a part of the current step.
    is_sending: AtomicBool,
    /// The current step's gradient was given up.
    is_given_up: AtomicBool,
    /// The run was cut short.
    is_cut_short: AtomicBool,
    /// Whether a part of the current step is applied, or it was cut: one of the constants above.
    step: AtomicU8,
}

impl StepStop {
    pub(crate) fn new(context: Arc<dyn TaskContext>, role: StopRole) -> Arc<Self> {
        Arc::new(Self {
            context,
            role,
            seen: OnceLock::new(),
            is_sending: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            is_cut_short: AtomicBool::new(false),
            step: AtomicU8::new(OPEN),
        })
    }

    /// Who the worker is.
    pub(crate) fn role(&self) -> StopRole {
        self.role
    }

    /// Whether the run has had to end for this long.
    fn is_due(&self, grace: Duration) -> bool {
        let must_end = match self.role {
            StopRole::Coordinator => self.context.stop_signal().is_some(),
            StopRole::Follower => false,
            // A process that leaves gives its slot to another one instead.
            _ => self.context.is_run_ending() && !self.context.should_leave(),
        };
        must_end && self.seen.get_or_init(Instant::now).elapsed() >= grace
    }

    /// Whether to stop computing the current step.
    pub(crate) fn stops_computing(&self) -> bool {
        let may_decide =
            self.role != StopRole::Cautious || !self.is_sending.load(Ordering::Relaxed);
        self.is_cut_short.load(Ordering::Relaxed) || may_decide && self.is_due(GRACE)
    }

    /// A step that travels while it is computed begins: from now on the others may have a part.
    pub(crate) fn begin_sending(&self) {
        self.step.store(OPEN, Ordering::Release);
        self.is_given_up.store(false, Ordering::Relaxed);
        self.is_sending.store(true, Ordering::Relaxed);
    }

    /// This worker's part of the step is computed: what it computes now is the next one.
    pub(crate) fn end_sending(&self) {
        self.is_sending.store(false, Ordering::Relaxed);
    }

    /// The gradient of the step was given up.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Whether a part of the step may be applied: `false` if it was cut. It cannot be cut then.
    pub(crate) fn may_apply(&self) -> bool {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let before = self.step.compare_exchange(OPEN, APPLIED, order.0, order.1);
        before.map_or_else(|before| before == APPLIED, |_| true)
    }

    /// Whether a part of the step has been applied by this worker.
    pub(crate) fn has_applied(&self) -> bool {
        self.step.load(Ordering::Acquire) == APPLIED
    }

    /// For the exchange of the step: whether it must end.
    pub(crate) fn cuts_exchange(&self) -> bool {
        let is_late = self.role == StopRole::Coordinator && self.is_due(EXCHANGE_GRACE);
        if !is_late && !self.is_given_up.load(Ordering::Relaxed) {
            return false;
        }
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let before = self.step.compare_exchange(OPEN, CUT, order.0, order.1);
        before.map_or_else(|before| before == CUT, |_| true)
    }

    /// The run was cut short: there is nothing more to compute.
    pub(crate) fn set_cut_short(&self) {
        self.is_cut_short.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
