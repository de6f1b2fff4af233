//! The curve of a worker's train loss: dense at first, then thinned by time.
//!
//! A thinned point is the mean of the losses since the last point. The least and the greatest of
//! them have tags of their own, at the steps where they occurred, so that no spike is lost.

use std::io;
use std::time::{Duration, Instant};

use crate::byte_budget::{ByteBudget, LOSSES};
use crate::events::{EventWriter, Tag};
use crate::names::tags;

/// More than the bytes of the three events of a point.
const POINT_BYTES: u64 = 200;
/// The least time between two thinned points, and between two looks at the budget. Within this time
/// no point follows a thinned one: the loss of a single step would be far noisier.
const RETRY: Duration = Duration::from_millis(25);

/// Writes the train loss.
#[derive(Debug)]
pub(crate) struct LossCurve {
    /// The loss of every n-th step is written and no other; without it, losses are thinned.
    every: Option<u64>,
    loss: Tag,
    least: Tag,
    greatest: Tag,
    budget: ByteBudget,
    begun: Instant,
    /// Before this time no point is written.
    due: Instant,
    steps: u64,
    pending: Option<PendingLosses>,
}

/// Losses since the last point.
#[derive(Clone, Copy, Debug)]
struct PendingLosses {
    sum: f64,
    count: u64,
    last_step: u64,
    least: StepLoss,
    greatest: StepLoss,
}

#[derive(Clone, Copy, Debug)]
struct StepLoss {
    step: u64,
    loss: f32,
}

impl PendingLosses {
    fn new(step: u64, loss: f32) -> Self {
        let one = StepLoss { step, loss };
        Self { sum: loss.into(), count: 1, last_step: step, least: one, greatest: one }
    }

    #[inline]
    fn add(&mut self, step: u64, loss: f32) {
        self.sum += f64::from(loss);
        self.count += 1;
        self.last_step = step;
        if loss < self.least.loss {
            self.least = StepLoss { step, loss };
        }
        if loss > self.greatest.loss {
            self.greatest = StepLoss { step, loss };
        }
    }
}

impl LossCurve {
    /// The curve in this event file: the loss of every n-th step, or thinned.
    pub(crate) fn new(events: &mut EventWriter, every: Option<u64>, begun: Instant) -> Self {
        Self {
            every,
            loss: events.tag(tags::TRAIN_LOSS),
            least: events.tag(tags::TRAIN_LOSS_LEAST),
            greatest: events.tag(tags::TRAIN_LOSS_GREATEST),
            budget: ByteBudget::new(LOSSES),
            begun,
            due: begun,
            steps: 0,
            pending: None,
        }
    }

    /// Adds the loss of a step.
    #[inline]
    pub(crate) fn add(
        &mut self,
        events: &mut EventWriter,
        step: u64,
        loss: f32,
        now: Instant,
    ) -> io::Result<()> {
        if let Some(every) = self.every {
            let is_due = self.steps.is_multiple_of(every);
            self.steps += 1;
            return if is_due { events.scalar(&self.loss, step, loss) } else { Ok(()) };
        }
        match &mut self.pending {
            Some(pending) => pending.add(step, loss),
            None => self.pending = Some(PendingLosses::new(step, loss)),
        }
        if now < self.due { Ok(()) } else { self.write_if_allowed(events, now) }
    }

    fn write_if_allowed(&mut self, events: &mut EventWriter, now: Instant) -> io::Result<()> {
        let seconds = now.saturating_duration_since(self.begun).as_secs_f64();
        if !self.budget.allows(seconds, POINT_BYTES) {
            self.due = now + RETRY;
            return Ok(());
        }
        if self.pending.is_some_and(|pending| pending.count > 1) {
            self.due = now + RETRY;
        }
        let before = events.written_bytes();
        self.write_pending(events)?;
        self.budget.spend(events.written_bytes() - before);
        Ok(())
    }

    /// Writes a point of the losses since the last one, if there are any.
    pub(crate) fn write_pending(&mut self, events: &mut EventWriter) -> io::Result<()> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let PendingLosses { sum, count, last_step, least, greatest } = pending;
        if count > 1 {
            // Readers join them with the mean that follows.
            events.scalar(&self.least, least.step, least.loss)?;
            events.scalar(&self.greatest, greatest.step, greatest.loss)?;
        }
        events.scalar(&self.loss, last_step, (sum / count as f64) as f32)
    }

    /// Forgets the losses since the last point, which a rewind voids.
    pub(crate) fn discard_pending(&mut self) {
        self.pending = None;
    }
}
