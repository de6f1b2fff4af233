//! The loop: what a worker does, step after step.

use std::time::Instant;

use paceline_data::{BatchBuffer, BatchPlan, Images};
use paceline_model::{Batch, Model};
use paceline_observe::{Phase, PhaseClock};

use crate::Failure;
use crate::board::Board;
use crate::chief::{Chief, StopReason};
use crate::link::Link;

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
}

/// What a worker did.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Why it stopped.
    pub reason: StopReason,
    /// Steps it took.
    pub steps: u64,
    /// Examples it trained on.
    pub examples: u64,
}

impl Worker<'_> {
    /// Trains until the chief or the plan says that it is enough.
    pub fn run(&mut self, link: &mut impl Link, chief: &mut Chief<'_>) -> Result<Work, Failure> {
        let mut indices = Vec::new();
        let mut buffer = BatchBuffer::default();
        let mut grad = vec![0.0; self.model.layout().len()];
        let mut examples = 0;
        for step in 0.. {
            self.clock.enter(Phase::Input);
            self.batches.batch(step, self.slot, &mut indices);
            if indices.is_empty() {
                return Ok(Work { reason: StopReason::Epochs, steps: step, examples });
            }
            buffer.fill(self.images, indices.iter().map(|&example| example as usize));
            let batch = Batch { inputs: &buffer.inputs, labels: &buffer.labels };

            self.clock.enter(Phase::Pull);
            let params = link.pull()?;
            self.clock.enter(Phase::Compute);
            let loss = self.model.gradient(params, batch, &mut grad);
            let now = self.clock.enter(Phase::Push);
            link.push(step, &grad)?;

            examples += batch.len() as u64;
            self.board.step(step, loss)?;
            if let Some(reason) = self.after_step(link, chief, loss, examples, now)? {
                return Ok(Work { reason, steps: step + 1, examples });
            }
        }
        unreachable!("steps do not run out")
    }

    /// Lets the chief look at the step that was just made.
    #[inline]
    fn after_step(
        &mut self,
        link: &mut impl Link,
        chief: &mut Chief<'_>,
        loss: f32,
        examples: u64,
        now: Instant,
    ) -> Result<Option<StopReason>, Failure> {
        let step = link.global_step();
        chief.note_loss(step, loss)?;
        if chief.test_is_due(step) {
            self.clock.enter(Phase::Wait);
            chief.test(step, link.pull()?, &mut self.board)?;
        }
        Ok(chief.stop(step, examples, now))
    }
}
