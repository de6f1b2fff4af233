//! The state of a replica, and what its caller may ask.

use std::ops::Range;

use paceline_model::{AlignedBuffer, Layout, OptimizerSpec, OptimizerState};

use super::chunk_plan::chunk_plan;
use super::config::ReplicaConfig;
use super::kept_state::KeptState;
use super::known::KnownGradients;
use super::peer::{COORDINATOR, CatchUp, CurrentStep, PieceProgress, ReplicaPeer};
use super::table_replica::TableReplica;
use crate::TaskReport;

/// The state machine of one worker of a run without servers.
pub struct Replica {
    pub(super) config: ReplicaConfig,
    /// Empty while they are lent for a step in pieces.
    pub(super) params: AlignedBuffer,
    /// In place of the parameters, if the model is sparse.
    pub(super) keyed: Option<Box<TableReplica>>,
    /// The number of parameters.
    pub(super) total: usize,
    /// Covers what this worker updates; see [`ReplicaConfig::updates`].
    pub(super) optimizer: OptimizerState,
    /// The chunks of each slot's shard, as ranges of all parameters, in the order in which they
    /// travel; none if the slot owns no shard.
    pub(super) chunks: Vec<Vec<Range<usize>>>,
    /// Whether every worker owns the whole model.
    pub(super) is_whole: bool,
    pub(super) peers: Vec<ReplicaPeer>,
    /// How far each piece of the current step is; empty in a step at once.
    pub(super) pieces: Vec<PieceProgress>,
    /// The mean of a chunk, while it is summed.
    pub(super) chunk_mean: Vec<f32>,
    /// If updated chunks carry means: the mean of all parameters.
    pub(super) mean: Vec<f32>,
    /// The step that `mean` belongs to, if it covers all parameters.
    pub(super) mean_step: Option<u64>,
    /// Updates made.
    pub(super) global_step: u64,
    /// Updates made before this process began.
    pub(super) begun_at: u64,
    pub(super) step: Option<CurrentStep>,
    pub(super) stop_requested: bool,
    pub(super) checkpoint_requested: bool,
    /// The last step after which a checkpoint is taken.
    pub(super) checkpoint_step: Option<u64>,
    pub(super) is_over: bool,
    /// Whether the run was ended in the middle of a step.
    pub(super) is_cut_short: bool,
    /// Whether that step has left its traces.
    pub(super) is_mixed: bool,
    /// Whether peers have still to connect, at the start or after a loss.
    pub(super) is_gathering: bool,
    /// Set while a peer that is ahead sends the missing state.
    pub(super) catch_up: Option<CatchUp>,
    /// This replica's state, while that of a peer overwrites it.
    pub(super) kept: Option<KeptState>,
    /// Whether a state has been received in part: this replica is useless until it is complete.
    pub(super) is_incomplete: bool,
    /// Whether the process has just begun, with the beginning of the run or a checkpoint, and has
    /// not yet received what others know.
    pub(super) is_fresh: bool,
    /// What travels as changes.
    pub(super) known: KnownGradients,
    /// Whether `known` is not that of the current step, since no step will follow.
    pub(super) lacks_known: bool,
}

/// What a replica lends to its caller for a step in pieces.
pub struct LentState {
    /// All parameters.
    pub params: AlignedBuffer,
    /// If updated chunks carry means: the memory for the mean of all parameters.
    pub mean: Vec<f32>,
    /// In that case, the optimizer with which the caller updates the parameters itself.
    pub optimizer: Option<OptimizerState>,
    /// The memory for the parameters after the step, if those before it are kept until its end;
    /// otherwise empty.
    pub next: AlignedBuffer,
}

impl Replica {
    /// Creates a replica with the initial parameters.
    ///
    /// # Panics
    /// If the configuration contradicts itself, or the parameters do not fit the layout.
    pub fn new(
        config: ReplicaConfig,
        params: Vec<f32>,
        optimizer: OptimizerSpec,
        layout: &Layout,
    ) -> Self {
        let updates = config.updates(params.len());
        assert_eq!(params.len(), layout.len(), "parameters");
        Self::resume(config, params, OptimizerState::new(optimizer, layout, updates), 0)
    }

    /// Creates a replica that resumes at a checkpoint, with the checkpoint's parameters and
    /// optimizer.
    ///
    /// # Panics
    /// If the configuration contradicts itself.
    pub fn resume(
        config: ReplicaConfig,
        params: Vec<f32>,
        optimizer: OptimizerState,
        global_step: u64,
    ) -> Self {
        let (workers, total) = (config.names.len(), params.len());
        assert!(config.slot < workers, "slot {} of {workers}", config.slot);
        assert!(config.check_every > 0, "check_every must be at least 1");
        let is_whole = config.is_whole(total);
        let ends = config.pieces.iter().map(|piece| piece.range.end);
        let starts = config.pieces.iter().map(|piece| piece.range.start).skip(1).chain([total]);
        assert!(config.pieces.is_empty() || ends.eq(starts), "pieces have gaps");
        let chunks = chunk_plan(&config, total);
        Self {
            known: KnownGradients::new(&config, &chunks),
            chunks,
            params: params.into(),
            keyed: None,
            total,
            optimizer,
            is_whole,
            peers: (0..workers).map(|_| ReplicaPeer::default()).collect(),
            pieces: Vec::new(),
            chunk_mean: Vec::new(),
            // The system never provides the pages of pieces with factors: nothing writes to them.
            mean: if config.sends_means() { vec![0.0; total] } else { Vec::new() },
            mean_step: None,
            global_step,
            begun_at: global_step,
            step: None,
            stop_requested: false,
            checkpoint_requested: false,
            checkpoint_step: None,
            is_over: config.stop_steps.is_some_and(|steps| global_step >= steps),
            is_cut_short: false,
            is_mixed: false,
            is_gathering: true,
            catch_up: None,
            kept: None,
            is_incomplete: false,
            is_fresh: true,
            lacks_known: false,
            config,
        }
    }

    /// The parameters.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// Updates made.
    pub fn global_step(&self) -> u64 {
        self.global_step
    }

    /// The slot of this worker.
    pub fn slot(&self) -> usize {
        self.config.slot
    }

    /// Workers in the run.
    pub fn workers(&self) -> usize {
        self.peers.len()
    }

    /// The display name of the worker in a slot.
    pub fn name(&self, slot: usize) -> &str {
        &self.config.names[slot]
    }

    /// Whether the last step has been made, so that the worker can only leave.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the worker in a slot owns a shard.
    pub(super) fn owns(&self, slot: usize) -> bool {
        !self.chunks[slot].is_empty()
    }

    /// Whether this worker owns a shard, and thus hears from every other in every step.
    pub fn is_owner(&self) -> bool {
        self.owns(self.config.slot)
    }

    /// The slots of the other workers.
    pub fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let slot = self.config.slot;
        (0..self.peers.len()).filter(move |&other| other != slot)
    }

    /// Stops the run: the next step is the last.
    ///
    /// # Panics
    /// If this is not the coordinator.
    pub fn request_stop(&mut self) {
        assert_eq!(self.config.slot, COORDINATOR, "only the coordinator decides when to stop");
        self.stop_requested = true;
        // A single worker has no peer that needs another step to hear of it.
        self.is_over |= self.peers.len() == 1;
    }

    /// Has every worker take a checkpoint after the next step.
    ///
    /// # Panics
    /// If this is not the coordinator.
    pub fn request_checkpoint(&mut self) {
        assert_eq!(self.config.slot, COORDINATOR, "only the coordinator requests checkpoints");
        self.checkpoint_requested = true;
    }

    /// Whether a checkpoint of the current parameters must be taken.
    pub fn is_checkpoint_due(&self) -> bool {
        self.checkpoint_step == Some(self.global_step)
    }

    /// What this worker writes into a checkpoint: the parameters of its shard, then each part of
    /// the optimizer's state.
    pub fn shard_columns(&self) -> impl Iterator<Item = &[f32]> {
        let shard = self.config.shard(self.total);
        let start = self.config.updates(self.total).start;
        let inside = shard.start - start..shard.end - start;
        let states = self.optimizer.states().map(move |(_, values)| &values[inside.clone()]);
        [&self.params[shard]].into_iter().chain(states)
    }

    /// Whether the run survives the loss of a worker that returns.
    pub fn recovers(&self) -> bool {
        self.config.recovers
    }

    /// The settings.
    pub fn config(&self) -> &ReplicaConfig {
        &self.config
    }

    /// Before a step in pieces: lends everything that the computing thread works with. Until
    /// [`Replica::take_back`], only the methods of the step may be called.
    pub fn lend(&mut self) -> LentState {
        self.mean_step = None;
        LentState {
            params: std::mem::take(&mut self.params),
            mean: std::mem::take(&mut self.mean),
            optimizer: self.config.sends_means().then(|| self.optimizer.take()),
            next: AlignedBuffer::default(),
        }
    }

    /// After a step in pieces, whether it was made or not.
    pub fn take_back(&mut self, lent: LentState) {
        (self.params, self.mean) = (lent.params, lent.mean);
        if let Some(optimizer) = lent.optimizer {
            self.optimizer = optimizer;
        }
    }

    /// The reports of all other workers, ordered by slot; only the coordinator has them, and only
    /// once all have left. If the run was cut short, the reports of those that have left in time.
    pub fn reports(&self) -> Option<Vec<TaskReport>> {
        let report = |slot: usize| {
            let bytes = self.peers[slot].report.clone()?;
            Some(TaskReport { slot: Some(slot as u32), bytes })
        };
        if self.is_cut_short {
            return Some(self.others().filter_map(report).collect());
        }
        self.others().map(report).collect()
    }
}
