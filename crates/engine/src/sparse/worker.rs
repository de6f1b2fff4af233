//! The training loop of a sparse model.
//!
//! It is the loop of `dense_worker.rs` with batches prepared ahead: a push names the keys of a
//! later batch, so that batch must have been read, and its keys deduplicated, before. That happens
//! while the last push travels. Where the mode allows it ([`SparseLink::overlaps`]) the values of
//! the next batch travel while the current one is computed.

use paceline_data::{BatchPlan, SparseBuffer, SparseRows};
use paceline_model::{Batch, Compactor, Layout, Rows, SparseModel};
use paceline_observe::Phase;

use crate::coordinator::Coordinator;
use crate::error::{Interruption, TrainError};
use crate::gradient::{BlockSource, batch_gradient};
use crate::link::{PushOutcome, SparseLink, SparsePush};
use crate::step_recorder::{StepMade, StepRecorder, WorkDone};
use crate::trainer::Trainer;

/// A worker of a sparse model.
pub(crate) struct SparseWorker<'a> {
    slot: usize,
    plan: BatchPlan,
    rows: &'a SparseRows,
    model: Box<dyn SparseModel>,
    account: StepRecorder,
    /// The batch to compute now, and those after it.
    queue: Vec<PreparedBatch>,
    indices: Vec<u32>,
    grad: Vec<f32>,
}

/// A batch that has been read and whose keys are known.
#[derive(Default)]
struct PreparedBatch {
    step: u64,
    rows: SparseBuffer,
    compactor: Compactor,
    /// Examples already handed out.
    done: usize,
}

impl PreparedBatch {
    fn len(&self) -> usize {
        self.rows.labels.len()
    }

    fn keys(&self) -> &[u32] {
        if self.len() == 0 { &[] } else { self.compactor.keys() }
    }
}

impl BlockSource for PreparedBatch {
    fn next_block(&mut self, most: usize) -> Result<Batch<'_>, TrainError> {
        let from = self.done;
        self.done = (from + most).min(self.len());
        let rows = Rows {
            starts: &self.rows.starts[from..=self.done],
            places: self.compactor.places(),
            values: &self.rows.values,
        };
        Ok(Batch::sparse(rows, &self.rows.labels[from..self.done]))
    }
}

impl<'a> SparseWorker<'a> {
    /// A worker for a slot of a plan over `rows`.
    pub(crate) fn new(
        slot: usize,
        plan: BatchPlan,
        rows: &'a SparseRows,
        model: Box<dyn SparseModel>,
        account: StepRecorder,
    ) -> Self {
        let (queue, indices, grad) = Default::default();
        Self { slot, plan, rows, model, account, queue, indices, grad }
    }

    /// Reads the batch of `step` into a place of the queue.
    fn prepare(&mut self, place: usize, step: u64, link: &impl SparseLink) {
        self.account.clock.stay_in(Phase::Input);
        self.plan.batch(step, self.slot, &mut self.indices);
        let batch = &mut self.queue[place];
        (batch.step, batch.done) = (step, 0);
        batch.rows.fill(self.rows, self.indices.iter().map(|&row| row as usize));
        let shared = self.model.shared_keys();
        let (keys, prefetch) = (&batch.rows.keys, |key| link.prefetch(key));
        if link.wants_sorted() {
            batch.compactor.compact_with(keys, shared, prefetch);
        } else {
            batch.compactor.compact_unsorted(keys, shared, prefetch);
        }
    }

    /// Starts at `step`: reads its batch and those after it, and fetches its values.
    fn begin(&mut self, step: u64, link: &mut impl SparseLink) -> Result<(), Interruption> {
        let overlaps = link.overlaps();
        self.queue.resize_with(if overlaps { 3 } else { 2 }, PreparedBatch::default);
        for place in 0..self.queue.len() {
            self.prepare(place, step + place as u64, link);
        }
        let clock = &mut self.account.clock;
        link.begin(step, self.queue[0].keys(), clock)?;
        if overlaps {
            link.begin_next(self.queue[1].keys(), clock)?;
        }
        Ok(())
    }

    /// Pushes the gradient of the first batch, and prepares a further one while it travels.
    fn push(&mut self, link: &mut impl SparseLink) -> Result<(), Interruption> {
        let (overlaps, last) = (link.overlaps(), self.queue.len() - 1);
        if overlaps {
            link.wait_for_values(&mut self.account.clock)?;
        }
        let (batch, next) = (&self.queue[0], self.queue[last].keys());
        let (step, examples, keys) = (batch.step, batch.len(), batch.keys());
        let push = SparsePush { step, examples, keys, grad: &self.grad, next };
        link.push(push, &mut self.account.clock)?;
        let after_last = self.queue[last].step + 1;
        self.queue.rotate_left(1);
        self.prepare(last, after_last, link);
        if !overlaps {
            let outcome = link.wait_for_values(&mut self.account.clock)?;
            self.account.work.dropped += u64::from(outcome == PushOutcome::Dropped);
        }
        Ok(())
    }
}

impl<L: SparseLink> Trainer<L> for SparseWorker<'_> {
    fn run(
        &mut self,
        link: &mut L,
        mut coordinator: Option<&mut Coordinator<'_>>,
    ) -> Result<WorkDone, Interruption> {
        self.begin(link.next_step(), link)?;
        // A worker that takes over a slot may find the run at its end.
        if link.is_stopping() || link.is_recalled() {
            return Ok(self.account.work);
        }
        loop {
            let examples = self.queue[0].len();
            if examples == 0 {
                link.wait_for_values(&mut self.account.clock)?;
                return Ok(self.account.work.at_end_of_plan());
            }
            self.account.begin_step(self.queue[0].step)?;
            let step = link.global_step();
            let values = link.values();
            self.grad.resize(values.len(), 0.0);
            let (model, batch) = (&mut *self.model, &mut self.queue[0]);
            let (grad, account) = (&mut self.grad, &mut self.account);
            let loss = batch_gradient(model, batch, examples, values, grad, account)?;
            let now = self.account.clock.enter(Phase::Push);
            self.push(link)?;

            self.account.work.steps += 1;
            self.account.work.examples += examples as u64;
            let made = StepMade { step, loss, now };
            self.account.after_step(made, link, coordinator.as_deref_mut())?;
            if link.is_stopping() || link.is_recalled() {
                link.wait_for_values(&mut self.account.clock)?;
                return Ok(self.account.work);
            }
            if link.next_step() != self.queue[0].step {
                // The other workers completed the step without this worker's gradient.
                self.begin(link.next_step(), link)?;
            }
        }
    }

    fn account(&mut self) -> &mut StepRecorder {
        &mut self.account
    }

    fn layout(&self) -> &Layout {
        self.model.layout()
    }
}
