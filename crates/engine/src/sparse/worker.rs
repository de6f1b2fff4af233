//! The training loop of a sparse model.
//!
//! It is the loop of `dense_worker.rs` with batches prepared ahead: a push names the keys of a
//! later batch, so that batch must have been read, and its keys deduplicated, before. That happens
//! while the last push travels. Where the mode allows it ([`SparseLink::overlaps`]) the values of
//! the next batch travel while the current one is computed.

use paceline_data::random::mix;
use paceline_data::{BatchPlan, BatchWeights, SparseBuffer, SparseRows};
use paceline_model::{Batch, Compactor, Layout, Rows, SparseModel};
use paceline_net::LinkOutcome::{self, Done, Rewound};
use paceline_observe::Phase;

use super::loop_config::SparseLoopConfig;
use crate::coordinator::Coordinator;
use crate::error::TrainError;
use crate::gradient::{BlockSource, batch_gradient};
use crate::link::{PushOutcome, SparseLink, SparsePush};
use crate::step_recorder::{StepMade, StepRecorder, WorkDone};
use crate::trainer::Trainer;

/// A worker of a sparse model.
pub(crate) struct SparseWorker<'a> {
    slot: usize,
    plan: BatchPlan,
    /// Added to an example's position to seed the model's random choices.
    draw: u64,
    rows: &'a SparseRows,
    model: Box<dyn SparseModel>,
    step_recorder: StepRecorder,
    /// The batch to compute now, and those after it.
    queue: Vec<PreparedBatch>,
    weights: BatchWeights,
    indices: Vec<u32>,
    grad: Vec<f32>,
}

/// A batch that has been read and whose keys are known.
#[derive(Default)]
struct PreparedBatch {
    step: u64,
    rows: SparseBuffer,
    compactor: Compactor,
    weights: BatchWeights,
    /// Seeds the model's random choices for the first example.
    draw: u64,
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
        let (labels, own) = (&self.rows.labels[from..self.done], &self.rows.weights);
        let own = if own.is_empty() { &[] } else { &own[from..self.done] };
        let batch = Batch::sparse(rows, labels).with_fields(&self.rows.fields);
        let draw = self.draw.wrapping_add(from as u64);
        Ok(Batch { draw, ..batch.weighted(self.weights.of(labels, own)) })
    }
}

impl<'a> SparseWorker<'a> {
    /// A worker that starts with this.
    pub(crate) fn new(config: SparseLoopConfig<'a>) -> Self {
        let SparseLoopConfig { slot, plan, rows, model, step_recorder, weights, seed } = config;
        let (draw, (queue, indices, grad)) = (mix(seed), Default::default());
        Self { slot, plan, draw, rows, model, step_recorder, queue, weights, indices, grad }
    }

    /// Reads the batch of `step` into a place of the queue.
    fn prepare(&mut self, place: usize, step: u64, link: &impl SparseLink) {
        self.step_recorder.clock.stay_in(Phase::Input);
        self.plan.batch(step, self.slot, &mut self.indices);
        let batch = &mut self.queue[place];
        (batch.step, batch.done) = (step, 0);
        let position = self.plan.positions(step, self.slot).start;
        batch.draw = self.draw.wrapping_add(position);
        batch.rows.fill(self.rows, self.indices.iter().map(|&row| row as usize));
        link.compact(&mut batch.compactor, &batch.rows.keys, self.model.shared_keys());
    }

    /// Starts at `step`: reads its batch and those after it, and fetches its values.
    fn begin(&mut self, step: u64, link: &mut impl SparseLink) -> Result<LinkOutcome, TrainError> {
        let overlaps = link.overlaps();
        let empty = || PreparedBatch { weights: self.weights.clone(), ..PreparedBatch::default() };
        self.queue.resize_with(if overlaps { 3 } else { 2 }, empty);
        for place in 0..self.queue.len() {
            self.prepare(place, step + place as u64, link);
        }
        let clock = &mut self.step_recorder.clock;
        let begun = link.begin(step, self.queue[0].keys(), clock)?;
        if !overlaps || begun == Rewound {
            return Ok(begun);
        }
        link.begin_next(self.queue[1].keys(), clock)
    }

    /// Pushes the gradient of the first batch, and prepares a further one while it travels.
    fn push(&mut self, link: &mut impl SparseLink) -> Result<LinkOutcome, TrainError> {
        let (overlaps, last) = (link.overlaps(), self.queue.len() - 1);
        if overlaps && link.wait_for_values(&mut self.step_recorder.clock)? == Rewound {
            return Ok(Rewound);
        }
        let (batch, next) = (&self.queue[0], self.queue[last].keys());
        let (step, examples, keys) = (batch.step, batch.len(), batch.keys());
        let push = SparsePush { step, examples, keys, grad: &self.grad, next };
        let Done(()) = link.push(push, &mut self.step_recorder.clock)? else { return Ok(Rewound) };
        let after_last = self.queue[last].step + 1;
        self.queue.rotate_left(1);
        self.prepare(last, after_last, link);
        if !overlaps {
            let waited = link.wait_for_values(&mut self.step_recorder.clock)?;
            let Done(outcome) = waited else { return Ok(Rewound) };
            self.step_recorder.work.dropped += u64::from(outcome == PushOutcome::Dropped);
        }
        Ok(Done(()))
    }
}

impl<L: SparseLink> Trainer<L> for SparseWorker<'_> {
    fn run(
        &mut self,
        link: &mut L,
        mut coordinator: Option<&mut Coordinator<'_>>,
    ) -> Result<LinkOutcome<WorkDone>, TrainError> {
        if link.already_left() {
            return Ok(Done(WorkDone::default()));
        }
        let Done(()) = self.begin(link.next_step(), link)? else { return Ok(Rewound) };
        // A worker that takes over a slot may find the run at its end.
        if link.is_stopping() || link.is_recalled() {
            return Ok(Done(self.step_recorder.work));
        }
        loop {
            let examples = self.queue[0].len();
            if examples == 0 {
                let waited = link.wait_for_values(&mut self.step_recorder.clock)?;
                let Done(_) = waited else { return Ok(Rewound) };
                return Ok(Done(self.step_recorder.work.at_end_of_plan()));
            }
            self.step_recorder.begin_step(self.queue[0].step)?;
            let step = link.global_step();
            let values = link.values();
            self.grad.resize(values.len(), 0.0);
            let (model, batch) = (&mut *self.model, &mut self.queue[0]);
            let (grad, step_recorder) = (&mut self.grad, &mut self.step_recorder);
            // The step of a sparse model is short: it is not abandoned.
            let loss =
                batch_gradient(model, batch, examples, values, grad, step_recorder, || false)?;
            let loss = loss.unwrap_or_default();
            step_recorder.divergence.check_finite(step, loss)?;
            if step_recorder.wants_tensors(step) {
                step_recorder.record_touched(step, values, Some(grad))?;
            }
            let now = self.step_recorder.clock.enter(Phase::Push);
            self.step_recorder.work.touched.add(self.queue[0].keys().len(), self.grad.len());
            let Done(()) = self.push(link)? else { return Ok(Rewound) };
            let made = StepMade { step, examples, loss, now };
            let recorded = self.step_recorder.after_step(made, link, coordinator.as_deref_mut())?;
            let Done(()) = recorded else { return Ok(Rewound) };
            if link.is_stopping() || link.is_recalled() {
                let waited = link.wait_for_values(&mut self.step_recorder.clock)?;
                let Done(_) = waited else { return Ok(Rewound) };
                return Ok(Done(self.step_recorder.work));
            }
            if link.next_step() != self.queue[0].step {
                // The other workers completed the step without this worker's gradient.
                let Done(()) = self.begin(link.next_step(), link)? else { return Ok(Rewound) };
            }
        }
    }

    fn step_recorder(&mut self) -> &mut StepRecorder {
        &mut self.step_recorder
    }

    fn layout(&self) -> &Layout {
        self.model.layout()
    }
}
