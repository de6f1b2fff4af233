//! A run without other tasks: mode `single`.

use std::sync::Arc;

use paceline_observe::Recorder;

use crate::checkpoint_spec::ShardPlace;
use crate::error::{TrainError, record_failure};
use crate::link::Link;
use crate::local_link::LocalLink;
use crate::run_coordinator::{CoordinatorOptions, run_coordinator};
use crate::run_report::RunReport;
use crate::sparse::{
    HogwildTrainer, InPlaceWorker, RowByRowWorker, SharedTable, SparseWorker, TableLink,
    TableTrainer, is_row_by_row,
};
use crate::step_recorder::StepRecorder;
use crate::training_task::TrainingTask;
use crate::workload::{LoopConfig, loop_trace};

/// The name of the only shard.
const SHARD: ShardPlace<'static> =
    ShardPlace { index: 0, count: 1, is_spread: false, task: "worker:0" };

/// Trains a whole run of a dense model in this process.
pub(crate) fn train_dense(task: &TrainingTask<'_>) -> Result<RunReport, TrainError> {
    let (settings, workload) = (task.settings, task.workload);
    let model = workload.small_model()?;
    let link = match task.from {
        None => LocalLink::new(&*model, settings)?,
        Some(from) => LocalLink::resume(&*model, settings.optimizer.clone(), from)?,
    };
    let layout = model.layout();
    let checkpoints = task.checkpoint_writer(layout, SHARD, 0..layout.len())?;
    let mut link = link.with_checkpoints(checkpoints);
    drop(model);
    let tracer = task.tracer();
    let loop_threads = task.threads.per_loop(1);
    let config = LoopConfig {
        slot: 0,
        plan: task.batches(),
        threads: loop_threads,
        step_recorder: start_recording(task, &link)?,
        tracer: tracer.as_ref(),
        model: None,
        stop: None,
    };
    let mut worker = workload.dense_worker(settings, config)?;
    // A step of a large network takes seconds: no other task waits for it.
    let context = task.context.clone();
    worker.model.stop_when(Arc::new(move || context.stop_signal().is_some()));
    let options = CoordinatorOptions {
        has_test_thread: false,
        test_threads: task.test_threads,
        loop_threads,
        reproducible: false,
        tracer: tracer.as_ref(),
        combine: &|report| report,
    };
    run_coordinator(task, &mut link, &mut worker, options)
}

/// Trains a whole run of a sparse model in this process: on one thread, or on several that share
/// the table without locks. Tests run on a thread of their own while training continues.
pub(crate) fn train_sparse(task: &TrainingTask<'_>) -> Result<RunReport, TrainError> {
    let (settings, threads) = (task.settings, task.place.slots);
    let (_, model) = task.workload.sparse_parts()?;
    let shared = match task.from {
        None => SharedTable::new(settings, &*model, threads)?,
        Some(from) => SharedTable::resume(settings, &*model, threads, from)?,
    };
    let tracer = task.tracer();
    let link = TableLink::new(&shared, 0);
    let mut step_recorder = start_recording(task, &link)?;
    step_recorder.trace = loop_trace(tracer.as_ref(), settings, &*model);
    let layout = model.layout();
    let checkpoints = task.checkpoint_writer(layout, SHARD, 0..layout.len())?;
    let mut link = link.with_checkpoints(checkpoints);
    let mut trainer = table_worker(task, &shared, 0, step_recorder)?;
    if threads > 1 {
        let others = (1..threads).map(|slot| {
            let unrecorded = StepRecorder::start(Box::new(()), settings, slot);
            table_worker(task, &shared, slot, unrecorded)
        });
        trainer = Box::new(HogwildTrainer::new(trainer, others.collect::<Result<_, _>>()?));
    }
    let options = CoordinatorOptions {
        has_test_thread: true,
        test_threads: 1,
        loop_threads: threads,
        // A test that may end the run must be over before the next one is due.
        reproducible: threads == 1
            && (settings.stop.test_loss.is_some() || settings.stop.patience.is_some()),
        tracer: tracer.as_ref(),
        combine: &|report| report,
    };
    run_coordinator(task, &mut link, &mut *trainer, options)
}

/// The training loop of a slot over the shared table.
fn table_worker<'a>(
    task: &'a TrainingTask<'_>,
    shared: &SharedTable,
    slot: usize,
    step_recorder: StepRecorder,
) -> Result<Box<TableTrainer<'a>>, TrainError> {
    let plan = task.batches();
    let config = task.workload.sparse_loop(task.settings, slot, plan, step_recorder)?;
    Ok(if shared.steps_in_place(&*config.model) {
        Box::new(InPlaceWorker::new(config))
    } else if is_row_by_row(&*config.model) {
        Box::new(RowByRowWorker::new(config))
    } else {
        Box::new(SparseWorker::new(config))
    })
}

/// Records the run's first loop, which alone has a recorder.
fn start_recording(task: &TrainingTask<'_>, link: &impl Link) -> Result<StepRecorder, TrainError> {
    let mut recorder = task.context.recorder()?;
    recorder.start(task.run_start(0, link)).map_err(record_failure)?;
    Ok(StepRecorder::start(recorder, task.settings, 0))
}
