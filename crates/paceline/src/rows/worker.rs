//! The loop of a sparse model.
//!
//! It is the loop of `worker.rs`, with batches prepared ahead: a push names the keys of a batch
//! to come, so that batch must have been read, and its keys made unique, before. That is done
//! while the last push is on its way. Where the mode allows it ([`RowLink::overlaps`]) the values
//! of the next batch travel while the present one is computed.

use paceline_data::{BatchPlan, SparseBuffer, SparseRows};
use paceline_model::{Batch, Compactor, Layout, OutputMode, Rows, SparseModel, StepEvent};
use paceline_observe::Phase;

use crate::Failure;
use crate::chief::{Chief, StopReason};
use crate::link::{Pushed, RowLink, RowPush};
use crate::trace::record_step_event;
use crate::worker::{Desk, Trainer, Work};

/// A worker of a sparse model.
pub struct RowWorker<'a> {
    slot: usize,
    plan: BatchPlan,
    rows: &'a SparseRows,
    model: Box<dyn SparseModel>,
    desk: Desk,
    /// The batch to compute now, and those after it.
    queue: Vec<Prepared>,
    indices: Vec<u32>,
    grad: Vec<f32>,
}

/// A batch that has been read and whose keys are known.
#[derive(Default)]
struct Prepared {
    step: u64,
    rows: SparseBuffer,
    compactor: Compactor,
}

impl Prepared {
    fn len(&self) -> usize {
        self.rows.labels.len()
    }

    fn keys(&self) -> &[u32] {
        if self.len() == 0 { &[] } else { self.compactor.keys() }
    }
}

impl<'a> RowWorker<'a> {
    /// A worker for a slot of a plan over these rows.
    pub fn new(
        slot: usize,
        plan: BatchPlan,
        rows: &'a SparseRows,
        model: Box<dyn SparseModel>,
        desk: Desk,
    ) -> Self {
        Self {
            slot,
            plan,
            rows,
            model,
            desk,
            queue: Vec::new(),
            indices: Vec::new(),
            grad: Vec::new(),
        }
    }

    /// Reads the batch of a step into a place of the queue.
    fn prepare(&mut self, place: usize, step: u64, link: &impl RowLink) {
        self.desk.clock.stay_in(Phase::Input);
        self.plan.batch(step, self.slot, &mut self.indices);
        let batch = &mut self.queue[place];
        batch.step = step;
        batch.rows.fill(self.rows, self.indices.iter().map(|&row| row as usize));
        let shared = self.model.shared_keys();
        let (keys, foresee) = (&batch.rows.keys, |key| link.foresee(key));
        match link.wants_sorted() {
            true => batch.compactor.compact_with(keys, shared, foresee),
            false => batch.compactor.compact_unsorted(keys, shared, foresee),
        }
    }

    /// Begins at a step: reads it and those after it, and fetches its values.
    fn begin(&mut self, step: u64, link: &mut impl RowLink) -> Result<(), Failure> {
        let overlaps = link.overlaps();
        self.queue.resize_with(if overlaps { 3 } else { 2 }, Prepared::default);
        for place in 0..self.queue.len() {
            self.prepare(place, step + place as u64, link);
        }
        let clock = &mut self.desk.clock;
        link.begin(step, self.queue[0].keys(), clock)?;
        if overlaps {
            link.ahead(self.queue[1].keys(), clock)?;
        }
        Ok(())
    }

    /// The mean loss of the present batch, and its gradient.
    fn gradient(&mut self, values: &[f32]) -> f32 {
        let start = self.desk.begin_compute();
        let Prepared { rows, compactor, .. } = &self.queue[0];
        let (share, most) = (1.0 / rows.labels.len() as f32, self.model.max_block());
        self.grad.resize(values.len(), 0.0);
        let (mut loss, mut mode) = (0.0, OutputMode::Overwrite);
        for from in (0..rows.labels.len()).step_by(most) {
            let to = (from + most).min(rows.labels.len());
            let block = Rows {
                starts: &rows.starts[from..=to],
                places: compactor.places(),
                values: &rows.values,
            };
            let block = Batch::sparse(block, &rows.labels[from..to]);
            loss += match self.desk.clock.track() {
                None => self.model.gradient(values, block, share, mode, &mut self.grad),
                Some(track) => {
                    track.begin_row();
                    let observe = &mut |event: StepEvent<'_>| record_step_event(track, &event);
                    self.model.gradient_observed(
                        values,
                        block,
                        share,
                        mode,
                        &mut self.grad,
                        observe,
                    )
                }
            };
            mode = OutputMode::Add;
        }
        self.desk.dawdle(start);
        loss
    }
}

impl<L: RowLink> Trainer<L> for RowWorker<'_> {
    fn run(&mut self, link: &mut L, mut chief: Option<&mut Chief<'_>>) -> Result<Work, Failure> {
        self.begin(link.next_step(), link)?;
        let (overlaps, last) = (link.overlaps(), self.queue.len() - 1);
        // Who takes a slot over may find the run at its end.
        if link.is_stopping() || link.is_called_back() {
            return Ok(self.desk.work);
        }
        loop {
            let examples = self.queue[0].len();
            if examples == 0 {
                link.arrive(&mut self.desk.clock)?;
                return Ok(Work { reason: Some(StopReason::Epochs), ..self.desk.work });
            }
            self.desk.at_step(self.queue[0].step);
            let step = link.global_step();
            let loss = self.gradient(link.values());
            let now = self.desk.clock.enter(Phase::Push);
            if overlaps {
                link.arrive(&mut self.desk.clock)?;
            }
            let (batch, next) = (&self.queue[0], self.queue[last].keys());
            let (grad, keys) = (&self.grad[..], batch.keys());
            let push = RowPush { step: batch.step, examples, keys, grad, next };
            link.push(push, &mut self.desk.clock)?;
            let after_last = self.queue[last].step + 1;
            self.queue.rotate_left(1);
            self.prepare(last, after_last, link);
            if !overlaps {
                let pushed = link.arrive(&mut self.desk.clock)?;
                self.desk.work.dropped += u64::from(pushed == Pushed::Dropped);
            }

            self.desk.work.steps += 1;
            self.desk.work.examples += examples as u64;
            self.desk.after_step((step, loss, now), link, chief.as_deref_mut())?;
            if link.is_stopping() || link.is_called_back() {
                link.arrive(&mut self.desk.clock)?;
                return Ok(self.desk.work);
            }
            if link.next_step() != self.queue[0].step {
                // The others went on without this worker's gradient.
                self.begin(link.next_step(), link)?;
            }
        }
    }

    fn desk(&mut self) -> &mut Desk {
        &mut self.desk
    }

    fn layout(&self) -> &Layout {
        self.model.layout()
    }
}
