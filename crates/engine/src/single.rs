//! A run without other tasks: mode `single`.

use std::sync::Arc;
use std::thread;

use paceline_observe::Recorder;
use paceline_observe::trace::Tracer;

use crate::checkpoint::ShardPlace;
use crate::error::{TrainError, record_failure};
use crate::lead::{LeadConfig, lead};
use crate::link::Link;
use crate::local_link::LocalLink;
use crate::loop_trace::traced;
use crate::run_report::RunReport;
use crate::sparse::{HogwildTrainer, InPlaceWorker, SharedTable, SparseWorker, TableLink};
use crate::step_recorder::StepRecorder;
use crate::test_runner::{BackgroundEvaluator, InlineEvaluator};
use crate::trainer::Trainer;
use crate::training_task::TrainingTask;
use crate::workload::{LoopConfig, loop_trace};

/// The name of the only shard.
const SHARD: ShardPlace<'static> = ShardPlace { index: 0, count: 1, task: "worker:0" };

/// Trains a whole run in this process.
pub(crate) fn train(task: &TrainingTask<'_>) -> Result<RunReport, TrainError> {
    if task.workload.is_sparse() { train_sparse(task) } else { train_dense(task) }
}

fn train_dense(task: &TrainingTask<'_>) -> Result<RunReport, TrainError> {
    let (settings, workload) = (task.settings, task.workload);
    let model = workload.small_model()?;
    let optimizer = settings.optimizer.clone();
    let link = match task.from {
        None => LocalLink::new(&*model, settings.seed, optimizer),
        Some(from) => LocalLink::resume(&*model, optimizer, from)?,
    };
    let mut link = link.with_checkpoints(task.checkpoint_writer(model.layout(), SHARD)?);
    drop(model);
    let tracer = task.tracer();
    let evaluator = workload.evaluator(settings.evaluate.examples, task.test_threads)?;
    let tests = InlineEvaluator::new(traced(tracer.as_ref(), evaluator));
    let config = LoopConfig {
        slot: 0,
        plan: task.batches(),
        threads: task.threads.per_loop(1),
        account: start_account(task, &link)?,
        tracer: tracer.as_ref(),
    };
    let mut worker = workload.dense_worker(settings, config)?;
    let config =
        LeadConfig { tests: Box::new(tests), reproducible: false, combine: &|report| report };
    lead(task, &mut link, &mut worker, config)
}

/// Trains on one thread, or on several that share the table without locks. Tests run on a thread
/// of their own while training continues.
fn train_sparse(task: &TrainingTask<'_>) -> Result<RunReport, TrainError> {
    let (rows, model) = task.workload.sparse_parts()?;
    let threads = task.place.slots;
    let optimizer = task.settings.optimizer.clone();
    let shared = match task.from {
        None => SharedTable::new(optimizer, &*model, threads),
        Some(from) => SharedTable::resume(optimizer, &*model, threads, from)?,
    };
    let plan = task.batches();
    if shared.steps_in_place(&*model) {
        train_shared(task, &shared, |slot, account| {
            let (_, model) = task.workload.sparse_parts()?;
            Ok(InPlaceWorker::new(slot, plan.clone(), rows, model, account))
        })
    } else {
        train_shared(task, &shared, |slot, account| {
            let (_, model) = task.workload.sparse_parts()?;
            Ok(SparseWorker::new(slot, plan.clone(), rows, model, account))
        })
    }
}

fn train_shared<W: for<'t> Trainer<TableLink<'t>> + Send>(
    task: &TrainingTask<'_>,
    shared: &SharedTable,
    worker: impl Fn(usize, StepRecorder) -> Result<W, TrainError>,
) -> Result<RunReport, TrainError> {
    let (settings, threads) = (task.settings, task.place.slots);
    thread::scope(|scope| {
        let tracer = task.tracer();
        let evaluator = task.workload.evaluator(settings.evaluate.examples, 1)?;
        let tests = BackgroundEvaluator::start(scope, traced(tracer.as_ref(), evaluator));
        let link = TableLink::new(shared, 0);
        let mut account = start_account(task, &link)?;
        account.trace = sparse_trace(task, tracer.as_ref())?;
        let first = worker(0, account)?;
        let mut link = link.with_checkpoints(task.checkpoint_writer(first.layout(), SHARD)?);
        let others = (1..threads).map(|slot| worker(slot, StepRecorder::silent()));
        let mut trainer = HogwildTrainer::new(first, others.collect::<Result<_, _>>()?);
        let config = LeadConfig {
            tests: Box::new(tests),
            // A test that may end the run must be over before the next one is due.
            reproducible: threads == 1 && settings.stop.test_loss.is_some(),
            combine: &|report| report,
        };
        lead(task, &mut link, &mut trainer, config)
    })
}

fn sparse_trace(
    task: &TrainingTask<'_>,
    tracer: Option<&Arc<Tracer>>,
) -> Result<Option<crate::loop_trace::LoopTrace>, TrainError> {
    let (_, model) = task.workload.sparse_parts()?;
    Ok(loop_trace(tracer, task.settings, &*model))
}

/// The account of the run's only recorded loop.
fn start_account(task: &TrainingTask<'_>, link: &impl Link) -> Result<StepRecorder, TrainError> {
    let mut recorder = task.context.recorder()?;
    recorder.start(task.run_start(0, link)).map_err(record_failure)?;
    Ok(StepRecorder::start(recorder, 1.0))
}
