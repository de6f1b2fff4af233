//! The parameter table of a sparse model in this process: mode `single`.
//!
//! One thread trains deterministically. Several threads share the table without locks (Hogwild):
//! each is a worker with its own slot, and they meet only in the table's cells.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use paceline_exchange::{ChunkMarks, SlotMark};
use paceline_model::ParamTable::{self, Entries, Flat};
use paceline_model::kernels::OwnLines;
use paceline_model::{Compactor, SparseModel, Table};
use paceline_net::LinkOutcome;
use paceline_observe::{Phase, PhaseClock, TableUse};

use super::new_table::{all_keys, check_room, empty_table, for_each_piece, table_use};
use crate::checkpoint::{CheckpointWriter, ResumePoint};
use crate::context::VisitPiece;
use crate::error::TrainError;
use crate::link::{Link, PushOutcome, SparseLink, SparsePush};
use crate::loop_trace::APPLY_OP;
use crate::settings::TrainSettings;

/// What the threads of a run share.
pub(crate) struct SharedTable {
    table: ParamTable,
    /// Updates made. Other threads read the table beside it with every key.
    steps: OwnLines<AtomicU64>,
    stopping: AtomicBool,
    /// The next step of each thread.
    slots: Vec<OwnLines<AtomicU64>>,
}

impl SharedTable {
    /// The table that a run of `threads` threads starts from.
    pub(crate) fn new(
        settings: &TrainSettings,
        model: &dyn SparseModel,
        threads: usize,
    ) -> Result<Self, TrainError> {
        let table = table_for(settings, model, threads)?;
        if let Some(start) = &settings.start {
            start.fill(model, &table)?;
        }
        Ok(Self::with_steps(table, 0, vec![0; threads]))
    }

    /// The table of a checkpoint.
    pub(crate) fn resume(
        settings: &TrainSettings,
        model: &dyn SparseModel,
        threads: usize,
        from: &ResumePoint,
    ) -> Result<Self, TrainError> {
        let table = from.fill(model.layout(), table_for(settings, model, threads)?)?;
        Ok(Self::with_steps(table, from.step(), from.slot_steps(threads)))
    }

    fn with_steps(table: ParamTable, steps: u64, slots: Vec<u64>) -> Self {
        Self {
            table,
            steps: OwnLines(AtomicU64::new(steps)),
            stopping: AtomicBool::new(false),
            slots: slots.into_iter().map(|step| OwnLines(AtomicU64::new(step))).collect(),
        }
    }

    /// Whether the model steps where its parameters live.
    pub(crate) fn steps_in_place(&self, model: &dyn SparseModel) -> bool {
        self.table.as_flat().is_some_and(|table| steps_in_place(table, model))
    }

    /// Stops all threads after their current step.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

/// A table before the first step. A single thread that steps in place keeps its gradient's sums in
/// the table.
fn table_for(
    settings: &TrainSettings,
    model: &dyn SparseModel,
    threads: usize,
) -> Result<ParamTable, TrainError> {
    match empty_table(settings, model, all_keys(model))? {
        ParamTable::Flat(table) if threads == 1 && steps_in_place(&table, model) => {
            table.with_sums().map(ParamTable::Flat).map_err(TrainError::Settings)
        }
        table => Ok(table),
    }
}

fn steps_in_place(table: &Table, model: &dyn SparseModel) -> bool {
    table.steps_in_place() && model.score_loss().is_some()
}

/// One thread's way to the table.
pub(crate) struct TableLink<'a> {
    shared: &'a SharedTable,
    slot: usize,
    next_step: u64,
    checkpoints: Option<CheckpointWriter>,
    values: Vec<f32>,
    peeked: Vec<f32>,
}

impl<'a> TableLink<'a> {
    /// The way of the thread in `slot` to the table.
    pub(crate) fn new(shared: &'a SharedTable, slot: usize) -> Self {
        let next_step = shared.slots[slot].0.load(Ordering::Relaxed);
        Self { shared, slot, next_step, checkpoints: None, values: Vec::new(), peeked: Vec::new() }
    }

    /// Takes checkpoints with this writer.
    #[must_use]
    pub(crate) fn with_checkpoints(self, checkpoints: Option<CheckpointWriter>) -> Self {
        Self { checkpoints, ..self }
    }

    /// The table, for steps in place: one parameter for each key.
    pub(super) fn table(&self) -> &'a Table {
        let Some(table) = self.shared.table.as_flat() else { unreachable!("it steps in place") };
        table
    }

    /// The table, whatever the keys have.
    pub(super) fn params(&self) -> &'a ParamTable {
        &self.shared.table
    }

    /// What the threads of the run share.
    pub(super) fn shared(&self) -> &'a SharedTable {
        self.shared
    }

    /// An update starts; the number of updates before it.
    pub(super) fn begin_update(&mut self) -> u64 {
        self.shared.steps.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The update is made.
    pub(super) fn end_update(&mut self, clock: &mut PhaseClock) {
        clock.did(APPLY_OP);
        self.next_step += 1;
        self.shared.slots[self.slot].0.store(self.next_step, Ordering::Relaxed);
    }

    fn read(&mut self, keys: &[u32]) {
        self.values.resize(keys.len() * self.shared.table.width(), 0.0);
        self.shared.table.read(keys, &mut self.values);
    }
}

impl Link for TableLink<'_> {
    fn next_step(&self) -> u64 {
        self.next_step
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Relaxed)
    }

    fn global_step(&self) -> u64 {
        self.shared.steps.0.load(Ordering::Relaxed)
    }

    fn table_use(&self) -> Option<TableUse> {
        Some(table_use(&self.shared.table))
    }

    fn request_stop(&mut self, _reason: &str) -> Result<(), TrainError> {
        self.shared.stop();
        Ok(())
    }

    fn checkpoint(&mut self, step: u64, is_last: bool) -> Result<(), TrainError> {
        if let Some(checkpoints) = &mut self.checkpoints {
            let shared = self.shared;
            // Updates of other threads during the copy may be in it or not, as in any other read
            // of a table that is shared without locks.
            let next_steps = shared.slots.iter().map(|slot| slot.0.load(Ordering::Relaxed));
            let slots = next_steps
                .map(|next| SlotMark { last_sequence: next, step: next.saturating_sub(1) });
            let marks = vec![ChunkMarks { version: step, slots: slots.collect() }];
            shared.table.fold();
            checkpoints.take_table(step, marks, is_last, &shared.table);
        }
        Ok(())
    }

    fn finish_checkpoints(&mut self) {
        self.checkpoints = None;
    }

    fn peek(&mut self, keys: Option<&[u32]>) -> Result<LinkOutcome<&[f32]>, TrainError> {
        let keys = keys.unwrap_or_default();
        self.peeked.resize(keys.len() * self.shared.table.width(), 0.0);
        self.shared.table.read_known(keys, &mut self.peeked);
        Ok(LinkOutcome::Done(&self.peeked))
    }

    fn for_each_piece(&mut self, visit: &mut VisitPiece<'_>) -> Result<LinkOutcome, TrainError> {
        for_each_piece(&self.shared.table, visit).map(LinkOutcome::Done)
    }
}

impl SparseLink for TableLink<'_> {
    /// The order does not matter here. Parameters are prefetched meanwhile.
    fn compact(&self, compactor: &mut Compactor, keys: &[u32], shared: Range<u32>) {
        match &self.shared.table {
            Flat(table) => compactor.compact_unsorted(keys, shared, table.prefetcher()),
            Entries(table) => compactor.compact_unsorted(keys, shared, table.prefetcher()),
        }
    }

    fn begin(
        &mut self,
        step: u64,
        keys: &[u32],
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome, TrainError> {
        clock.enter(Phase::Pull);
        self.next_step = step;
        self.read(keys);
        Ok(LinkOutcome::Done(()))
    }

    fn values(&self) -> &[f32] {
        &self.values
    }

    fn push(
        &mut self,
        push: SparsePush<'_>,
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome, TrainError> {
        let step = self.begin_update();
        self.shared.table.update(step, push.keys, push.grad);
        check_room(&self.shared.table)?;
        self.end_update(clock);
        clock.enter(Phase::Pull);
        self.read(push.next);
        Ok(LinkOutcome::Done(()))
    }

    fn wait_for_values(
        &mut self,
        _: &mut PhaseClock,
    ) -> Result<LinkOutcome<PushOutcome>, TrainError> {
        Ok(LinkOutcome::Done(PushOutcome::Applied))
    }
}
