//! A worker of a run without servers: mode `mirrored`.

use std::net::TcpListener;
use std::thread;

use paceline_observe::Recorder;

use crate::checkpoint::ShardPlace;
use crate::context::NoteLevel;
use crate::error::{Ending, TrainError, record_failure};
use crate::lead::{LeadConfig, encode_report, lead, train};
use crate::link::Link;
use crate::loop_trace::traced;
use crate::mesh_link::{MeshLink, MeshStart};
use crate::run_report::RunReport;
use crate::step_recorder::StepRecorder;
use crate::test_runner::BackgroundEvaluator;
use crate::trainer::Trainer;
use crate::training_task::{TrainingTask, slowdown};
use crate::workload::LoopConfig;

/// Trains the worker's slot with all other workers. Only the coordinator returns a report.
pub(crate) fn train_replica(
    task: &TrainingTask<'_>,
    listener: Option<TcpListener>,
) -> Result<Option<RunReport>, TrainError> {
    let (settings, workload, place) = (task.settings, task.workload, task.place);
    let slot = place.slot.unwrap_or(0);
    let model = workload.small_model()?;
    let mut recorder = task.context.recorder()?;
    let tracer = task.tracer();
    let level = if slot == 0 { NoteLevel::Warning } else { NoteLevel::Info };
    let notify = |text: &str| task.note(level, text);
    let gives_up = || task.context.stop_signal().is_some() || task.is_late();
    let shard = ShardPlace { index: slot, count: place.slots, task: &place.name };
    let checkpoints = task.checkpoint_writer(model.layout(), shard)?;
    let dir = task.checkpoints.filter(|_| settings.checkpoint.is_some());
    let from = task.from;
    let start = MeshStart { settings, place, listener, checkpoints: dir, from };
    let link = MeshLink::connect(start, &*model, checkpoints, &notify, &gives_up);
    let Some(mut link) = task.unless_late(link)? else { return Ok(None) };
    recorder.start(task.run_start(slot, &link)).map_err(record_failure)?;
    drop(model);
    let config = LoopConfig {
        slot,
        plan: task.batches(),
        threads: task.threads.per_loop(1),
        account: StepRecorder::start(recorder, slowdown(slot)),
        tracer: tracer.as_ref(),
    };
    let mut worker = workload.dense_worker(settings, config)?;
    if slot == 0 {
        let evaluator = workload.evaluator(settings.evaluate.examples, 1)?;
        return thread::scope(|scope| {
            let tests = BackgroundEvaluator::start(scope, traced(tracer.as_ref(), evaluator));
            let tests = Box::new(tests);
            let config = LeadConfig { tests, reproducible: true, combine: &|report| report };
            lead(task, &mut link, &mut worker, config).map(Some)
        });
    }
    let left = train_and_leave(task, &mut link, &mut worker);
    worker.account.finish(left.is_ok()).and(left).map(|()| None)
}

/// Trains to the end of the run and leaves.
fn train_and_leave<L: Link>(
    task: &TrainingTask<'_>,
    link: &mut L,
    worker: &mut dyn Trainer<L>,
) -> Result<(), TrainError> {
    let left = train(worker, link, None).and_then(|work| {
        let report = task.task_summary(worker.account(), &work, link);
        // Before leaving: the coordinator merges the timelines once every worker has left.
        task.finish_timeline(worker.account());
        link.leave(&encode_report(&report))
    });
    match Ending::of(left)? {
        Ending::Done(()) => Ok(()),
        Ending::Rewound => unreachable!("a run without servers is never rewound"),
    }
}
