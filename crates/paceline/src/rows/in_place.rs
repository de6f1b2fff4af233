//! The loop of a sparse model whose steps are made where its parameters live: mode `single` with
//! plain SGD.
//!
//! Rows are taken as they lie in the mapped data. Memory is what a step waits for, so everything
//! is asked for some rows before its turn: first a row's bounds, then its keys, then what the keys
//! stand for. That goes on into the next batch, which is why it is known one step ahead.

use paceline_data::{BatchPlan, SparseRows};
use paceline_model::{Layout, Row, RowDescent, SparseModel, StepEvent};
use paceline_observe::Phase;

use super::LocalRows;
use crate::Failure;
use crate::chief::{Chief, StopReason};
use crate::link::Link;
use crate::trace::record_step_event;
use crate::worker::{Desk, Trainer, Work};

/// How many rows before its turn a row's parameters are asked for, and how many rows before those
/// its keys, and before those its bounds.
const AHEAD: usize = 8;

/// A worker of a sparse model that has the parameters in its own process.
pub struct InPlaceWorker<'a> {
    slot: usize,
    plan: BatchPlan,
    rows: &'a SparseRows,
    model: Box<dyn SparseModel>,
    desk: Desk,
    descent: RowDescent,
    /// The rows of the present batch, and behind them those of the next.
    order: Vec<u32>,
    next: Vec<u32>,
}

impl<'a> InPlaceWorker<'a> {
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
            descent: RowDescent::new(model.max_block()),
            model,
            desk,
            order: Vec::new(),
            next: Vec::new(),
        }
    }

    /// Puts the batch of a step into the order, which was the next one, and that of the step
    /// after it; how many rows it has.
    fn take(&mut self, step: u64) -> usize {
        self.desk.clock.stay_in(Phase::Input);
        std::mem::swap(&mut self.order, &mut self.next);
        self.plan.batch(step + 1, self.slot, &mut self.next);
        let examples = self.order.len();
        self.order.extend_from_slice(&self.next);
        examples
    }

    /// The mean loss of the first rows of the order, and their gradient.
    fn gradient(&mut self, examples: usize, link: &LocalRows<'_>) -> f32 {
        let start = self.desk.begin_compute();
        let (rows, order) = (self.rows, &self.order[..]);
        let later = |at: usize| order.get(at).map(|&row| row as usize);
        let ahead = (AHEAD..).map_while(|at| {
            later(at + 2 * AHEAD).into_iter().for_each(|row| rows.prefetch_bounds(row));
            later(at + AHEAD).into_iter().for_each(|row| rows.prefetch_keys(row));
            later(at).map(|row| rows.row(row).keys)
        });
        if let Some(track) = self.desk.clock.track() {
            track.begin_row();
        }
        let Some(score_loss) = self.model.score_loss() else {
            unreachable!("only linear models are stepped in place")
        };
        let batch = walk(rows, &order[..examples]);
        let loss = self.descent.gradient(score_loss, link.table(), batch, ahead);
        if let Some(track) = self.desk.clock.track() {
            record_step_event(track, &StepEvent::Forward { layer: 0 });
        }
        self.desk.dawdle(start);
        loss
    }
}

/// The rows of these numbers.
fn walk<'a>(rows: &'a SparseRows, order: &[u32]) -> impl ExactSizeIterator<Item = Row<'a>> {
    order.iter().map(|&row| {
        let row = rows.row(row as usize);
        Row { label: row.label, keys: row.keys, values: row.values }
    })
}

impl Trainer<LocalRows<'_>> for InPlaceWorker<'_> {
    fn run(
        &mut self,
        link: &mut LocalRows<'_>,
        mut chief: Option<&mut Chief<'_>>,
    ) -> Result<Work, Failure> {
        self.plan.batch(link.next_step(), self.slot, &mut self.next);
        loop {
            let own_step = link.next_step();
            let examples = self.take(own_step);
            if examples == 0 {
                return Ok(Work { reason: Some(StopReason::Epochs), ..self.desk.work });
            }
            self.desk.at_step(own_step);
            let step = link.global_step();
            let loss = self.gradient(examples, link);
            let now = self.desk.clock.enter(Phase::Push);
            let rows = walk(self.rows, &self.order[..examples]);
            self.descent.update(link.table(), link.begin_update(), rows);
            link.end_update(&mut self.desk.clock);

            self.desk.work.steps += 1;
            self.desk.work.examples += examples as u64;
            self.desk.after_step((step, loss, now), link, chief.as_deref_mut())?;
            if link.is_stopping() {
                return Ok(self.desk.work);
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
