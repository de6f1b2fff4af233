//! The loop: what a worker does, step after step.

use std::thread;
use std::time::Instant;

use paceline_data::{BatchBuffer, BatchPlan, Images};
use paceline_model::{Batch, Model};
use paceline_observe::{Phase, PhaseClock};

use crate::Failure;
use crate::board::Board;
use crate::chief::{Chief, StopReason};
use crate::link::{Link, Pushed};

/// A worker and everything it works with but the parameters.
pub struct Worker<'a> {
    /// Its place in the plan.
    pub slot: usize,
    /// Which examples it takes at each step.
    pub batches: BatchPlan,
    /// The examples.
    pub images: &'a Images,
    /// What it trains.
    pub model: Box<dyn Model>,
    /// Its event file.
    pub board: Board,
    /// Where its time goes.
    pub clock: PhaseClock,
    /// How many times slower than it could be this worker shall be: 1, but in tests.
    pub slowness: f64,
}

/// What a worker did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Why it stopped, if it knows; a worker that is told to stop does not.
    pub reason: Option<StopReason>,
    /// Steps it took.
    pub steps: u64,
    /// Of their gradients, those that came too late.
    pub dropped: u64,
    /// Examples it trained on.
    pub examples: u64,
}

impl Worker<'_> {
    /// Trains until the plan is through or the run is stopped.
    pub fn run(
        &mut self,
        link: &mut impl Link,
        mut chief: Option<&mut Chief<'_>>,
    ) -> Result<Work, Failure> {
        let mut work = Work::default();
        let mut indices = Vec::new();
        let mut buffer = BatchBuffer::default();
        let mut grad = vec![0.0; self.model.layout().len()];
        loop {
            self.clock.enter(Phase::Input);
            self.batches.batch(link.next_step(), self.slot, &mut indices);
            if indices.is_empty() {
                return Ok(Work { reason: Some(StopReason::Epochs), ..work });
            }
            buffer.fill(self.images, indices.iter().map(|&example| example as usize));
            let batch = Batch { inputs: &buffer.inputs, labels: &buffer.labels };

            let step = link.global_step();
            let start = self.clock.enter(Phase::Compute);
            let loss = self.model.gradient(link.params(), batch, &mut grad);
            self.dawdle(start);
            let now = self.clock.enter(Phase::Push);
            let pushed = link.push(batch.len(), &grad, &mut self.clock)?;

            work.steps += 1;
            work.dropped += u64::from(pushed == Pushed::Dropped);
            work.examples += batch.len() as u64;
            if !loss.is_finite() {
                return Err(diverged(step, loss));
            }
            self.board.step(step, loss)?;
            if let Some(chief) = chief.as_deref_mut() {
                self.clock.enter(Phase::Wait);
                chief.after_step(loss, now, link, &mut self.board)?;
            }
            if link.is_stopping() {
                return Ok(work);
            }
        }
    }

    /// In tests: makes this worker a slow one.
    #[inline]
    fn dawdle(&self, start: Instant) {
        if self.slowness > 1.0 {
            thread::sleep(start.elapsed().mul_f64(self.slowness - 1.0));
        }
    }
}

/// A loss that is not a number ends the run: nothing that comes after it could be of use.
fn diverged(step: u64, loss: f32) -> Failure {
    Failure::Training(format!(
        "the loss became {loss} at step {step}: training diverged; \
         try a smaller train.optimizer.rate"
    ))
}
