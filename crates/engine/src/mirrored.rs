//! A worker of a run without servers: mode `mirrored`.

use std::net::TcpListener;

use paceline_exchange::travels_in_pieces;
use paceline_observe::Recorder;

use crate::checkpoint_spec::ShardPlace;
use crate::error::{TrainError, record_failure};
use crate::exchange_observer::exchange_track;
use crate::link::Link;
use crate::mesh_link::{MeshLink, MeshModel, MeshStart};
use crate::run_coordinator::{CoordinatorOptions, run_coordinator};
use crate::run_report::RunReport;
use crate::step_pieces::{exchange_conditions, step_pieces};
use crate::step_recorder::StepRecorder;
use crate::step_stop::{StepStop, StopRole};
use crate::train_slot::train_slot;
use crate::training_task::{TrainingTask, encode_report};
use crate::workload::LoopConfig;

/// Trains the worker's slot with all other workers. Only the coordinator returns a report.
pub(crate) fn train_replica(
    task: &TrainingTask<'_>,
    listener: Option<TcpListener>,
) -> Result<Option<RunReport>, TrainError> {
    let (settings, workload, place) = (task.settings, task.workload, task.place);
    let (slot, loop_threads) = (place.slot.unwrap_or(0), task.threads.per_loop(1));
    let conditions = exchange_conditions(settings, place.slots);
    let mut model = workload.small_model()?;
    // The model that trains says whether a batch is one block.
    let is_built =
        model.layered().is_some() && travels_in_pieces(model.layout().len(), &conditions);
    if is_built {
        model = workload.loop_model(settings, loop_threads)?;
    }
    let pieces = step_pieces(&mut *model, &conditions)?;
    let mut recorder = task.context.recorder()?;
    let tracer = task.tracer();
    let notify = |text: &str| task.context.waiting(Some(text));
    let gives_up = || task.context.stop_signal().is_some() || task.is_late();
    let shard = ShardPlace { index: slot, count: place.slots, is_spread: false, task: &place.name };
    let (dir, from) = (task.checkpoints.filter(|_| settings.checkpoint.is_some()), task.from);
    let track = exchange_track(tracer.as_ref(), model.layout().len());
    let role = if slot == 0 { StopRole::Coordinator } else { StopRole::Cautious };
    let stop = StepStop::new(task.context.clone(), role);
    let (checkpoints, step_stop) = (dir, Some(stop.clone()));
    let start =
        MeshStart { settings, place, listener, checkpoints, from, pieces, track, step_stop };
    let sparse = workload.is_sparse().then(|| workload.sparse_parts()).transpose()?;
    let whole = MeshModel::of(&*model, sparse.as_ref().map(|(_, sparse)| &**sparse));
    let checkpoints = task.checkpoint_writer(model.layout(), shard, start.saved_range(whole))?;
    let link = MeshLink::connect(start, whole, checkpoints, &notify, &gives_up);
    let Some(mut link) = task.unless_late(link)? else { return Ok(None) };
    task.context.waiting(None);
    if let Some(why) = task.context.separate_run().filter(|_| settings.checkpoint.is_some()) {
        return Err(TrainError::Settings(why));
    }
    recorder.start(task.run_start(slot, &link)).map_err(record_failure)?;
    let config = LoopConfig {
        slot,
        plan: task.batches(),
        threads: loop_threads,
        step_recorder: StepRecorder::start(recorder, settings, slot),
        tracer: tracer.as_ref(),
        model: is_built.then_some(model),
        stop: Some(stop),
    };
    let mut worker = workload.trainer(settings, config)?;
    if slot > 0 {
        return train_slot(task, &mut link, &mut *worker, |link, worker, work| {
            let report = task.task_summary(worker.step_recorder(), work, link);
            // Before leaving: the coordinator merges the timelines once every worker has left.
            task.finish_timeline(worker.step_recorder());
            link.leave(&encode_report(&report))
        })
        .map(|()| None);
    }
    let options = CoordinatorOptions {
        has_test_thread: true,
        test_threads: 1,
        loop_threads,
        reproducible: true,
        tracer: tracer.as_ref(),
        combine: &|report| report,
    };
    run_coordinator(task, &mut link, &mut *worker, options).map(Some)
}
