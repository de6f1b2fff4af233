//! Where a worker's parameters live, seen from the worker.
//!
//! What every way to the parameters has in common is a [`Link`]. The loop of a dense model needs
//! a [`DenseLink`], that of a sparse one a [`RowLink`], which is asked for parameters by key.

use paceline_exchange::{ChunkMarks, SlotMark};
use paceline_model::{Descent, Model, OptimizerSpec, OptimizerState};
use paceline_observe::PhaseClock;

use crate::Failure;
use crate::checkpoint::keeper::copy_dense;
use crate::checkpoint::{Keeper, Resumption};
use crate::trace::APPLY_OP;

/// A worker's way to the parameters.
pub trait Link {
    /// The step of the plan whose batch is to be computed next.
    fn next_step(&self) -> u64;

    /// Whether the run is over, so that nothing more is to be pushed.
    fn is_stopping(&self) -> bool;

    /// Whether this worker is to give its slot back, between two steps.
    fn is_called_back(&self) -> bool {
        false
    }

    /// How many updates have been made, as far as this worker knows.
    fn global_step(&self) -> u64;

    /// Tells of each other task the bytes sent to and received from it so far, by its number.
    fn moved_by_peer(&self, _tell: impl FnMut(usize, u64, u64)) {}

    /// Bytes sent to and received from other tasks so far.
    fn moved_bytes(&self) -> (u64, u64) {
        let (mut sent_bytes, mut received_bytes) = (0, 0);
        self.moved_by_peer(|_, sent, received| {
            sent_bytes += sent;
            received_bytes += received;
        });
        (sent_bytes, received_bytes)
    }

    /// Asks everybody to stop; only the chief does.
    fn ask_to_stop(&mut self, reason: &str) -> Result<(), Failure>;

    /// The step that a checkpoint would be of which is asked for now.
    fn checkpoint_step(&self) -> u64 {
        self.global_step()
    }

    /// Has a checkpoint of that step taken, if checkpoints are taken. The last one of a run waits
    /// for the one before it.
    fn checkpoint(&mut self, step: u64, is_last: bool) -> Result<(), Failure>;

    /// Parameters to look at, for a test: those of these keys, or all.
    fn look(&mut self, keys: Option<&[u32]>) -> Result<&[f32], Failure>;

    /// Shows all parameters in their order, piece by piece, so that a large model need not be
    /// in memory twice.
    fn show_all(&mut self, show: &mut Show<'_>) -> Result<(), Failure>;
}

/// Somebody who is shown parameters, piece by piece.
pub type Show<'a> = dyn FnMut(&[f32]) -> Result<(), Failure> + 'a;

/// The way to the parameters of a dense model: pull them, compute, push the gradient.
///
/// A push also fetches what the next pull gives, so that a step takes one round trip; the link
/// tells the clock what that time goes to.
pub trait DenseLink: Link {
    /// The parameters to compute the next gradient with.
    fn params(&self) -> &[f32];

    /// Hands over the gradient of that batch, which had so many examples.
    fn push(
        &mut self,
        examples: usize,
        grad: &[f32],
        clock: &mut PhaseClock,
    ) -> Result<Pushed, Failure>;

    /// Lends the parameters and their optimizer for the next step, if they are here and nobody
    /// else's. Whoever takes them makes that step, in place of a push: it counts as made.
    fn lend(&mut self) -> Option<Descent<'_>> {
        None
    }
}

/// The way to the parameters of a sparse model: name the keys that a batch touches, get their
/// values, hand over their gradient with the keys of a batch to come.
pub trait RowLink: Link {
    /// Whether the values of the next batch come while the present one is computed. Then a push
    /// names the keys of the batch after the next one, else those of the next one.
    fn overlaps(&self) -> bool;

    /// Whether keys must come sorted, as they must to be sent.
    fn wants_sorted(&self) -> bool {
        true
    }

    /// A parameter of this key will be asked for soon.
    fn foresee(&self, _key: u32) {}

    /// Fetches the values of the batch of this step, whatever was asked for before.
    fn begin(&mut self, step: u64, keys: &[u32], clock: &mut PhaseClock) -> Result<(), Failure>;

    /// If it overlaps: fetches the values of the batch after that too.
    fn ahead(&mut self, keys: &[u32], clock: &mut PhaseClock) -> Result<(), Failure>;

    /// The values of the batch to compute now, in the order of its keys.
    fn values(&self) -> &[f32];

    /// Hands over a gradient, and asks for the values of a batch to come.
    fn push(&mut self, push: RowPush<'_>, clock: &mut PhaseClock) -> Result<(), Failure>;

    /// Waits for the values that the last push asked for, if they are not here yet, and tells
    /// what became of its gradient.
    fn arrive(&mut self, clock: &mut PhaseClock) -> Result<Pushed, Failure>;
}

/// The gradient of a batch of sparse rows.
#[derive(Clone, Copy, Debug)]
pub struct RowPush<'a> {
    /// The step of the plan that the batch belongs to.
    pub step: u64,
    /// How many examples it had.
    pub examples: usize,
    /// What it touches.
    pub keys: &'a [u32],
    /// The gradient of those.
    pub grad: &'a [f32],
    /// The keys whose values are wanted next.
    pub next: &'a [u32],
}

/// What became of a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It was used.
    Applied,
    /// It came too late and was not used.
    Dropped,
}

/// Parameters that live in this process: mode `single`.
pub struct Local {
    params: Vec<f32>,
    optimizer: OptimizerState,
    global_step: u64,
    stopping: bool,
    keeper: Option<Keeper>,
}

impl Local {
    /// Parameters at the model's start.
    pub fn new(model: &dyn Model, seed: u64, optimizer: OptimizerSpec) -> Self {
        let mut params = vec![0.0; model.layout().len()];
        model.initialise(seed, &mut params);
        let optimizer = OptimizerState::new(optimizer, model.layout(), 0..params.len());
        Self { params, optimizer, global_step: 0, stopping: false, keeper: None }
    }

    /// Parameters as they were at a checkpoint.
    pub fn resume(
        model: &dyn Model,
        optimizer: OptimizerSpec,
        from: &Resumption,
    ) -> Result<Self, Failure> {
        let layout = model.layout();
        let (params, optimizer) = from.dense(layout, optimizer, 0..layout.len())?;
        let global_step = from.step();
        Ok(Self { params, optimizer, global_step, stopping: false, keeper: None })
    }

    /// From now on this keeper takes checkpoints.
    pub fn keep(&mut self, keeper: Option<Keeper>) {
        self.keeper = keeper;
    }
}

impl Link for Local {
    fn next_step(&self) -> u64 {
        self.global_step
    }

    fn is_stopping(&self) -> bool {
        self.stopping
    }

    fn global_step(&self) -> u64 {
        self.global_step
    }

    fn ask_to_stop(&mut self, _reason: &str) -> Result<(), Failure> {
        self.stopping = true;
        Ok(())
    }

    fn checkpoint(&mut self, step: u64, is_last: bool) -> Result<(), Failure> {
        if let Some(keeper) = &mut self.keeper {
            let mark = SlotMark { last_sequence: step, step: step.saturating_sub(1) };
            let marks = vec![ChunkMarks { version: step, slots: vec![mark] }];
            let slots = self.optimizer.states().map(|(_, slot)| slot);
            keeper.take(step, marks, is_last, |out| copy_dense(&self.params, slots, out));
        }
        Ok(())
    }

    fn look(&mut self, _keys: Option<&[u32]>) -> Result<&[f32], Failure> {
        Ok(&self.params)
    }

    fn show_all(&mut self, show: &mut Show<'_>) -> Result<(), Failure> {
        show(&self.params)
    }
}

impl DenseLink for Local {
    fn params(&self) -> &[f32] {
        &self.params
    }

    fn push(&mut self, _: usize, grad: &[f32], clock: &mut PhaseClock) -> Result<Pushed, Failure> {
        self.optimizer.apply(self.global_step, 0, &mut self.params, grad);
        clock.did(APPLY_OP);
        self.global_step += 1;
        Ok(Pushed::Applied)
    }

    fn lend(&mut self) -> Option<Descent<'_>> {
        let step = self.global_step;
        self.global_step += 1;
        Some(Descent { params: &mut self.params, optimizer: &mut self.optimizer, step })
    }
}
