//! Parameters of a dense model in this process: mode `single`.

use paceline_exchange::{ChunkMarks, SlotMark};
use paceline_model::{AlignedBuffer, Descent, Model, OptimizerSpec, OptimizerState};
use paceline_net::LinkOutcome;
use paceline_observe::PhaseClock;

use crate::checkpoint::{CheckpointWriter, DenseShard, ResumePoint, copy_dense};
use crate::context::VisitPiece;
use crate::error::TrainError;
use crate::initial_params::initial_shard;
use crate::link::{DenseLink, Link, PushOutcome};
use crate::loop_trace::APPLY_OP;
use crate::settings::TrainSettings;

/// Parameters that live in this process.
pub(crate) struct LocalLink {
    params: AlignedBuffer,
    optimizer: OptimizerState,
    global_step: u64,
    stopping: bool,
    checkpoints: Option<CheckpointWriter>,
}

impl LocalLink {
    /// The parameters that training starts from.
    pub(crate) fn new(model: &dyn Model, settings: &TrainSettings) -> Result<Self, TrainError> {
        let layout = model.layout();
        let DenseShard { params, optimizer } = initial_shard(model, settings, 0..layout.len())?;
        Ok(Self {
            params: params.into(),
            optimizer,
            global_step: 0,
            stopping: false,
            checkpoints: None,
        })
    }

    /// The parameters of a checkpoint.
    pub(crate) fn resume(
        model: &dyn Model,
        optimizer: OptimizerSpec,
        from: &ResumePoint,
    ) -> Result<Self, TrainError> {
        let layout = model.layout();
        let DenseShard { params, optimizer } = from.dense(layout, optimizer, 0..layout.len())?;
        let global_step = from.step();
        Ok(Self {
            params: params.into(),
            optimizer,
            global_step,
            stopping: false,
            checkpoints: None,
        })
    }

    /// Takes checkpoints with this writer.
    #[must_use]
    pub(crate) fn with_checkpoints(self, checkpoints: Option<CheckpointWriter>) -> Self {
        Self { checkpoints, ..self }
    }
}

impl Link for LocalLink {
    fn next_step(&self) -> u64 {
        self.global_step
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn is_stopping(&self) -> bool {
        self.stopping
    }

    fn global_step(&self) -> u64 {
        self.global_step
    }

    fn request_stop(&mut self, _reason: &str) -> Result<(), TrainError> {
        self.stopping = true;
        Ok(())
    }

    fn checkpoint(&mut self, step: u64, is_last: bool) -> Result<(), TrainError> {
        if let Some(checkpoints) = &mut self.checkpoints {
            let mark = SlotMark { last_sequence: step, step: step.saturating_sub(1) };
            let marks = vec![ChunkMarks { version: step, slots: vec![mark] }];
            let states = self.optimizer.states().map(|(_, state)| state);
            checkpoints.take(step, marks, is_last, |out| copy_dense(&self.params, states, out));
        }
        Ok(())
    }

    fn finish_checkpoints(&mut self) {
        self.checkpoints = None;
    }

    fn peek(&mut self, _keys: Option<&[u32]>) -> Result<LinkOutcome<&[f32]>, TrainError> {
        Ok(LinkOutcome::Done(&self.params))
    }

    fn for_each_piece(&mut self, visit: &mut VisitPiece<'_>) -> Result<LinkOutcome, TrainError> {
        visit(&self.params).map(LinkOutcome::Done)
    }
}

impl DenseLink for LocalLink {
    fn params(&self) -> &[f32] {
        &self.params
    }

    fn push(
        &mut self,
        _examples: usize,
        grad: &[f32],
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome<PushOutcome>, TrainError> {
        self.optimizer.apply(self.global_step, 0, &mut self.params, grad);
        clock.did(APPLY_OP);
        self.global_step += 1;
        Ok(LinkOutcome::Done(PushOutcome::Applied))
    }

    fn take_for_step(&mut self) -> Option<Descent<'_>> {
        let step = self.global_step;
        self.global_step += 1;
        Some(Descent { params: &mut self.params, optimizer: &mut self.optimizer, step })
    }

    fn abandon_step(&mut self) {
        self.global_step -= 1;
    }
}
