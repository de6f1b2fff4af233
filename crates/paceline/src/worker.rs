//! The loop: what a worker does, step after step. (That of sparse models is in `rows/worker.rs`.)

use std::thread;
use std::time::{Duration, Instant};

use paceline_model::{Layout, Model, Onto};
use paceline_observe::{Phase, PhaseClock};

use crate::Failure;
use crate::board::Board;
use crate::chief::{Chief, StopReason};
use crate::examples::Examples;
use crate::link::{DenseLink, Link, Pushed};

/// Whoever trains a model over a link, with all that it works with but the parameters.
pub trait Trainer<L> {
    /// Trains until the plan is through or the run is stopped.
    fn run(&mut self, link: &mut L, chief: Option<&mut Chief<'_>>) -> Result<Work, Failure>;

    /// Where it keeps its books.
    fn desk(&mut self) -> &mut Desk;

    /// What its parameters are called.
    fn layout(&self) -> &Layout;
}

/// A worker's books.
pub struct Desk {
    /// Its event file; of several threads of a process, only the first has one.
    pub board: Option<Board>,
    /// Where its time goes.
    pub clock: PhaseClock,
    /// How many times slower than it could be this worker shall be: 1, but in tests.
    pub slowness: f64,
    /// How long tests have kept this worker from its steps; only a chief's.
    pub tested: Duration,
}

impl Desk {
    /// Books that are opened now.
    pub fn open(board: Option<Board>, slowness: f64) -> Self {
        if let Some(board) = &board {
            board.begin();
        }
        Self { board, clock: PhaseClock::start(Phase::Input), slowness, tested: Duration::ZERO }
    }

    /// Takes note of a step; with the chief, what follows from it.
    #[inline]
    pub(crate) fn after_step(
        &mut self,
        (step, loss, now): (u64, f32, Instant),
        link: &mut impl Link,
        chief: Option<&mut Chief<'_>>,
    ) -> Result<(), Failure> {
        if !loss.is_finite() {
            return Err(diverged(step, loss));
        }
        let Some(board) = &mut self.board else { return Ok(()) };
        board.step(step, loss)?;
        board.note(link.global_step(), link.moved_bytes())?;
        let Some(chief) = chief else { return Ok(()) };
        self.clock.enter(Phase::Wait);
        chief.after_step(loss, now, link, board)?;
        self.tested = chief.tested();
        Ok(())
    }

    /// Closes the books.
    pub(crate) fn close(&mut self, success: bool) -> Result<(), Failure> {
        self.board.as_mut().map_or(Ok(()), |board| board.finish(success))
    }

    /// In tests: makes this worker a slow one.
    #[inline]
    pub(crate) fn dawdle(&self, start: Instant) {
        if self.slowness > 1.0 {
            thread::sleep(start.elapsed().mul_f64(self.slowness - 1.0));
        }
    }
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

impl Work {
    /// What two workers of one process did together.
    pub(crate) fn with(self, other: &Work) -> Work {
        Work {
            reason: self.reason,
            steps: self.steps + other.steps,
            dropped: self.dropped + other.dropped,
            examples: self.examples + other.examples,
        }
    }
}

/// A worker of a dense model.
pub struct Worker<'a> {
    /// Which examples it takes at each step.
    pub examples: Box<dyn Examples + 'a>,
    /// What it trains.
    pub model: Box<dyn Model>,
    /// Its books.
    pub desk: Desk,
}

impl<L: DenseLink> Trainer<L> for Worker<'_> {
    fn run(&mut self, link: &mut L, mut chief: Option<&mut Chief<'_>>) -> Result<Work, Failure> {
        let mut work = Work::default();
        // Memory that is never written to is never there, as where steps are made in place.
        let mut grad = vec![0.0; self.model.layout().len()];
        // Who takes a slot over may find the run at its end.
        while !link.is_stopping() && !link.is_called_back() {
            self.desk.clock.enter(Phase::Input);
            let examples = self.examples.take(link.next_step())?;
            if examples == 0 {
                return Ok(Work { reason: Some(StopReason::Epochs), ..work });
            }
            let step = link.global_step();
            let (loss, now, pushed) = match self.step_in_place(examples, link)? {
                Some(loss) => (loss, self.desk.clock.enter(Phase::Wait), Pushed::Applied),
                None => {
                    let loss = self.gradient(examples, link.params(), &mut grad)?;
                    let now = self.desk.clock.enter(Phase::Push);
                    (loss, now, link.push(examples, &grad, &mut self.desk.clock)?)
                }
            };

            work.steps += 1;
            work.dropped += u64::from(pushed == Pushed::Dropped);
            work.examples += examples as u64;
            self.desk.after_step((step, loss, now), link, chief.as_deref_mut())?;
        }
        Ok(work)
    }

    fn desk(&mut self) -> &mut Desk {
        &mut self.desk
    }

    fn layout(&self) -> &Layout {
        self.model.layout()
    }
}

impl Worker<'_> {
    /// The mean loss of a batch, and a step made with it in place, if the parameters are here, the
    /// model can and the batch is one block.
    #[inline]
    fn step_in_place(
        &mut self,
        examples: usize,
        link: &mut impl DenseLink,
    ) -> Result<Option<f32>, Failure> {
        let model = (examples <= self.model.max_block()).then(|| self.model.in_place()).flatten();
        let Some(model) = model else { return Ok(None) };
        let Some(descent) = link.lend() else { return Ok(None) };
        let block = self.examples.block(examples)?;
        let start = self.desk.clock.enter(Phase::Compute);
        let loss = model.descend(descent, block);
        self.desk.dawdle(start);
        Ok(Some(loss))
    }

    /// The mean loss of a batch and its gradient, block by block, so that the values of a block
    /// are read, used and forgotten while they are in the cache.
    #[inline]
    fn gradient(
        &mut self,
        examples: usize,
        params: &[f32],
        grad: &mut [f32],
    ) -> Result<f32, Failure> {
        let share = 1.0 / examples as f32;
        let (mut loss, mut onto, mut left) = (0.0, Onto::Zero, examples);
        while left > 0 {
            self.desk.clock.enter(Phase::Input);
            let block = self.examples.block(self.model.max_block())?;
            left -= block.len();
            let start = self.desk.clock.enter(Phase::Compute);
            loss += self.model.gradient(params, block, share, onto, grad);
            onto = Onto::Present;
            self.desk.dawdle(start);
        }
        Ok(loss)
    }
}

/// A loss that is not a number ends the run: nothing that comes after it could be of use.
fn diverged(step: u64, loss: f32) -> Failure {
    Failure::Training(format!(
        "the loss became {loss} at step {step}: training diverged; \
         try a smaller train.optimizer.rate"
    ))
}
