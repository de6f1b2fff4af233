//! What the chief does beside its own steps: test, show progress and decide when to stop.

use std::time::{Duration, Instant};

use paceline_model::Tally;

use crate::Failure;
use crate::board::Board;
use crate::interrupt::Interrupt;
use crate::job::{Evaluate, Stop};
use crate::progress::{Moment, Progress};
use crate::tester::Tester;

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

/// Watches over a run.
pub struct Chief<'a> {
    stop: Stop,
    evaluate: Evaluate,
    /// Steps after which the run is over by epochs or steps, whichever is first.
    planned_steps: Option<u64>,
    tester: Tester<'a>,
    progress: Progress,
    interrupt: Interrupt,
    started: Instant,
    losses: [f32; LOSSES],
    noted: u64,
    last_test: Option<(u64, Tally)>,
}

impl<'a> Chief<'a> {
    /// A chief who starts to count the time now.
    pub fn new(
        stop: Stop,
        evaluate: Evaluate,
        epoch_steps: Option<u64>,
        tester: Tester<'a>,
        progress: Progress,
        interrupt: Interrupt,
    ) -> Self {
        let planned_steps = [stop.steps, epoch_steps].into_iter().flatten().min();
        Self {
            stop,
            evaluate,
            planned_steps,
            tester,
            progress,
            interrupt,
            started: Instant::now(),
            losses: [0.0; LOSSES],
            noted: 0,
            last_test: None,
        }
    }

    /// Takes note of a step's loss. A loss that is not a number ends the run: nothing that
    /// comes after it could be of use.
    #[inline]
    pub fn note_loss(&mut self, step: u64, loss: f32) -> Result<(), Failure> {
        if !loss.is_finite() {
            return Err(Failure::Training(format!(
                "the loss became {loss} at step {step}: training diverged; \
                 try a smaller train.optimizer.rate"
            )));
        }
        self.losses[(self.noted % LOSSES as u64) as usize] = loss;
        self.noted += 1;
        Ok(())
    }

    /// Mean of the last losses.
    pub fn train_loss(&self) -> f64 {
        let known = self.noted.min(LOSSES as u64) as usize;
        self.losses[..known].iter().map(|&loss| f64::from(loss)).sum::<f64>() / known as f64
    }

    /// Whether the parameters of this global step are to be tested.
    #[inline]
    pub fn test_is_due(&self, step: u64) -> bool {
        step.is_multiple_of(self.evaluate.every)
    }

    /// Tests the parameters of a global step and records the result.
    pub fn test(&mut self, step: u64, params: &[f32], board: &mut Board) -> Result<Tally, Failure> {
        let tally = self.tester.test(params);
        self.last_test = Some((step, tally));
        board.test(step, &tally, step as f64 / self.elapsed().as_secs_f64())?;
        Ok(tally)
    }

    /// The test of the run's last parameters, which may have been made already.
    pub fn final_test(
        &mut self,
        step: u64,
        params: &[f32],
        board: &mut Board,
    ) -> Result<Tally, Failure> {
        match self.last_test {
            Some((tested, tally)) if tested == step => Ok(tally),
            _ => self.test(step, params, board),
        }
    }

    /// Whether the run is over after this global step, and why. Shows progress in passing.
    #[inline]
    pub fn stop(&mut self, step: u64, examples: u64, now: Instant) -> Option<StopReason> {
        if self.progress.is_due(now) {
            self.show(step, examples);
        }
        let elapsed = now.saturating_duration_since(self.started).as_secs_f64();
        let tested_loss = self.last_test.filter(|(tested, _)| *tested == step);
        if let Some(signal) = self.interrupt.signal() {
            Some(StopReason::Interrupted { signal })
        } else if self.stop.steps.is_some_and(|steps| step >= steps) {
            Some(StopReason::Steps)
        } else if self.stop.seconds.is_some_and(|seconds| elapsed >= seconds) {
            Some(StopReason::Seconds)
        } else if let (Some(limit), Some((_, tally))) = (self.stop.test_loss, tested_loss) {
            (tally.loss() <= limit).then_some(StopReason::TestLoss)
        } else {
            None
        }
    }

    fn show(&mut self, step: u64, examples: u64) {
        let elapsed = self.elapsed();
        let seconds = elapsed.as_secs_f64();
        let by_steps = self.planned_steps.map(|steps| step as f64 / steps as f64);
        let by_time = self.stop.seconds.map(|limit| seconds / limit);
        let done = [by_steps, by_time].into_iter().flatten().reduce(f64::max);
        self.progress.show(&Moment {
            step,
            done,
            elapsed,
            train_loss: self.train_loss(),
            test_accuracy: self.last_test.map(|(_, tally)| tally.accuracy()),
            examples_per_second: examples as f64 / seconds,
        });
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes the progress bar away.
    pub fn finish(&self) {
        self.progress.finish();
    }
}
