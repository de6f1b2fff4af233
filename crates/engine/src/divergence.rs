//! Finds out whether training diverges: whether its loss is far above where it started.
//!
//! Losses of single batches are noisy, and a healthy run may spike. So means over windows of steps
//! are compared with the loss at the start, and two consecutive ones must be far above it without
//! falling. Only a loss beyond all measure ends the run at once. Everything depends on the losses
//! alone: equal losses end equally.

use paceline_model::Score;

use crate::error::{Divergence, TrainError};
use crate::settings::{OnDivergence, TrainSettings};

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

/// Watches the losses of a training loop.
#[derive(Clone, Debug)]
pub(crate) struct DivergenceCheck {
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
    /// Watches a loop with these settings.
    pub(crate) fn new(settings: &TrainSettings) -> Self {
        let batch = settings.batch.max(1);
        Self {
            is_on: settings.on_divergence == OnDivergence::Stop,
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

    /// Takes the loss of a step. An error if training has diverged.
    #[inline]
    pub(crate) fn add(&mut self, step: u64, loss: f32) -> Result<(), TrainError> {
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
        Err(diverged(loss.into(), step, start))
    }

    #[cold]
    fn end_window(&mut self, step: u64, loss: f32) -> Result<(), TrainError> {
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
                Err(diverged(mean, step, Some(start.min(first))))
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

    /// Judges the final test, which covers what came after the last window. An error if training
    /// has diverged.
    pub(crate) fn check_test(&self, step: u64, score: &Score) -> Result<(), TrainError> {
        if !self.is_on || score.examples == 0 || score.loss <= self.limit() {
            return Ok(());
        }
        let start = [self.start, self.first].into_iter().flatten().reduce(f64::min);
        let start = start.filter(|_| score.loss.is_finite());
        Err(diverged(score.loss, step, start))
    }
}

#[cold]
fn diverged(loss: f64, step: u64, start: Option<f64>) -> TrainError {
    TrainError::Diverged(Divergence { loss, step, start })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::default_settings;

    /// The step and loss at which these losses are taken for diverged, if they are.
    fn found(batch: usize, losses: impl IntoIterator<Item = f64>) -> Option<(u64, f64)> {
        let mut check = DivergenceCheck::new(&TrainSettings { batch, ..default_settings() });
        losses.into_iter().zip(0..).find_map(|(loss, step)| match check.add(step, loss as f32) {
            Ok(()) => None,
            Err(TrainError::Diverged(Divergence { loss, .. })) => Some((step, loss)),
            Err(error) => panic!("{error}"),
        })
    }

    /// Noise from 0 to 1 that is the same every time.
    fn noise() -> impl Iterator<Item = f64> {
        let mut state = 7_u64;
        std::iter::from_fn(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Some((state >> 33) as f64 / (1_u64 << 31) as f64)
        })
    }

    #[test]
    fn a_loss_that_stays_far_above_its_start_is_divergence() {
        let rising = (0..1_000).map(|step| 2.3 * 1.05_f64.powi(step));
        assert!(found(60, rising.clone()).is_some_and(|(step, _)| step < 200));
        assert!(found(1, rising).is_some_and(|(step, _)| step < 300));
        // It jumps and stays: two windows later it is found, whatever the batch, also if the first
        // examples have jumped too.
        for (batch, most) in [(1, 2_016), (10, 202), (60, 35), (1_000, 21)] {
            let jump = [2.3].into_iter().chain(std::iter::repeat_n(5_000.0, 3_000));
            assert!(found(batch, jump).is_some_and(|(step, _)| step <= most), "{batch}");
        }
        assert_eq!(found(60, [2.3, 2.0, 2e29]), Some((2, f64::from(2e29_f32))), "at once");
        assert!(found(60, [2.3, f64::NAN]).is_some_and(|(step, loss)| step == 1 && loss.is_nan()));
    }

    #[test]
    fn noise_spikes_and_slow_returns_are_not() {
        // Single examples at a high rate: most are right, some are wrong by far.
        let single = |scale: f64| noise().map(move |u| if u > 0.85 { scale * u } else { 0.01 });
        assert_eq!(found(1, [2.3].into_iter().chain(single(60.0)).take(100_000)), None);
        // A resumed run starts with a tiny loss.
        assert_eq!(found(1, std::iter::repeat_n(1e-6, 40).chain(single(40.0)).take(100_000)), None);
        let spike = |step: usize| if step % 500 == 20 { 900.0 } else { 1.0 };
        assert_eq!(found(60, (0..10_000).map(spike)), None);
        // A first step that is too long, from which training returns.
        let back = (0..1_000).map(|step| 1.0 + 800.0 * 0.98_f64.powi(step));
        assert_eq!(found(60, [2.3].into_iter().chain(back)), None);
    }

    #[test]
    fn the_final_test_is_judged_too_and_nothing_is_if_the_user_continues() {
        let score = |loss| {
            let (accuracy, is_two_class) = (0.1, false);
            let (precision, recall, auc) = (None, None, None);
            Score { examples: 10, loss, accuracy, is_two_class, precision, recall, auc }
        };
        let mut settings = default_settings();
        let mut check = DivergenceCheck::new(&settings);
        check.check_test(0, &score(1e9)).unwrap();
        check.add(0, 2.3).unwrap();
        check.check_test(1, &score(22.0)).unwrap();
        let error = check.check_test(1, &score(2e29)).unwrap_err().to_string();
        let text = "the loss rose from 2.300 to 2.0e29 at step 1: training diverged; \
                    try a smaller learning rate";
        assert_eq!(error, text);
        assert!(check.check_test(1, &score(f64::NAN)).is_err());
        check.check_test(1, &Score { examples: 0, ..score(f64::NAN) }).unwrap();

        settings.on_divergence = OnDivergence::Continue;
        let mut check = DivergenceCheck::new(&settings);
        (0..500).for_each(|step| check.add(step, 1.2_f32.powi(step as i32 / 2)).unwrap());
        check.check_test(500, &score(2e29)).unwrap();
        assert!(check.add(500, f32::NAN).is_err(), "nothing after this can be of use");
    }
}
