//! Finds out whether training diverges: whether its loss is far above where it started.
//!
//! Losses of single batches are noisy, and a healthy run may spike. So means over windows of steps
//! are compared with the loss at the start, and two consecutive ones must be far above it without
//! falling. Only a loss beyond all measure ends the run at once. Everything depends on the losses
//! alone: runs with equal losses end alike.

use std::fmt;

use paceline_model::Score;

/// A mean loss is far above the start if it is this many times as high.
const FAR_ABOVE: f64 = 10.0;
/// The least loss that a start counts as. A start below it, as in a run that is resumed, says
/// little about how the loss of a batch may vary.
const LEAST_START: f64 = 1.0;
/// The start is the mean loss of this many examples, rounded up to whole batches.
const START_EXAMPLES: usize = 16;
/// If training diverges within those examples, the mean is compared with the first loss instead.
const FAR_ABOVE_FIRST: f64 = 1e2;
/// A loss that falls to this part from window to window may yet return.
const RETURNING: f64 = 0.75;
/// A loss this many times the start ends the run at once.
const BEYOND_MEASURE: f64 = 1e6;
/// Examples in a window, rounded up to whole batches. The loss of one example may be a hundred
/// times the mean, so that a window of a few examples says little.
const WINDOW_EXAMPLES: usize = 1_000;
/// The fewest steps in a window.
const LEAST_WINDOW: usize = 10;

/// Why training counts as diverged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// The loss: of a batch, the mean of the last batches, or of the final test.
    pub loss: f64,
    /// The global step.
    pub step: u64,
    /// The loss at the start. `None` if the loss is not a number, which is wrong whatever the start
    /// was.
    pub start: Option<f64>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { loss, step, start } = *self;
        match start {
            Some(start) => {
                let (start, loss) = (Loss(start), Loss(loss));
                write!(f, "the loss rose from {start} to {loss} at step {step}")?;
            }
            None => write!(f, "the loss became {loss} at step {step}")?,
        }
        f.write_str(": training diverged; try a smaller learning rate")
    }
}

/// Writes a loss with as many digits as a person reads.
struct Loss(f64);

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1e5 { write!(f, "{:.1e}", self.0) } else { write!(f, "{:.3}", self.0) }
    }
}

/// Watches the losses of a training loop.
#[derive(Clone, Debug)]
pub struct DivergenceCheck {
    is_on: bool,
    /// Steps whose mean loss is the start.
    start_steps: u32,
    /// Steps in every later window.
    window_steps: u32,
    /// The greatest loss that does not end the run at once.
    most: f32,
    /// The sum of the current window's losses.
    sum: f64,
    /// Steps until the current window ends.
    left: u32,
    /// Steps in the current window.
    steps: u32,
    /// The loss of the first step.
    first: Option<f64>,
    /// The mean loss of the first examples.
    start: Option<f64>,
    /// The mean of the last window, if that was far above the start.
    high: Option<f64>,
}

impl DivergenceCheck {
    /// Watches a loop whose batches have this size. Unless `is_on`, only a loss that is not a
    /// number counts.
    pub fn new(batch: usize, is_on: bool) -> Self {
        let batch = batch.max(1);
        Self {
            is_on,
            start_steps: START_EXAMPLES.div_ceil(batch) as u32,
            window_steps: WINDOW_EXAMPLES.div_ceil(batch).max(LEAST_WINDOW) as u32,
            most: f32::MAX,
            sum: 0.0,
            left: 1,
            steps: 1,
            first: None,
            start: None,
            high: None,
        }
    }

    /// Takes the loss of a step.
    ///
    /// # Errors
    /// If training has diverged.
    #[inline]
    pub fn add(&mut self, step: u64, loss: f32) -> Result<(), Divergence> {
        // A loss that is not a number fails this comparison too.
        if loss <= self.most {
            self.sum += f64::from(loss);
            self.left -= 1;
            if self.left > 0 {
                return Ok(());
            }
            return self.end_window(step, loss);
        }
        let start = self.first.filter(|_| loss.is_finite());
        Err(Divergence { loss: loss.into(), step, start })
    }

    /// Checks that a loss is finite. The loop calls this before a gradient reaches other tasks.
    ///
    /// # Errors
    /// If it is not.
    #[inline]
    pub fn check_finite(&self, step: u64, loss: f32) -> Result<(), Divergence> {
        if loss.is_finite() {
            return Ok(());
        }
        Err(Divergence { loss: loss.into(), step, start: None })
    }

    #[cold]
    fn end_window(&mut self, step: u64, loss: f32) -> Result<(), Divergence> {
        // The first window is the first step, and grows into the one that is the start.
        let first = *self.first.get_or_insert(loss.into());
        if self.steps < self.start_steps {
            (self.left, self.steps) = (self.start_steps - self.steps, self.start_steps);
            return Ok(());
        }
        let mean = self.sum / f64::from(self.steps);
        (self.sum, self.left, self.steps) = (0.0, self.window_steps, self.window_steps);
        let Some(start) = self.start else {
            self.start = Some(mean);
            if self.is_on {
                let most = BEYOND_MEASURE * first.max(LEAST_START);
                self.most = most.min(f32::MAX.into()) as f32;
            }
            return Ok(());
        };
        if mean <= self.limit() {
            self.high = None;
            return Ok(());
        }
        match self.high.replace(mean) {
            Some(before) if mean > RETURNING * before => {
                Err(Divergence { loss: mean, step, start: Some(start.min(first)) })
            }
            _ => Ok(()),
        }
    }

    /// The greatest mean loss that is not far above the start.
    fn limit(&self) -> f64 {
        if !self.is_on {
            return f64::INFINITY;
        }
        let first = self.first.unwrap_or(f64::INFINITY).max(LEAST_START);
        let start = self.start.unwrap_or(first).max(LEAST_START);
        (FAR_ABOVE * start).min(FAR_ABOVE_FIRST * first)
    }

    /// Judges the final test, which covers what came after the last window.
    ///
    /// # Errors
    /// If training has diverged.
    pub fn check_test(&self, step: u64, score: &Score) -> Result<(), Divergence> {
        if !self.is_on || score.examples == 0 || score.loss <= self.limit() {
            return Ok(());
        }
        let start = [self.start, self.first].into_iter().flatten().reduce(f64::min);
        let start = start.filter(|_| score.loss.is_finite());
        Err(Divergence { loss: score.loss, step, start })
    }
}

#[cfg(test)]
mod tests;
