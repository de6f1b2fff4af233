//! What the coordinator reports of a run's progress.

use std::io;
use std::time::{Duration, Instant};

use paceline_observe::{ProgressReport, Recorder};

use super::{Coordinator, RateStart};

/// A rate is known once the steps have taken this long.
const LEAST_RATE_TIME: Duration = Duration::from_millis(100);
/// A first step that takes this long is reported by itself. A shorter one says little: first
/// accesses to memory may take most of it.
const LONG_FIRST_STEP: Duration = Duration::from_secs(2);

impl Coordinator<'_> {
    /// Reports progress, once there is a rate. The rate counts from the end of this worker's first
    /// step, which takes an untypical time; when the other workers made theirs is not known.
    #[inline]
    pub(super) fn report_progress(
        &mut self,
        step: u64,
        now: Instant,
        recorder: &mut dyn Recorder,
    ) -> io::Result<()> {
        if self.rate_start.is_some() && !self.look.is_due(now) {
            return Ok(());
        }
        let joined_at = self.config.joined_at;
        let is_first = self.rate_start.is_none() && step <= joined_at + 1;
        let mut start = *self.rate_start.get_or_insert(RateStart { step, time: now });
        if is_first && now >= self.started + LONG_FIRST_STEP {
            start = RateStart { step: joined_at, time: self.started };
        }
        if now < start.time + LEAST_RATE_TIME {
            return Ok(());
        }
        recorder.progress(now, &|| self.progress(step, now, start))
    }

    fn progress(&self, step: u64, now: Instant, start: RateStart) -> ProgressReport {
        let elapsed = now.saturating_duration_since(self.started);
        let seconds = elapsed.as_secs_f64();
        let made = step.saturating_sub(start.step) as f64;
        let steps_per_second = made / now.saturating_duration_since(start.time).as_secs_f64();
        let planned = [self.config.stop.steps, self.config.epoch_steps].into_iter().flatten().min();
        let limit = self.config.stop.seconds;
        let by_steps = planned.map(|steps| step as f64 / steps as f64);
        let by_time = limit.map(|limit| seconds / limit);
        let left_steps = planned.map(|steps| steps.saturating_sub(step) as f64 / steps_per_second);
        let left_time = limit.map(|limit| (limit - seconds).max(0.0));
        let left = [left_steps, left_time].into_iter().flatten().reduce(f64::min);
        ProgressReport {
            step,
            done: [by_steps, by_time].into_iter().flatten().reduce(f64::max),
            elapsed,
            left: left.and_then(|left| Duration::try_from_secs_f64(left).ok()),
            train_loss: self.train_loss(),
            test_accuracy: self.last_test.map(|test| test.score.accuracy),
            examples_per_second: steps_per_second * self.config.examples_per_step as f64,
        }
    }
}
