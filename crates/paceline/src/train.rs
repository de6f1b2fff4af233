//! `paceline train`: from a job to a run directory.

use std::path::{Path, PathBuf};

use paceline_data::{BatchPlan, ImageSet};
use paceline_model::{Layout, Model, Score, Softmax};
use paceline_observe::{Phase, PhaseClock};

use crate::board::Board;
use crate::chief::{Chief, Orders, StopReason};
use crate::cluster::{Cluster, Leash, launch, task};
use crate::interrupt::Interrupt;
use crate::job::{Mode, ModelKind, Plan, RawJob};
use crate::link::{Link, Local};
use crate::progress::Progress;
use crate::run::RunDir;
use crate::source::{Shape, load_data};
use crate::summary::{Summary, TaskSummary};
use crate::tester::{InBetween, Tester};
use crate::worker::{Work, Worker};
use crate::{Failure, model_file};

/// What the command line adds to a job.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The run directory, if not one under `runs/`.
    pub run_dir: Option<PathBuf>,
    /// Nothing but errors on standard error.
    pub quiet: bool,
}

/// A run that has come to its end, in good order.
#[derive(Debug)]
pub struct Finished {
    /// Where everything is.
    pub run: PathBuf,
    /// The run in numbers.
    pub summary: Summary,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
}

/// Trains what the job says, as whichever part of a run this process is: the whole of it, the
/// launcher of its tasks, or one task. Only the first two have a result to show.
pub fn train(
    job: &RawJob,
    options: &Options,
    interrupt: &Interrupt,
    leash: Option<&Leash>,
) -> Result<Option<Finished>, Failure> {
    let plan = job.check()?;
    let cluster = Cluster::from_env()?;
    match (plan.cluster.mode, cluster) {
        (Mode::Single, Some(cluster)) if cluster.slots() > 1 => Err(Failure::Usage(format!(
            "TF_CONFIG lists {} workers, but cluster.mode is single; choose a mode that shares",
            cluster.slots()
        ))),
        (Mode::Single, _) => train_single(job, &plan, options, interrupt).map(Some),
        (_, Some(cluster)) => task::run(job, &plan, &cluster, options, interrupt, leash),
        (_, None) => launch::launch(job, &plan, options, interrupt).map(Some),
    }
}

/// The model of a plan, for examples of this shape.
pub fn build_model(plan: &Plan, shape: Shape) -> Box<dyn Model> {
    match plan.model {
        ModelKind::Softmax => Box::new(Softmax::new(shape.inputs, shape.classes)),
    }
}

/// The batch plan of a plan for so many slots.
pub(crate) fn batch_plan(plan: &Plan, examples: usize, slots: usize) -> BatchPlan {
    let mut batches = BatchPlan::new(examples, plan.batch, slots);
    if plan.data.shuffle {
        batches = batches.shuffled(plan.seed);
    }
    match plan.stop.epochs {
        Some(epochs) => batches.for_epochs(epochs),
        None => batches,
    }
}

/// Who tests the plan's model.
pub(crate) fn build_tester<'a>(plan: &Plan, data: &'a ImageSet) -> Tester<'a> {
    let model = build_model(plan, Shape::of(data));
    Tester::new(&data.test, plan.evaluate.examples, model)
}

fn train_single(
    job: &RawJob,
    plan: &Plan,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<Finished, Failure> {
    let task = "worker:0";
    let progress = Progress::new(options.quiet);
    let data = load_data(job, plan)?;
    let run = RunDir::create(options.run_dir.as_deref(), &plan.name)?;
    run.write("job.toml", job.explain().as_bytes())?;
    progress.say(&announcement(plan, &data, run.path()));

    let model = build_model(plan, Shape::of(&data));
    let mut board = Board::create(&run.task(task), plan)?;
    board.describe(plan, &model.graph())?;
    let mut link = Local::new(&*model, plan.seed, plan.optimizer);
    let batches = batch_plan(plan, data.train.len(), 1);
    let mut chief = Chief::new(Orders {
        stop: plan.stop,
        evaluate: plan.evaluate,
        epoch_steps: plan.stop.epochs.map(|_| batches.steps()),
        examples_per_step: plan.batch,
        tests: Box::new(InBetween::new(build_tester(plan, &data))),
        reproducible: false, // It is anyway: a test is over before the next step.
        progress,
        interrupted: Box::new(|| interrupt.signal()),
    });
    let clock = PhaseClock::start(Phase::Input);
    let mut worker =
        Worker { slot: 0, batches, images: &data.train, model, board, clock, slowness: 1.0 };

    let work = worker.run(&mut link, Some(&mut chief));
    chief.finish();
    let work = work.inspect_err(|_| drop(worker.board.finish(false)))?;
    let mine = worker_summary(task, &worker, &work);

    let (step, params) = (link.global_step(), link.params());
    let score = chief.final_test(step, params, &mut worker.board)?;
    worker.board.finish(true)?;
    save_model(&run, worker.model.layout(), params, step)?;
    let reason = chief.reason().or(work.reason);
    let summary = summarise(plan, (1, 0), reason, step, &chief, score, vec![mine]);
    write_summary(&run, &summary)?;
    Ok(Finished { run: run.path().to_owned(), summary, signal: signal_of(reason) })
}

/// What is about to be trained, in a line.
pub(crate) fn announcement(plan: &Plan, data: &ImageSet, run: &Path) -> String {
    format!(
        "{}: {} on {} examples ({}), into {}",
        plan.name,
        plan.model.name(),
        data.train.len(),
        data.origin,
        run.display()
    )
}

/// What a worker did, as it goes into the summary.
pub(crate) fn worker_summary(task: &str, worker: &Worker<'_>, work: &Work) -> TaskSummary {
    TaskSummary {
        steps: work.steps,
        dropped: work.dropped,
        examples: work.examples,
        ..TaskSummary::of(task, &worker.clock.totals())
    }
}

/// The summary of a run, from what its tasks did and what the chief knows.
pub(crate) fn summarise(
    plan: &Plan,
    (workers, servers): (usize, usize),
    reason: Option<StopReason>,
    global_steps: u64,
    chief: &Chief<'_>,
    score: Score,
    tasks: Vec<TaskSummary>,
) -> Summary {
    // Workers start together but need not end together.
    let trained = tasks.iter().filter(|task| task.examples > 0);
    let seconds = trained.map(|task| task.seconds).fold(0.0, f64::max);
    let examples = tasks.iter().map(|task| task.examples).sum();
    let moved: u64 = tasks.iter().map(|task| task.sent_bytes).sum();
    Summary {
        name: plan.name.clone(),
        mode: plan.cluster.mode.name().to_owned(),
        workers,
        servers,
        batch: plan.batch,
        stop_reason: reason.unwrap_or(StopReason::Steps).name().to_owned(),
        global_steps,
        examples,
        seconds,
        train_loss: chief.train_loss(),
        test_loss: score.loss,
        test_accuracy: score.accuracy,
        test_log_loss: score.is_two_class.then_some(score.loss),
        test_auc: score.auc,
        test_precision: score.precision,
        steps_per_second: global_steps as f64 / seconds,
        examples_per_second: examples as f64 / seconds,
        bytes_per_step: moved as f64 / global_steps as f64,
        tasks,
    }
}

/// The signal behind a stop, if one was.
pub(crate) fn signal_of(reason: Option<StopReason>) -> Option<i32> {
    match reason {
        Some(StopReason::Interrupted { signal }) => Some(signal),
        _ => None,
    }
}

pub(crate) fn save_model(
    run: &RunDir,
    layout: &Layout,
    params: &[f32],
    step: u64,
) -> Result<(), Failure> {
    model_file::save(&run.path().join("model.safetensors"), layout, params, step)
}

pub(crate) fn write_summary(run: &RunDir, summary: &Summary) -> Result<(), Failure> {
    let mut json = serde_json::to_vec_pretty(summary)
        .map_err(|error| Failure::Training(format!("summary.json: {error}")))?;
    json.push(b'\n');
    run.write("summary.json", &json)
}
