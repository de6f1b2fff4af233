//! What worker 0 does besides its own steps: it tests, reports progress, takes checkpoints and
//! decides when the run stops.

use std::time::{Duration, Instant};

use paceline_net::LinkOutcome::{self, Done, Rewound};
use paceline_observe::{
    BestSettings, BestTest, LookPacer, LoopProgress, Recorder, StopReason, TestPacer, TestRecord,
};

use crate::best_model::BestKeeper;
use crate::context::TaskContext;
use crate::error::{TrainError, record_failure};
use crate::link::Link;
use crate::settings::{CheckpointSettings, Stop};
use crate::test_history::{JudgedBy, TestHistory, judged};
use crate::test_runner::{StepScore, TestResult, TestRunner};
use crate::test_watch::LAST_TEST;

/// The train loss is the mean of this many losses.
const LOSSES: usize = 100;

/// Everything a coordinator needs before it starts.
pub(crate) struct CoordinatorConfig<'a> {
    /// When the run stops.
    pub stop: Stop,
    /// Which test is the best one.
    pub best: BestSettings,
    /// Keeps the parameters of the best test, if they are kept.
    pub keeper: Option<BestKeeper>,
    /// The tests of earlier processes of the run.
    pub history: TestHistory,
    /// Decides when the model is tested.
    pub pacer: TestPacer,
    /// How often a checkpoint is taken.
    pub checkpoint: Option<CheckpointSettings>,
    /// The global step the run starts with: 0 unless it is resumed.
    pub started_at: u64,
    /// The global step this process finds. It is later than `started_at` if the process takes over.
    pub joined_at: u64,
    /// The global step at which the epochs end, if they count.
    pub epoch_steps: Option<u64>,
    /// Examples that all workers together train on in a global step.
    pub examples_per_step: usize,
    /// Whether the number of a step says which updates the parameters contain. It does not where
    /// servers apply each gradient when it arrives: some parts may be a push ahead of others.
    pub has_exact_steps: bool,
    /// Runs the tests.
    pub tests: Box<dyn TestRunner + 'a>,
    /// Whether a test's result is read only when the next test is due, so that the run does not
    /// depend on how long the test takes.
    pub reproducible: bool,
    /// Where stop signals come from.
    pub context: &'a dyn TaskContext,
}

/// The point from which the rate of progress is measured.
#[derive(Clone, Copy, Debug)]
struct RateStart {
    step: u64,
    time: Instant,
}

/// Coordinates a run.
pub(crate) struct Coordinator<'a> {
    config: CoordinatorConfig<'a>,
    started: Instant,
    losses: [f32; LOSSES],
    loss_count: u64,
    last_test: Option<StepScore>,
    /// A result that is known, to be read when the next test is due: after a rewind, or because a
    /// checkpoint has waited for it.
    deferred_test: Option<StepScore>,
    /// How long tests have kept the coordinator from its steps.
    testing: Duration,
    next_checkpoint: u64,
    checkpoint_time: Option<Instant>,
    rate_start: Option<RateStart>,
    look: LookPacer,
    reason: Option<StopReason>,
    /// Whether the current test is made because the run ends: a run that continues from here does
    /// not know of it.
    is_ending: bool,
    /// The test that is the reason.
    stop_test: Option<StepScore>,
}

impl<'a> Coordinator<'a> {
    /// A coordinator whose run starts now.
    pub(crate) fn new(config: CoordinatorConfig<'a>) -> Self {
        let mut coordinator = Self {
            started: Instant::now(),
            losses: [0.0; LOSSES],
            loss_count: 0,
            last_test: None,
            deferred_test: None,
            testing: Duration::ZERO,
            next_checkpoint: u64::MAX,
            checkpoint_time: None,
            rate_start: None,
            look: LookPacer::default(),
            reason: None,
            is_ending: false,
            stop_test: None,
            config,
        };
        coordinator.plan_checkpoint(coordinator.config.joined_at, coordinator.started);
        coordinator
    }

    /// Decides when the checkpoint after the one of `step` is due.
    fn plan_checkpoint(&mut self, step: u64, now: Instant) {
        let Some(checkpoint) = self.config.checkpoint else { return };
        self.next_checkpoint = checkpoint.next_step(step);
        let later = |seconds| now.checked_add(Duration::try_from_secs_f64(seconds).ok()?);
        self.checkpoint_time = checkpoint.every_seconds.and_then(later);
    }

    /// Requests a checkpoint if one is due. Once the run is stopping the final checkpoint takes
    /// its place: only then have all servers every last push.
    #[inline]
    fn checkpoint_if_due(&mut self, now: Instant, link: &mut impl Link) -> Result<(), TrainError> {
        let step = link.checkpoint_step();
        let is_due =
            step >= self.next_checkpoint || self.checkpoint_time.is_some_and(|at| now >= at);
        if !is_due || link.is_stopping() {
            return Ok(());
        }
        self.plan_checkpoint(step, now);
        self.config.history.mark(step);
        self.config.history.log_trained(step, self.trained_s(now))?;
        self.log_running_test()?;
        link.checkpoint(step, false)
    }

    /// Before a checkpoint: waits for the test that is running and writes it down, so that a run
    /// that continues from the checkpoint reads its result when this run does.
    fn log_running_test(&mut self) -> Result<(), TrainError> {
        if !self.config.history.is_logged() {
            return Ok(());
        }
        let start = Instant::now();
        if self.config.reproducible {
            match self.last_result() {
                None | Some(Err(TrainError::Interrupted(_))) => {}
                Some(result) => {
                    let tested = result?;
                    self.config.history.log(&tested)?;
                    self.deferred_test = Some(tested);
                }
            }
        }
        self.testing += start.elapsed();
        self.config.history.sync()
    }

    /// Requests a checkpoint of the run's last parameters, if the run takes checkpoints. Does
    /// nothing if one of that step exists.
    pub(crate) fn final_checkpoint(&mut self, link: &mut impl Link) -> Result<(), TrainError> {
        let (step, trained_s) = (link.global_step(), self.trained_s(Instant::now()));
        self.config.history.log_trained(step, trained_s)?;
        match self.config.checkpoint {
            Some(_) => link.checkpoint(step, true),
            None => Ok(()),
        }
    }

    /// The global step the run started with.
    pub(crate) fn started_at(&self) -> u64 {
        self.config.started_at
    }

    /// Acts on a step that was just made: tests when a test is due, reports progress, and asks
    /// all workers to stop once there is a reason.
    #[inline]
    pub(crate) fn after_step(
        &mut self,
        loss: f32,
        now: Instant,
        link: &mut impl Link,
        recorder: &mut dyn Recorder,
    ) -> Result<LinkOutcome, TrainError> {
        let step = link.global_step();
        self.losses[(self.loss_count % LOSSES as u64) as usize] = loss;
        self.loss_count += 1;
        let at = LoopProgress { step, steps: self.loss_count, start: self.started, now };
        if self.config.pacer.is_due(at) && self.test(step, link, recorder)? == Rewound {
            return Ok(Rewound);
        }
        if !self.config.reproducible {
            let latest = self.config.tests.result();
            self.record_test(latest, recorder)?;
        }
        self.checkpoint_if_due(now, link)?;
        self.report_progress(step, now, recorder).map_err(record_failure)?;
        self.stop_if_met(step, now, link)?;
        self.look.plan(now);
        Ok(Done(()))
    }

    /// Asks all workers to stop once there is a reason.
    #[inline]
    fn stop_if_met(
        &mut self,
        step: u64,
        now: Instant,
        link: &mut impl Link,
    ) -> Result<(), TrainError> {
        if self.reason.is_some() {
            return Ok(());
        }
        self.reason = self.stop_reason(step, now);
        let Some(reason) = self.reason else { return Ok(()) };
        let by_test = matches!(reason, StopReason::TestLoss | StopReason::Patience);
        self.stop_test = self.last_test.filter(|_| by_test);
        link.request_stop(reason.name())
    }

    /// Starts the test that is due at `step`, if the last one has ended.
    fn test(
        &mut self,
        step: u64,
        link: &mut impl Link,
        recorder: &mut dyn Recorder,
    ) -> Result<LinkOutcome, TrainError> {
        if self.config.reproducible {
            let start = Instant::now();
            let last = self.last_result();
            self.testing += start.elapsed();
            self.record_test(last, recorder)?;
        }
        if self.config.tests.is_free() {
            let start = Instant::now();
            let Done(()) = self.begin_test(step, link)? else { return Ok(Rewound) };
            self.config.pacer.begin(step, start.elapsed());
            self.testing += start.elapsed();
        }
        Ok(Done(()))
    }

    /// Starts to test the parameters of `step`, which are those of the link.
    fn begin_test(&mut self, step: u64, link: &mut impl Link) -> Result<LinkOutcome, TrainError> {
        let CoordinatorConfig { tests, keeper, .. } = &mut self.config;
        let keys = tests.keys();
        let fetched = match keeper {
            Some(keeper) => keeper.fetch(step, keys.as_deref(), link)?,
            None => link.peek(keys.as_deref())?,
        };
        let Done(params) = fetched else { return Ok(Rewound) };
        tests.begin(step, params);
        Ok(Done(()))
    }

    /// How tests are judged, if anything depends on it.
    fn judged_by(&self) -> JudgedBy {
        self.config.stop.patience.map(|_| self.config.best)
    }

    #[inline]
    fn record_test(
        &mut self,
        result: Option<TestResult>,
        recorder: &mut dyn Recorder,
    ) -> Result<(), TrainError> {
        let tested = match result {
            None | Some(Err(TrainError::Interrupted(_))) => return Ok(()),
            Some(result) => judged(result?, self.last_test.as_ref(), self.judged_by())?,
        };
        let StepScore { step, score, took, .. } = tested;
        self.config.pacer.end(took);
        self.last_test = Some(tested);
        if !self.is_ending {
            self.config.history.log(&tested)?;
            self.config.history.push(tested);
        }
        if let Some(keeper) = &mut self.config.keeper {
            keeper.consider(&tested, self.config.context)?;
        }
        let made = step.saturating_sub(self.config.started_at);
        let steps_per_second = made as f64 / self.started.elapsed().as_secs_f64();
        recorder.test(&TestRecord { step, score: &score, steps_per_second }).map_err(record_failure)
    }

    /// The result of the test that was started last, once it has ended.
    fn last_result(&mut self) -> Option<TestResult> {
        self.deferred_test.take().map(Ok).or_else(|| self.config.tests.wait())
    }

    /// The run was rewound to this global step. Decisions are made again from there, with what
    /// was known then, so that a run of equal steps stops at the same step.
    pub(crate) fn rewind(
        &mut self,
        step: u64,
        link: &mut impl Link,
    ) -> Result<LinkOutcome, TrainError> {
        match self.last_result() {
            None | Some(Err(TrainError::Interrupted(_))) => {}
            Some(last) => {
                let tested = judged(last?, self.last_test.as_ref(), self.judged_by())?;
                self.config.history.push(tested);
            }
        }
        self.config.history.rewind(step)?;
        self.config.pacer.plan(step);
        let Done(()) = self.continue_tests(step, link)? else { return Ok(Rewound) };
        let now = Instant::now();
        self.plan_checkpoint(step, now);
        self.rate_start = Some(RateStart { step, time: now });
        (self.reason, self.stop_test) = (None, None);
        Ok(Done(()))
    }

    /// Restores what a coordinator that reached this step without interruption would know of tests.
    fn continue_tests(
        &mut self,
        step: u64,
        link: &mut impl Link,
    ) -> Result<LinkOutcome, TrainError> {
        let history = &self.config.history;
        let Some(every) = self.config.pacer.every().filter(|_| self.config.reproducible) else {
            (self.last_test, self.deferred_test) = (history.last(), None);
            return Ok(Done(()));
        };
        let last_due = step / every * every;
        self.last_test = last_due.checked_sub(every).and_then(|due| history.of(due));
        self.deferred_test = history.of(last_due);
        if self.deferred_test.is_none() && last_due == step && step > 0 {
            return self.begin_test(step, link);
        }
        Ok(Done(()))
    }

    /// Continues the run where this process found it, with the tests of earlier ones if the run's
    /// end depends on tests.
    pub(crate) fn resume(&mut self, link: &mut impl Link) -> Result<LinkOutcome, TrainError> {
        let step = self.config.joined_at;
        if step == 0 || !self.config.history.is_logged() {
            return Ok(Done(()));
        }
        let Done(()) = self.continue_tests(step, link)? else { return Ok(Rewound) };
        // The run may have to stop after the step before this one.
        self.stop_if_met(step, self.started, link)?;
        Ok(Done(()))
    }

    /// Why the run ends after this global step, if it does.
    #[inline]
    fn stop_reason(&self, step: u64, now: Instant) -> Option<StopReason> {
        let Stop { steps, seconds, test_loss, patience, .. } = self.config.stop;
        let is_look_due = self.look.is_due(now);
        if let Some(signal) = is_look_due.then(|| self.config.context.stop_signal()).flatten() {
            Some(StopReason::Interrupted { signal })
        } else if steps.is_some_and(|steps| step >= steps) {
            Some(StopReason::Steps)
        } else if seconds.is_some_and(|seconds| self.trained_s(now) >= seconds) {
            Some(StopReason::Seconds)
        } else {
            let last = self.last_test?;
            let is_met = test_loss.is_some_and(|limit| last.score.loss <= limit);
            let is_tired = patience.is_some_and(|patience| last.patience.since >= patience);
            let by_patience = is_tired.then_some(StopReason::Patience);
            if is_met { Some(StopReason::TestLoss) } else { by_patience }
        }
    }

    /// How long tests have kept the coordinator from its steps.
    #[inline]
    pub(crate) fn testing(&self) -> Duration {
        self.testing
    }

    /// Why the coordinator stopped the run, if it did.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason
    }

    /// The test that ended the run, if one did.
    pub(crate) fn stop_test(&self) -> Option<StepScore> {
        self.stop_test
    }

    /// The best test whose parameters are kept, if any are.
    pub(crate) fn best(&self) -> Option<BestTest> {
        self.config.keeper.as_ref().and_then(|keeper| keeper.kept().cloned())
    }

    /// Mean of the last losses; NaN before the first step.
    pub(crate) fn train_loss(&self) -> f64 {
        let known = self.loss_count.min(LOSSES as u64) as usize;
        let sum: f64 = self.losses[..known].iter().map(|&loss| f64::from(loss)).sum();
        if known == 0 { f64::NAN } else { sum / known as f64 }
    }

    /// Tests the run's last parameters, unless that test was already made. A run that is
    /// interrupted skips a test that would take long, and has the score of its last test, if any.
    pub(crate) fn final_test(
        &mut self,
        link: &mut impl Link,
        recorder: &mut dyn Recorder,
    ) -> Result<LinkOutcome<Option<StepScore>>, TrainError> {
        let step = link.global_step();
        let last = self.last_result();
        self.record_test(last, recorder)?;
        if self.has_tested(step) || self.must_hurry(step) {
            return Ok(Done(self.last_test));
        }
        let Done(()) = self.begin_test(step, link)? else { return Ok(Rewound) };
        let tested = self.config.tests.wait();
        self.is_ending = true;
        let recorded = self.record_test(tested, recorder);
        self.is_ending = false;
        recorded.map(|()| Done(self.last_test))
    }

    /// Whether the last test was one of exactly the parameters that the run has after `step`.
    fn has_tested(&self, step: u64) -> bool {
        self.config.has_exact_steps && self.last_test.is_some_and(|last| last.step == step)
    }

    /// Whether the run was interrupted, and its steps are so slow that a test would be too.
    fn must_hurry(&self, step: u64) -> bool {
        let steps = step.saturating_sub(self.config.joined_at).max(1);
        let step_seconds = self.started.elapsed().as_secs_f64() / steps as f64;
        self.config.context.stop_signal().is_some() && step_seconds > LAST_TEST.as_secs_f64()
    }

    /// The run stops in the middle of a step, if it was asked to.
    pub(crate) fn interrupt(&mut self) -> Option<StopReason> {
        let signal = self.config.context.stop_signal()?;
        self.reason = Some(StopReason::Interrupted { signal });
        self.reason
    }

    /// Whether the run was asked to stop.
    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.config.context.stop_signal().is_some()
    }

    /// For how many seconds the run has trained, over all of its processes.
    fn trained_s(&self, now: Instant) -> f64 {
        let own = now.saturating_duration_since(self.started).as_secs_f64();
        self.config.history.trained_s() + own
    }
}

mod progress;
#[cfg(test)]
mod tests;
