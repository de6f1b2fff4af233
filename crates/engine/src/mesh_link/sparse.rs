//! The steps of a sparse model, whose gradients have keys of their own.

use std::ops::Range;

use paceline_exchange::{Replica, shard_ranges};
use paceline_model::ParamTable::{Entries, Flat};
use paceline_model::{Compactor, SparseModel};
use paceline_net::{KeyedGradient, LinkError, LinkOutcome};
use paceline_observe::{Phase, PhaseClock};

use super::mesh_model::MeshModel;
use super::{MeshLink, MeshStart};
use crate::error::TrainError;
use crate::link::{PushOutcome, SparseLink, SparsePush};
use crate::link_observers::StepObserver;
use crate::sparse::{all_keys, check_room, empty_table};

impl MeshStart<'_> {
    /// The parameters that this worker writes into checkpoints.
    pub(crate) fn saved_range(&self, model: MeshModel<'_>) -> Range<usize> {
        match model {
            MeshModel::Dense(model) => self.config(model.layout()).shard(model.layout().len()),
            MeshModel::Sparse(model) => {
                let (layout, slot) = (model.layout(), self.place.slot.unwrap_or(0));
                layout.params_of(shard_ranges(layout.keys(), self.place.slots)[slot].clone())
            }
        }
    }

    /// The replica of a sparse model at the start of the run, as [`Self::replica`].
    pub(super) fn table_replica(&self, model: &dyn SparseModel) -> Result<Replica, TrainError> {
        let (settings, layout) = (self.settings, model.layout());
        let config = self.config(layout);
        let table = empty_table(settings, model, all_keys(model))?;
        let newest = self.newest_checkpoint();
        if let Some(from) = newest.as_ref().or(self.from) {
            return Ok(Replica::of_table(config, from.fill(layout, table)?, from.step()));
        }
        if let Some(start) = &settings.start {
            start.fill(model, &table)?;
        }
        Ok(Replica::of_table(config, table, 0))
    }
}

impl MeshLink<'_> {
    /// Reads the values of a batch's keys.
    fn read_values(&mut self, keys: &[u32]) {
        if let Some(table) = self.mesh.table() {
            self.values.resize(keys.len() * table.width(), 0.0);
            table.read(keys, &mut self.values);
        }
    }
}

impl SparseLink for MeshLink<'_> {
    fn compact(&self, compactor: &mut Compactor, keys: &[u32], shared: Range<u32>) {
        match self.mesh.table() {
            Some(Flat(table)) => compactor.compact_with(keys, shared, table.prefetcher()),
            Some(Entries(table)) => compactor.compact_with(keys, shared, table.prefetcher()),
            None => compactor.compact(keys, shared),
        }
    }

    fn begin(
        &mut self,
        _step: u64,
        keys: &[u32],
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome, TrainError> {
        clock.enter(Phase::Pull);
        self.read_values(keys);
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
        let (notify, peers) = (self.notify, self.peers);
        let SparsePush { examples, keys, grad, next, .. } = push;
        let stop = self.step_stop.as_deref().filter(|_| self.peers.own == Some(0));
        let observer = &mut StepObserver { clock, notify, peers, should_halt: None, stop };
        let gradient = KeyedGradient { examples: examples as u32, keys, values: grad };
        self.was_dropped = false;
        match self.mesh.reduce_keyed(Some(gradient), observer) {
            Err(LinkError::CutShort) => {
                self.was_dropped = true;
                return Ok(LinkOutcome::Done(()));
            }
            reduced => reduced?,
        }
        self.mesh.table().map_or(Ok(()), check_room)?;
        self.checkpoint_if_due();
        clock.enter(Phase::Pull);
        self.read_values(next);
        Ok(LinkOutcome::Done(()))
    }

    fn wait_for_values(
        &mut self,
        _: &mut PhaseClock,
    ) -> Result<LinkOutcome<PushOutcome>, TrainError> {
        let outcome = if self.was_dropped { PushOutcome::Dropped } else { PushOutcome::Applied };
        Ok(LinkOutcome::Done(outcome))
    }
}
