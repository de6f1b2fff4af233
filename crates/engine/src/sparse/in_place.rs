//! The training loop of a sparse model that steps where its parameters live: mode `single` with
//! plain SGD.
//!
//! A step waits for memory more than for arithmetic, so everything is prefetched some rows ahead:
//! first a row's place, then its keys, then the parameters of the keys. The prefetch runs into the
//! next batch, so that batch is decoded one step ahead: a row of it with each row of the current
//! one, while that row waits for memory.

use paceline_data::{BatchPlan, BatchWeights, SparseBuffer, SparseRows};
use paceline_model::{KeysAhead, Layout, Row, RowDescent, SparseModel, StepEvent};
use paceline_observe::Phase;

use super::loop_config::SparseLoopConfig;
use super::table_link::TableLink;
use super::table_loop::TableWorker;
use crate::error::TrainError;
use crate::loop_trace::record_event;
use crate::step_recorder::{StepMade, StepRecorder};

/// How many rows ahead parameters are prefetched.
const AHEAD: usize = 8;

/// A worker of a sparse model whose parameters are in its own process.
pub(crate) struct InPlaceWorker<'a> {
    slot: usize,
    plan: BatchPlan,
    rows: &'a SparseRows,
    model: Box<dyn SparseModel>,
    step_recorder: StepRecorder,
    weights: BatchWeights,
    descent: RowDescent,
    /// The rows of the current batch, and those of the next.
    batch: SparseBuffer,
    next: SparseBuffer,
    /// Where the rows of the next batch lie in their store.
    places: Vec<u32>,
}

impl<'a> InPlaceWorker<'a> {
    /// A worker that starts with this.
    pub(crate) fn new(config: SparseLoopConfig<'a>) -> Self {
        let SparseLoopConfig { slot, plan, rows, model, step_recorder, weights, .. } = config;
        let descent = RowDescent::new(model.max_block());
        let (batch, next, places) = Default::default();
        Self { slot, plan, rows, model, step_recorder, weights, descent, batch, next, places }
    }

    /// Begins to read the rows of the batch of `step`.
    fn begin_next(&mut self, step: u64) {
        self.plan.batch(step, self.slot, &mut self.places);
        self.rows.locate_all(&mut self.places);
        self.next.begin(self.rows, &self.places);
    }

    /// Records the parameters that a batch touches. Their gradient is never a whole here.
    #[cold]
    fn record_touched(&mut self, step: u64, link: &TableLink<'_>) -> Result<(), TrainError> {
        let mut keys = self.batch.keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        let mut values = vec![0.0; keys.len()];
        link.table().read(&keys, &mut values);
        self.step_recorder.record_touched(step, &values, None)
    }

    /// The mean loss of the batch; the table receives its gradient.
    fn gradient(&mut self, link: &TableLink<'_>) -> f32 {
        let start = self.step_recorder.begin_compute();
        let (batch, next) = (&self.batch, &mut self.next);
        let ahead = ReadAhead { rows: self.rows, batch, next, at: AHEAD };
        if let Some(track) = self.step_recorder.clock.track() {
            track.begin_row();
        }
        let Some(score_loss) = self.model.score_loss() else {
            unreachable!("only linear models step in place")
        };
        let batch = rows_of(&self.batch, &self.weights);
        let loss = self.descent.gradient(score_loss, link.table(), batch, ahead);
        if let Some(track) = self.step_recorder.clock.track() {
            record_event(track, &StepEvent::Forward { layer: 0 });
        }
        self.step_recorder.slow_down(start);
        loss
    }
}

/// Reads a row of the next batch with each row of the current one.
struct ReadAhead<'a> {
    rows: &'a SparseRows,
    batch: &'a SparseBuffer,
    next: &'a mut SparseBuffer,
    /// The row whose keys are asked for, counted from the start of the batch.
    at: usize,
}

impl KeysAhead for ReadAhead<'_> {
    #[inline]
    fn for_next_row(&mut self, prefetch: impl FnMut(u32)) {
        self.next.read_next(self.rows);
        let at = self.at;
        self.at += 1;
        if at < self.batch.len() {
            return self.batch.row_keys(at).iter().copied().for_each(prefetch);
        }
        // A batch of less than AHEAD rows needs rows of the next one earlier.
        let in_next = at - self.batch.len();
        while self.next.len() <= in_next {
            if !self.next.read_next(self.rows) {
                return;
            }
        }
        self.next.row_keys(in_next).iter().copied().for_each(prefetch);
    }
}

/// The rows of a batch.
fn rows_of<'a>(
    batch: &'a SparseBuffer,
    weights: &'a BatchWeights,
) -> impl ExactSizeIterator<Item = Row<'a>> {
    (0..batch.len()).map(|row| {
        let range = batch.starts[row] as usize..batch.starts[row + 1] as usize;
        let values = if batch.values.is_empty() { &[][..] } else { &batch.values[range.clone()] };
        let label = batch.labels[row];
        let weight = weights.of_one(label, batch.weights.get(row).copied());
        Row { label, weight, keys: &batch.keys[range], values, fields: &[] }
    })
}

impl<'t> TableWorker<'t> for InPlaceWorker<'_> {
    fn begin(&mut self, step: u64, _link: &TableLink<'t>) {
        self.begin_next(step);
    }

    #[inline(always)]
    fn next_batch(&mut self, step: u64, _link: &TableLink<'t>) -> usize {
        self.step_recorder.clock.stay_in(Phase::Input);
        while self.next.read_next(self.rows) {}
        std::mem::swap(&mut self.batch, &mut self.next);
        self.begin_next(step + 1);
        self.batch.len()
    }

    #[inline(always)]
    fn make_step(&mut self, step: u64, link: &mut TableLink<'t>) -> Result<StepMade, TrainError> {
        if self.step_recorder.wants_tensors(step) {
            self.record_touched(step, link)?;
        }
        let loss = self.gradient(link);
        let now = self.step_recorder.clock.enter(Phase::Push);
        let rows = rows_of(&self.batch, &self.weights);
        self.descent.update(link.table(), link.begin_update(), rows);
        link.end_update(&mut self.step_recorder.clock);
        self.step_recorder.work.touched.add(self.batch.keys.len(), self.batch.keys.len());
        Ok(StepMade { step, examples: self.batch.len(), loss, now })
    }

    fn recording(&mut self) -> &mut StepRecorder {
        &mut self.step_recorder
    }

    fn model_layout(&self) -> &Layout {
        self.model.layout()
    }
}
