//! The loop: what a worker does, step after step.

use std::thread;
use std::time::Instant;

use paceline_data::{BatchBuffer, BatchPlan, Images};
use paceline_model::{Batch, Model, Onto};
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
            let step = link.global_step();
            let loss = self.gradient(&indices, link.params(), &mut buffer, &mut grad);
            let now = self.clock.enter(Phase::Push);
            let pushed = link.push(indices.len(), &grad, &mut self.clock)?;

            work.steps += 1;
            work.dropped += u64::from(pushed == Pushed::Dropped);
            work.examples += indices.len() as u64;
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

    /// The mean loss of a batch and its gradient, block by block, so that the values of a block
    /// are read, used and forgotten while they are in the cache.
    #[inline]
    fn gradient(
        &mut self,
        indices: &[u32],
        params: &[f32],
        buffer: &mut BatchBuffer,
        grad: &mut [f32],
    ) -> f32 {
        let share = 1.0 / indices.len() as f32;
        let (mut loss, mut onto) = (0.0, Onto::Zero);
        for indices in indices.chunks(self.model.max_block()) {
            self.clock.enter(Phase::Input);
            buffer.fill(self.images, indices.iter().map(|&example| example as usize));
            let block = Batch::dense(&buffer.inputs, &buffer.labels);
            let start = self.clock.enter(Phase::Compute);
            loss += self.model.gradient(params, block, share, onto, grad);
            onto = Onto::Present;
            self.dawdle(start);
        }
        loss
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
