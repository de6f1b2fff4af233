//! The training loop of a model with wide entries whose table is in its own process.
//!
//! A batch of a field-aware machine has a thousand entries of a kilobyte each. Copies of all of
//! them and of their gradient would push the table itself out of the cache. Most keys of a batch
//! occur in one row of it, so their entries are read, computed with and updated together with their
//! row, in memory that the next row uses again. No other row reads them, so the bits are those of a
//! step that updates everything at its end.

use paceline_data::{BatchPlan, BatchWeights, SparseBuffer, SparseRows};
use paceline_model::{
    Batch, BlockColumns, Compactor, EntryTable, Layout, OutputMode, RowLayout, Rows, SparseModel,
    StepEvent,
};
use paceline_observe::Phase;

use super::loop_config::SparseLoopConfig;
use super::new_table::check_room;
use super::table_link::TableLink;
use super::table_loop::TableWorker;
use crate::error::TrainError;
use crate::link::SparseLink;
use crate::loop_trace::record_event;
use crate::step_recorder::{StepMade, StepRecorder};

/// A worker that updates entries row by row where it can.
pub(crate) struct RowByRowWorker<'a> {
    slot: usize,
    plan: BatchPlan,
    rows: &'a SparseRows,
    model: Box<dyn SparseModel>,
    step_recorder: StepRecorder,
    weights: BatchWeights,
    /// The batch to compute now, and the next one.
    batch: KeyedBatch,
    next: KeyedBatch,
    layout: RowLayout,
    indices: Vec<u32>,
    values: Vec<f32>,
    grad: Vec<f32>,
    columns: Box<BlockColumns>,
}

/// A batch that has been read and whose unique keys are known.
#[derive(Default)]
struct KeyedBatch {
    rows: SparseBuffer,
    compactor: Compactor,
}

/// Whether a model is trained row by row: the gradient of a row says all there is to know about a
/// key that no other row has, and entries are large.
pub(crate) fn is_row_by_row(model: &dyn SparseModel) -> bool {
    /// Narrower entries cost less to copy than to tell apart.
    const WIDE: usize = 64;
    model.adds_row_by_row() && model.layout().width() >= WIDE
}

impl<'a> RowByRowWorker<'a> {
    /// A worker that starts with this.
    pub(crate) fn new(config: SparseLoopConfig<'a>) -> Self {
        let SparseLoopConfig { slot, plan, rows, model, step_recorder, weights, .. } = config;
        let (batch, next, layout, indices, values, grad, columns) = Default::default();
        Self {
            slot,
            plan,
            rows,
            model,
            step_recorder,
            weights,
            batch,
            next,
            layout,
            indices,
            values,
            grad,
            columns,
        }
    }

    /// Reads the batch of `step`, to be computed next.
    fn prepare_next(&mut self, step: u64, link: &TableLink<'_>) {
        self.step_recorder.clock.stay_in(Phase::Input);
        self.plan.batch(step, self.slot, &mut self.indices);
        let KeyedBatch { rows, compactor } = &mut self.next;
        rows.fill(self.rows, self.indices.iter().map(|&row| row as usize));
        link.compact(compactor, &rows.keys, self.model.shared_keys());
    }

    /// Reads the entries that several rows of the batch have.
    fn read_shared(&mut self, link: &TableLink<'_>, is_whole: bool) {
        self.step_recorder.clock.stay_in(Phase::Pull);
        let (rows, width) = (&self.batch.rows, self.model.layout().width());
        self.layout.arrange(&rows.starts, &rows.keys, &self.batch.compactor, is_whole);
        let own = self.layout.most_own * width;
        let all = own + self.layout.shared.len() * width;
        self.values.resize(all, 0.0);
        self.grad.resize(all, 0.0);
        link.params().read(&self.layout.shared, &mut self.values[own..]);
        self.grad[own..].fill(0.0);
    }

    /// The mean loss of the batch. `grad` receives the gradient of the shared entries; the others
    /// are updated.
    fn compute(&mut self, update: u64, table: &EntryTable) -> f32 {
        let start = self.step_recorder.begin_compute();
        if let Some(track) = self.step_recorder.clock.track() {
            track.begin_row();
        }
        let (width, count) = (self.model.layout().width(), self.batch.rows.len());
        let (share, mut loss) = (1.0 / count as f32, 0.0);
        for row in 0..count {
            let keys = self.layout.own_keys(row);
            let (later, even_later) = self.layout.next_own_keys(row);
            let own = ..keys.len() * width;
            table.read_ahead(keys, later, &mut self.values[own]);
            self.grad[own].fill(0.0);
            let batch = one_row(&self.batch.rows, &self.layout.places, &mut self.weights, row);
            let (params, grad) = (&self.values, &mut self.grad);
            loss += self.model.gradient(params, batch, share, OutputMode::Add, grad);
            table.update_ahead(update, keys, even_later, &grad[own], &mut self.columns);
        }
        if let Some(track) = self.step_recorder.clock.track() {
            record_event(track, &StepEvent::Forward { layer: 0 });
        }
        self.step_recorder.slow_down(start);
        loss
    }
}

/// One row of a batch as a block.
fn one_row<'b>(
    rows: &'b SparseBuffer,
    places: &'b [u32],
    weights: &'b mut BatchWeights,
    row: usize,
) -> Batch<'b> {
    let labels = &rows.labels[row..=row];
    let own = if rows.weights.is_empty() { &[][..] } else { &rows.weights[row..=row] };
    let starts = &rows.starts[row..=row + 1];
    let batch = Batch::sparse(Rows { starts, places, values: &rows.values }, labels);
    batch.with_fields(&rows.fields).weighted(weights.of(labels, own))
}

impl<'t> TableWorker<'t> for RowByRowWorker<'_> {
    fn begin(&mut self, step: u64, link: &TableLink<'t>) {
        self.prepare_next(step, link);
    }

    fn next_batch(&mut self, step: u64, link: &TableLink<'t>) -> usize {
        std::mem::swap(&mut self.batch, &mut self.next);
        self.prepare_next(step + 1, link);
        self.batch.rows.len()
    }

    fn make_step(&mut self, step: u64, link: &mut TableLink<'t>) -> Result<StepMade, TrainError> {
        let is_recorded = self.step_recorder.wants_tensors(step);
        self.read_shared(link, is_recorded);
        let update = link.begin_update();
        let Some(table) = link.params().as_entries() else {
            unreachable!("a key has several parameters")
        };
        let loss = self.compute(update, table);
        self.step_recorder.divergence.check_finite(step, loss)?;
        if is_recorded {
            self.step_recorder.record_touched(step, &self.values, Some(&self.grad))?;
        }
        let now = self.step_recorder.clock.enter(Phase::Push);
        let width = self.model.layout().width();
        let own = self.layout.most_own * width;
        link.params().update(update, &self.layout.shared, &self.grad[own..]);
        check_room(link.params())?;
        link.end_update(&mut self.step_recorder.clock);
        let keys = self.batch.compactor.keys().len();
        self.step_recorder.work.touched.add(keys, keys * width);
        Ok(StepMade { step, examples: self.batch.rows.len(), loss, now })
    }

    fn recording(&mut self) -> &mut StepRecorder {
        &mut self.step_recorder
    }

    fn model_layout(&self) -> &Layout {
        self.model.layout()
    }
}
