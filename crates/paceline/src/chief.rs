//! What the chief does beside its own steps: test, show progress and decide when to stop.

use std::time::{Duration, Instant};

use paceline_model::Score;

use crate::Failure;
use crate::job::{CheckpointPlan, Evaluate, Stop};
use crate::link::Link;
use crate::progress::{Moment, Progress};
use crate::tester::{Tested, Tests};
use paceline_observe::{Recorder, TestRecord};
use paceline_record::EventLog;

/// How many of the last losses make up the train loss.
const LOSSES: usize = 100;

/// Which condition ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// So many passes over the data were made.
    Epochs,
    /// So many global steps were made.
    Steps,
    /// The time was up.
    Seconds,
    /// The test loss was low enough.
    TestLoss,
    /// The user or the system asked for it.
    Interrupted {
        /// By which signal.
        signal: i32,
    },
}

impl StopReason {
    /// Its name in `summary.json`, that of the key in the job file where there is one.
    pub fn name(self) -> &'static str {
        match self {
            StopReason::Epochs => "epochs",
            StopReason::Steps => "steps",
            StopReason::Seconds => "seconds",
            StopReason::TestLoss => "test_loss",
            StopReason::Interrupted { .. } => "interrupted",
        }
    }
}

/// Everything that a chief is told before it starts.
pub struct Orders<'a> {
    /// When to stop.
    pub stop: Stop,
    /// How often to test.
    pub evaluate: Evaluate,
    /// How often to have a checkpoint taken, if at all.
    pub checkpoint: Option<CheckpointPlan>,
    /// The global step that the run begins with: 0 unless it is resumed.
    pub begun_at: u64,
    /// The global step that this process finds, which is later if it takes over from another.
    pub joined_at: u64,
    /// Steps after which the epochs are over, if they count.
    pub epoch_steps: Option<u64>,
    /// Examples that all workers together train on in a global step.
    pub examples_per_step: usize,
    /// Who tests.
    pub tests: Box<dyn Tests + 'a>,
    /// Whether a test's result is looked at when the next test is due and not before, so that
    /// what follows from it does not depend on how long the test took.
    pub reproducible: bool,
    /// Where to show progress.
    pub progress: Progress,
    /// The signal that asked this process to end, if one did.
    pub interrupted: Box<dyn Fn() -> Option<i32> + 'a>,
}

/// Watches over a run.
pub struct Chief<'a> {
    orders: Orders<'a>,
    started: Instant,
    losses: [f32; LOSSES],
    noted: u64,
    next_test: u64,
    last_test: Option<(u64, Score)>,
    /// All tests so far, by their steps: what is needed of them when the run goes back.
    tests: Vec<(u64, Score)>,
    /// A test's result from before the run went back, to be looked at when the next test is due.
    kept_test: Option<(u64, Score)>,
    /// How long tests have kept the chief from its steps.
    tested: Duration,
    next_checkpoint: u64,
    checkpoint_time: Option<Instant>,
    reason: Option<StopReason>,
}

impl<'a> Chief<'a> {
    /// A chief who starts to count the time now.
    pub fn new(orders: Orders<'a>) -> Self {
        let mut chief = Self {
            started: Instant::now(),
            losses: [0.0; LOSSES],
            noted: 0,
            next_test: next_multiple(orders.joined_at, orders.evaluate.every),
            last_test: None,
            tests: Vec::new(),
            kept_test: None,
            tested: Duration::ZERO,
            next_checkpoint: u64::MAX,
            checkpoint_time: None,
            reason: None,
            orders,
        };
        chief.plan_checkpoint(chief.orders.joined_at, chief.started);
        chief
    }

    /// Decides when the next checkpoint is due after one of this step.
    fn plan_checkpoint(&mut self, step: u64, now: Instant) {
        let Some(CheckpointPlan { every_steps, every_seconds, .. }) = self.orders.checkpoint else {
            return;
        };
        self.next_checkpoint = every_steps.map_or(u64::MAX, |every| next_multiple(step, every));
        let later = |seconds| now.checked_add(Duration::try_from_secs_f64(seconds).ok()?);
        self.checkpoint_time = every_seconds.and_then(later);
    }

    /// Has a checkpoint taken if one is due. Once the run is stopping, the one at its end is: by
    /// then all have everybody's last push, which need not be so now.
    #[inline]
    fn checkpoint_if_due(&mut self, now: Instant, link: &mut impl Link) -> Result<(), Failure> {
        let step = link.checkpoint_step();
        let is_due =
            step >= self.next_checkpoint || self.checkpoint_time.is_some_and(|at| now >= at);
        if !is_due || link.is_stopping() {
            return Ok(());
        }
        self.plan_checkpoint(step, now);
        link.checkpoint(step, false)
    }

    /// Has a checkpoint taken of the run's last parameters, if checkpoints are taken. If there is
    /// one of them already, nothing happens.
    pub fn final_checkpoint(&self, link: &mut impl Link) -> Result<(), Failure> {
        match self.orders.checkpoint {
            Some(_) => link.checkpoint(link.global_step(), true),
            None => Ok(()),
        }
    }

    /// The global step that the run began with.
    pub fn begun_at(&self) -> u64 {
        self.orders.begun_at
    }

    /// Looks at a step that was just made: tests if it is time, shows progress, and asks
    /// everybody to stop once there is a reason.
    #[inline]
    pub fn after_step(
        &mut self,
        loss: f32,
        now: Instant,
        link: &mut impl Link,
        board: &mut EventLog,
    ) -> Result<(), Failure> {
        let step = link.global_step();
        self.losses[(self.noted % LOSSES as u64) as usize] = loss;
        self.noted += 1;
        if step >= self.next_test {
            if self.orders.reproducible {
                let begun = Instant::now();
                let last = self.last_result();
                self.tested += begun.elapsed();
                self.note_test(last, board)?;
            }
            if self.orders.tests.is_free() {
                let begun = Instant::now();
                let keys = self.orders.tests.keys();
                self.orders.tests.begin(step, link.look(keys.as_deref())?);
                self.tested += begun.elapsed();
                self.next_test = next_multiple(step, self.orders.evaluate.every);
            }
        }
        if !self.orders.reproducible {
            let latest = self.orders.tests.result();
            self.note_test(latest, board)?;
        }
        self.checkpoint_if_due(now, link)?;
        if self.orders.progress.is_due(now) {
            self.show(step);
        }
        if self.reason.is_none() {
            self.reason = self.stop_reason(step, now);
            if let Some(reason) = self.reason {
                link.ask_to_stop(reason.name())?;
            }
        }
        Ok(())
    }

    #[inline]
    fn note_test(&mut self, tested: Option<Tested>, board: &mut EventLog) -> Result<(), Failure> {
        let Some(tested) = tested else { return Ok(()) };
        let (step, score) = tested?;
        self.last_test = Some((step, score));
        self.tests.push((step, score));
        let made = step.saturating_sub(self.orders.begun_at);
        let steps_per_second = made as f64 / self.elapsed().as_secs_f64();
        let record = TestRecord { step, score: &score, steps_per_second };
        board.test(&record).map_err(Failure::recording)
    }

    /// The result of the test that was begun last, once it is there.
    fn last_result(&mut self) -> Option<Tested> {
        self.kept_test.take().map(Ok).or_else(|| self.orders.tests.wait())
    }

    /// The run has gone back to this global step. Everything is decided again from there, with what
    /// was known then: so a run of equal steps stops where it would have stopped.
    pub fn go_back(&mut self, step: u64, link: &mut impl Link) -> Result<(), Failure> {
        let pending = self.last_result();
        self.tests.extend(pending.transpose()?);
        self.tests.retain(|&(tested, _)| tested <= step);
        self.tests.dedup_by_key(|&mut (tested, _)| tested);
        let every = self.orders.evaluate.every;
        self.next_test = next_multiple(step, every);
        let last_due = step / every * every;
        let result = |due: u64| self.tests.iter().copied().find(|&(tested, _)| tested == due);
        (self.last_test, self.kept_test) = match self.orders.reproducible {
            true => (last_due.checked_sub(every).and_then(result), result(last_due)),
            false => (self.tests.last().copied(), None),
        };
        if self.kept_test.is_none() && last_due == step && step > 0 && self.orders.reproducible {
            let keys = self.orders.tests.keys();
            self.orders.tests.begin(step, link.look(keys.as_deref())?);
        }
        self.plan_checkpoint(step, Instant::now());
        self.reason = None;
        Ok(())
    }

    /// Whether the run is over after this global step, and why.
    #[inline]
    fn stop_reason(&self, step: u64, now: Instant) -> Option<StopReason> {
        let Stop { steps, seconds, test_loss, .. } = self.orders.stop;
        let elapsed = now.saturating_duration_since(self.started).as_secs_f64();
        if let Some(signal) = (self.orders.interrupted)() {
            Some(StopReason::Interrupted { signal })
        } else if steps.is_some_and(|steps| step >= steps) {
            Some(StopReason::Steps)
        } else if seconds.is_some_and(|seconds| elapsed >= seconds) {
            Some(StopReason::Seconds)
        } else if let (Some(limit), Some((_, score))) = (test_loss, self.last_test) {
            (score.loss <= limit).then_some(StopReason::TestLoss)
        } else {
            None
        }
    }

    fn show(&mut self, step: u64) {
        let elapsed = self.elapsed();
        let seconds = elapsed.as_secs_f64();
        let planned = [self.orders.stop.steps, self.orders.epoch_steps].into_iter().flatten().min();
        let made = step.saturating_sub(self.orders.begun_at);
        let by_steps = planned.map(|steps| step as f64 / steps as f64);
        let by_time = self.orders.stop.seconds.map(|limit| seconds / limit);
        let done = [by_steps, by_time].into_iter().flatten().reduce(f64::max);
        self.orders.progress.show(&Moment {
            step,
            done,
            elapsed,
            train_loss: self.train_loss(),
            test_accuracy: self.last_test.map(|(_, score)| score.accuracy),
            examples_per_second: (made * self.orders.examples_per_step as u64) as f64 / seconds,
        });
    }

    /// How well the last test went, if there was one.
    pub fn last_score(&self) -> Option<Score> {
        self.last_test.map(|(_, score)| score)
    }

    /// How long tests have kept the chief from its steps, so far.
    #[inline]
    pub fn tested(&self) -> Duration {
        self.tested
    }

    /// Why the run ended, if the chief had it stopped.
    pub fn reason(&self) -> Option<StopReason> {
        self.reason
    }

    /// Mean of the last losses.
    pub fn train_loss(&self) -> f64 {
        let known = self.noted.min(LOSSES as u64) as usize;
        let sum: f64 = self.losses[..known].iter().map(|&loss| f64::from(loss)).sum();
        sum / known.max(1) as f64
    }

    /// The test of the run's last parameters, which may have been made already.
    pub fn final_test(
        &mut self,
        link: &mut impl Link,
        board: Option<&mut EventLog>,
    ) -> Result<Score, Failure> {
        let Some(board) = board else { unreachable!("the chief has an event file") };
        let step = link.global_step();
        let last = self.last_result();
        self.note_test(last, board)?;
        match self.last_test {
            Some((tested, score)) if tested == step => Ok(score),
            _ => {
                let keys = self.orders.tests.keys();
                let score = self.orders.tests.test(link.look(keys.as_deref())?)?;
                self.note_test(Some(Ok((step, score))), board)?;
                Ok(score)
            }
        }
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// For the record.
    pub fn note(&self, text: &str) {
        self.orders.progress.note(text);
    }

    /// Takes the progress bar away.
    pub fn finish(&self) {
        self.orders.progress.finish();
    }
}

/// The first multiple after a step.
fn next_multiple(step: u64, every: u64) -> u64 {
    (step / every).saturating_add(1).saturating_mul(every)
}
