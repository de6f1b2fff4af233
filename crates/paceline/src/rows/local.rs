//! The table of a sparse model in this process: mode `single`.
//!
//! One thread trains deterministically. Several share the table without locks (Hogwild): each is
//! a worker with a slot of its own, and they meet nowhere but in the table's cells.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use paceline_exchange::{ChunkMarks, SlotMark};
use paceline_model::{OptimizerSpec, SparseModel, Table};
use paceline_observe::{Phase, PhaseClock};

use crate::Failure;
use crate::checkpoint::keeper::copy_table;
use crate::checkpoint::{Keeper, Resumption};
use crate::link::{Link, Pushed, RowLink, RowPush, Show};
use crate::trace::APPLY_OP;

/// Parameters that are shown at a time when all are shown.
const PIECE: usize = 1 << 18;

/// What the threads of a run share.
pub struct SharedTable {
    table: Table,
    /// Updates made.
    steps: AtomicU64,
    stopping: AtomicBool,
    /// How far each thread has come.
    slots: Vec<OwnStep>,
}

/// The step that a thread goes on with, on a line of the cache of its own.
#[repr(align(64))]
struct OwnStep(AtomicU64);

impl SharedTable {
    /// A table of zeros for so many threads.
    pub fn new(optimizer: OptimizerSpec, model: &dyn SparseModel, threads: usize) -> Self {
        Self::of(empty_table(optimizer, model, threads), 0, vec![0; threads])
    }

    /// A table as it was at a checkpoint.
    pub fn resume(
        optimizer: OptimizerSpec,
        model: &dyn SparseModel,
        threads: usize,
        from: &Resumption,
    ) -> Result<Self, Failure> {
        let table = from.fill(model.layout(), empty_table(optimizer, model, threads))?;
        Ok(Self::of(table, from.step(), from.slot_steps(threads)))
    }

    fn of(table: Table, steps: u64, slots: Vec<u64>) -> Self {
        Self {
            table,
            steps: AtomicU64::new(steps),
            stopping: AtomicBool::new(false),
            slots: slots.into_iter().map(|step| OwnStep(AtomicU64::new(step))).collect(),
        }
    }

    /// Whether steps are made where the parameters live.
    pub fn steps_in_place(&self, model: &dyn SparseModel) -> bool {
        steps_in_place(&self.table, model)
    }

    /// Has all threads stop after their present step.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

/// A table of zeros. One thread alone sums its gradient up in it, if it steps in place.
fn empty_table(optimizer: OptimizerSpec, model: &dyn SparseModel, threads: usize) -> Table {
    let layout = model.layout();
    let table = Table::new(optimizer, layout, 0..layout.len());
    if threads == 1 && steps_in_place(&table, model) { table.with_sums() } else { table }
}

fn steps_in_place(table: &Table, model: &dyn SparseModel) -> bool {
    table.steps_in_place() && model.score_loss().is_some()
}

/// One thread's way to the table.
pub struct LocalRows<'a> {
    shared: &'a SharedTable,
    slot: usize,
    own_step: u64,
    keeper: Option<Keeper>,
    values: Vec<f32>,
    looked: Vec<f32>,
}

impl<'a> LocalRows<'a> {
    /// The way of a thread to a table.
    pub fn new(shared: &'a SharedTable, slot: usize) -> Self {
        let own_step = shared.slots[slot].0.load(Ordering::Relaxed);
        Self { shared, slot, own_step, keeper: None, values: Vec::new(), looked: Vec::new() }
    }

    /// From now on this keeper takes checkpoints, whenever this thread asks for one.
    pub fn keep(&mut self, keeper: Option<Keeper>) {
        self.keeper = keeper;
    }

    /// The table, for whoever steps in place.
    pub(super) fn table(&self) -> &'a Table {
        &self.shared.table
    }

    /// An update is about to be made; the number of those made before.
    pub(super) fn begin_update(&mut self) -> u64 {
        self.shared.steps.fetch_add(1, Ordering::Relaxed)
    }

    /// The update is made.
    pub(super) fn end_update(&mut self, clock: &mut PhaseClock) {
        clock.did(APPLY_OP);
        self.own_step += 1;
        self.shared.slots[self.slot].0.store(self.own_step, Ordering::Relaxed);
    }

    fn read(&mut self, keys: &[u32]) {
        self.values.resize(keys.len(), 0.0);
        self.shared.table.read(keys, &mut self.values);
    }
}

impl Link for LocalRows<'_> {
    fn next_step(&self) -> u64 {
        self.own_step
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Relaxed)
    }

    fn global_step(&self) -> u64 {
        self.shared.steps.load(Ordering::Relaxed)
    }

    fn ask_to_stop(&mut self, _reason: &str) -> Result<(), Failure> {
        self.shared.stop();
        Ok(())
    }

    fn checkpoint(&mut self, step: u64, is_last: bool) -> Result<(), Failure> {
        if let Some(keeper) = &mut self.keeper {
            let shared = self.shared;
            // What other threads change meanwhile may be in the copy or not, as in any other
            // look at a table that is shared without locks.
            let slots = shared.slots.iter().map(|slot| slot.0.load(Ordering::Relaxed));
            let slots =
                slots.map(|next| SlotMark { last_sequence: next, step: next.saturating_sub(1) });
            let marks = vec![ChunkMarks { version: step, slots: slots.collect() }];
            shared.table.fold();
            keeper.take(step, marks, is_last, |out| copy_table(&shared.table, out));
        }
        Ok(())
    }

    fn look(&mut self, keys: Option<&[u32]>) -> Result<&[f32], Failure> {
        let keys = keys.unwrap_or_default();
        self.looked.resize(keys.len(), 0.0);
        self.shared.table.read(keys, &mut self.looked);
        Ok(&self.looked)
    }

    fn show_all(&mut self, show: &mut Show<'_>) -> Result<(), Failure> {
        let all = self.shared.table.range();
        for from in all.clone().step_by(PIECE) {
            let piece = from..(from + PIECE).min(all.end);
            self.looked.resize(piece.len(), 0.0);
            self.shared.table.read_range(piece, &mut self.looked);
            show(&self.looked)?;
        }
        Ok(())
    }
}

impl RowLink for LocalRows<'_> {
    fn overlaps(&self) -> bool {
        false
    }

    fn wants_sorted(&self) -> bool {
        false
    }

    #[inline]
    fn foresee(&self, key: u32) {
        self.shared.table.prefetch(key);
    }

    fn begin(&mut self, step: u64, keys: &[u32], clock: &mut PhaseClock) -> Result<(), Failure> {
        clock.enter(Phase::Pull);
        self.own_step = step;
        self.read(keys);
        Ok(())
    }

    fn ahead(&mut self, _: &[u32], _: &mut PhaseClock) -> Result<(), Failure> {
        Ok(())
    }

    fn values(&self) -> &[f32] {
        &self.values
    }

    fn push(&mut self, push: RowPush<'_>, clock: &mut PhaseClock) -> Result<(), Failure> {
        let step = self.begin_update();
        self.shared.table.update(step, push.keys, push.grad);
        self.end_update(clock);
        clock.enter(Phase::Pull);
        self.read(push.next);
        Ok(())
    }

    fn arrive(&mut self, _: &mut PhaseClock) -> Result<Pushed, Failure> {
        Ok(Pushed::Applied)
    }
}
