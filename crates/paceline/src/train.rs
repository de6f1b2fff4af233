//! `paceline train`: from a job to a run directory.

use std::path::PathBuf;

use paceline_data::{BatchPlan, ImageSet};
use paceline_model::{Model, Softmax};
use paceline_observe::{Phase, PhaseClock, process};

use crate::board::Board;
use crate::chief::{Chief, StopReason};
use crate::interrupt::Interrupt;
use crate::job::{ModelKind, Plan, RawJob};
use crate::link::{Link, Local};
use crate::progress::Progress;
use crate::run::RunDir;
use crate::source::load_data;
use crate::summary::{Summary, TaskSummary};
use crate::tester::{TEST_BATCH, Tester};
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
    pub run: RunDir,
    /// The run in numbers.
    pub summary: Summary,
    /// Why it ended.
    pub reason: StopReason,
}

/// Trains what the job says and leaves a run directory.
pub fn train(job: &RawJob, options: &Options, interrupt: Interrupt) -> Result<Finished, Failure> {
    let plan = job.check()?;
    let progress = Progress::new(options.quiet);
    let data = load_data(job, &plan)?;
    let run = RunDir::create(options.run_dir.as_deref(), &plan.name)?;
    run.write("job.toml", job.explain().as_bytes())?;
    progress.say(&format!(
        "{}: {} on {} examples ({}), into {}",
        plan.name,
        plan.model.name(),
        data.train.len(),
        data.origin,
        run.path().display()
    ));
    train_single(&plan, &data, run, progress, interrupt)
}

/// The model of a plan, for examples like those of the data.
pub fn build_model(plan: &Plan, data: &ImageSet, max_batch: usize) -> Box<dyn Model> {
    match plan.model {
        ModelKind::Softmax => {
            Box::new(Softmax::new(data.train.inputs(), data.train.classes(), max_batch))
        }
    }
}

/// The batch plan of a plan.
fn batch_plan(plan: &Plan, examples: usize) -> BatchPlan {
    let mut batches = BatchPlan::new(examples, plan.batch, 1);
    if plan.data.shuffle {
        batches = batches.shuffled(plan.seed);
    }
    match plan.stop.epochs {
        Some(epochs) => batches.for_epochs(epochs),
        None => batches,
    }
}

fn train_single(
    plan: &Plan,
    data: &ImageSet,
    run: RunDir,
    progress: Progress,
    interrupt: Interrupt,
) -> Result<Finished, Failure> {
    let task = "worker:0";
    let model = build_model(plan, data, plan.batch);
    let mut board = Board::create(&run.task(task), plan)?;
    board.describe(plan, &model.graph())?;
    let mut link = Local::new(&*model, plan.seed, plan.optimizer);
    let tester =
        Tester::new(&data.test, plan.evaluate.examples, build_model(plan, data, TEST_BATCH));
    let batches = batch_plan(plan, data.train.len());
    let epoch_steps = plan.stop.epochs.map(|_| batches.steps());
    let mut chief = Chief::new(plan.stop, plan.evaluate, epoch_steps, tester, progress, interrupt);
    let clock = PhaseClock::start(Phase::Input);
    let mut worker = Worker { slot: 0, batches, images: &data.train, model, board, clock };

    let work = worker.run(&mut link, &mut chief);
    chief.finish();
    let work = work.inspect_err(|_| drop(worker.board.finish(false)))?;
    let totals = worker.clock.totals();
    let seconds = totals.elapsed().as_secs_f64();

    let step = link.global_step();
    let params = link.pull()?;
    let tally = chief.final_test(step, params, &mut worker.board)?;
    worker.board.finish(true)?;
    save_model(&run, &*worker.model, params, step)?;
    let summary = Summary {
        name: plan.name.clone(),
        mode: plan.mode.name(),
        workers: 1,
        servers: 0,
        batch: plan.batch,
        stop_reason: work.reason.name(),
        global_steps: step,
        examples: work.examples,
        seconds,
        train_loss: chief.train_loss(),
        test_loss: tally.loss(),
        test_accuracy: tally.accuracy(),
        steps_per_second: step as f64 / seconds,
        examples_per_second: work.examples as f64 / seconds,
        bytes_per_step: 0.0,
        tasks: vec![task_summary(task, &work, seconds, totals.seconds().to_vec())],
    };
    write_summary(&run, &summary)?;
    Ok(Finished { run, summary, reason: work.reason })
}

fn task_summary(
    task: &str,
    work: &Work,
    seconds: f64,
    phases: Vec<(&'static str, f64)>,
) -> TaskSummary {
    TaskSummary {
        task: task.to_owned(),
        steps: work.steps,
        dropped: 0,
        seconds,
        phases,
        cpu_seconds: process::cpu_seconds(),
        peak_rss_bytes: process::peak_rss_bytes(),
        sent_bytes: 0,
        received_bytes: 0,
    }
}

fn save_model(run: &RunDir, model: &dyn Model, params: &[f32], step: u64) -> Result<(), Failure> {
    model_file::save(&run.path().join("model.safetensors"), model.layout(), params, step)
}

fn write_summary(run: &RunDir, summary: &Summary) -> Result<(), Failure> {
    let mut json = serde_json::to_vec_pretty(summary)
        .map_err(|error| Failure::Training(format!("summary.json: {error}")))?;
    json.push(b'\n');
    run.write("summary.json", &json)
}
