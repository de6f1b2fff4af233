//! How a worker continues after the run has returned to a checkpoint.

use paceline_net::LinkOutcome::Done;
use paceline_observe::{Recorder, RunStart};

use crate::coordinator::Coordinator;
use crate::error::{TrainError, record_failure};
use crate::link::Link;
use crate::trainer::Trainer;
use crate::training_task::TrainingTask;

/// Reconnects a worker whose run has returned to a checkpoint, so that it continues from there.
pub(crate) fn rewind<L: Link>(
    task: &TrainingTask<'_>,
    link: &mut L,
    trainer: &mut dyn Trainer<L>,
    mut coordinator: Option<&mut Coordinator<'_>>,
) -> Result<(), TrainError> {
    loop {
        link.rejoin()?;
        let step_recorder = trainer.step_recorder();
        step_recorder.work.lost = link.lost_pushes();
        let step = joined_at(task, link).max(link.base_step());
        let start = RunStart::Rewound { step };
        step_recorder.recorder.start(start).map_err(record_failure)?;
        let Some(coordinator) = coordinator.as_deref_mut() else { return Ok(()) };
        // The run may return to a checkpoint again meanwhile.
        if coordinator.rewind(step, link)? == Done(()) {
            return Ok(());
        }
    }
}

/// The global step the coordinator finds. Before its first pull, the link of a sparse model knows
/// it only in `sync`, by the step that comes next.
pub(crate) fn joined_at(task: &TrainingTask<'_>, link: &impl Link) -> u64 {
    let is_synchronous = task.settings.mode.is_synchronous();
    let known = if is_synchronous { link.next_step() } else { link.global_step() };
    known.max(task.started_at())
}
