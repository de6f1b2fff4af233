//! The table of a sparse model in this process: mode `single`.
//!
//! One thread trains deterministically. Several share the table without locks (Hogwild): each is
//! a worker with a slot of its own, and they meet nowhere but in the table's cells.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use paceline_model::{Layout, OptimizerSpec, Table};
use paceline_observe::{Phase, PhaseClock};

use crate::Failure;
use crate::link::{Link, Pushed, RowLink, RowPush, Show};

/// Parameters that are shown at a time when all are shown.
const PIECE: usize = 1 << 18;

/// What the threads of a run share.
pub struct SharedTable {
    table: Table,
    /// Updates made.
    steps: AtomicU64,
    stopping: AtomicBool,
}

impl SharedTable {
    /// A table of zeros.
    pub fn new(optimizer: OptimizerSpec, layout: &Layout) -> Self {
        let table = Table::new(optimizer, layout, 0..layout.len());
        Self { table, steps: AtomicU64::new(0), stopping: AtomicBool::new(false) }
    }

    /// Has all threads stop after their present step.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

/// One thread's way to the table.
pub struct LocalRows<'a> {
    shared: &'a SharedTable,
    own_step: u64,
    values: Vec<f32>,
    looked: Vec<f32>,
}

impl<'a> LocalRows<'a> {
    /// A way to a table.
    pub fn new(shared: &'a SharedTable) -> Self {
        Self { shared, own_step: 0, values: Vec::new(), looked: Vec::new() }
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
        let step = self.shared.steps.fetch_add(1, Ordering::Relaxed);
        self.shared.table.update(step, push.keys, push.grad);
        clock.enter(Phase::Pull);
        self.read(push.next);
        self.own_step += 1;
        Ok(())
    }

    fn arrive(&mut self, _: &mut PhaseClock) -> Result<Pushed, Failure> {
        Ok(Pushed::Applied)
    }
}
