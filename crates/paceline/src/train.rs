//! `paceline train`: from a job to a run directory.

use std::path::{Path, PathBuf};
use std::thread;

use paceline_data::{BatchPlan, LoaderOptions, SparseRows};
use paceline_model::{AlexNet, Layout, Logistic, Model, Score, Softmax, lenet};

use crate::board::Board;
use crate::checkpoint::{Checkpoint, Keeper, Origin, Resumption, Shape as WalkShape, Shelf, Terms};
use crate::chief::{Chief, Orders, StopReason};
use crate::cluster::{Cluster, Leash, launch, task};
use crate::examples::{Examples, ImageExamples, PictureExamples, RowExamples, Walk};
use crate::interrupt::Interrupt;
use crate::job::{Mode, ModelKind, Plan, RawJob};
use crate::link::{DenseLink, Link, Local, RowLink};
use crate::progress::{Progress, write_line};
use crate::rows::{LocalRows, RowTester, RowWorker, SharedTable};
use crate::run::RunDir;
use crate::source::{Data, Shape, load_data};
use crate::summary::{Summary, TaskSummary};
use crate::tester::{Aside, Examiner, InBetween, SourceTester, Tester, Tests};
use crate::worker::{Desk, Trainer, Work, Worker};
use crate::{Failure, model_file};

/// Examples that the networks work on at a time: their memory grows with it, and beyond this
/// their speed does not.
const LENET_BLOCK: usize = 128;
const ALEXNET_BLOCK: usize = 64;

/// What the one task of a run without others is called.
const ALONE: &str = "worker:0";

/// What the command line adds to a job.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The run directory, if not one under `runs/`.
    pub run_dir: Option<PathBuf>,
    /// The run that is to go on.
    pub resume: Option<PathBuf>,
    /// The step of its checkpoint to go on from, if not the newest.
    pub checkpoint: Option<u64>,
    /// Nothing but errors on standard error.
    pub quiet: bool,
}

impl Options {
    /// The checkpoint to go on from, if a run is to go on. Those that are passed over are told of,
    /// however quiet the rest is.
    pub(crate) fn checkpoint(&self) -> Result<Option<Checkpoint>, Failure> {
        let Some(run) = &self.resume else { return Ok(None) };
        let shelf = Shelf::of(run);
        let Some(step) = self.checkpoint else { return shelf.newest(&mut write_line).map(Some) };
        let wrong = |why| Failure::Usage(format!("the checkpoint of step {step}: {why}"));
        shelf.verify(step).map(Some).map_err(wrong)
    }

    /// The directory of the run that this process leads: a new one, or that of the run which is
    /// to go on, made ready for it.
    pub(crate) fn open_run(
        &self,
        name: &str,
        from: Option<&Checkpoint>,
    ) -> Result<RunDir, Failure> {
        let (Some(path), Some(from)) = (&self.resume, from) else {
            return RunDir::create(self.run_dir.as_deref(), name);
        };
        let run = RunDir::reopen(path)?;
        Shelf::of(path).set_aside_after(from.manifest.about.step)?;
        Ok(run)
    }

    /// Something for a person to read, unless nothing is to be said.
    pub(crate) fn say(&self, text: &str) {
        if !self.quiet {
            write_line(text);
        }
    }
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

/// How much a model works on at a time.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Examples of a block.
    pub block: usize,
    /// Threads.
    pub threads: usize,
}

impl Room {
    /// For a model of which only the layout matters.
    pub const LEAST: Room = Room { block: 1, threads: 1 };

    /// For training with a plan's batch, or for tests.
    fn of(plan: &Plan, threads: usize) -> Self {
        Room { block: plan.batch, threads }
    }
}

/// The model of a plan, for examples of this shape.
pub fn build_model(plan: &Plan, shape: Shape, room: Room) -> Result<Box<dyn Model>, Failure> {
    let block = |most: usize| room.block.clamp(1, most);
    let network = match plan.model {
        ModelKind::Softmax => return Ok(Box::new(Softmax::new(shape.inputs(), shape.classes))),
        ModelKind::Logistic { .. } => return Ok(Box::new(Logistic::new(shape.inputs()))),
        ModelKind::LeNet => lenet(block(LENET_BLOCK), room.threads),
        ModelKind::AlexNet { dropout } => {
            let sizes =
                AlexNet { classes: shape.classes, size: shape.planes[1], ..AlexNet::default() };
            AlexNet { dropout, ..sizes }.network(block(ALEXNET_BLOCK), room.threads)
        }
    };
    match network {
        Ok(network) => Ok(Box::new(network)),
        Err(error) => Err(Failure::Usage(format!("model.kind = {:?}: {error}", plan.model.name()))),
    }
}

/// Who tests the plan's model, with so many threads.
pub(crate) fn build_examiner<'a>(
    plan: &Plan,
    data: &'a Data,
    threads: usize,
) -> Result<Box<dyn Examiner + 'a>, Failure> {
    let examples = plan.evaluate.examples;
    let model = || build_model(plan, data.shape(), Room { block: usize::MAX, threads });
    Ok(match data {
        Data::Images(set) => Box::new(Tester::new(&set.test, examples, model()?)),
        Data::Pictures(set) => {
            Box::new(SourceTester::new(set.test.clone(), examples, plan.data.on_bad, model()?))
        }
        Data::Rows(set) => {
            let tester = RowTester::new(&set.test, examples);
            match plan.model.is_sparse() {
                true => Box::new(tester),
                false => Box::new(tester.of_all_parameters()),
            }
        }
    })
}

/// The examples of a slot of a dense model.
fn build_examples<'a>(plan: &Plan, data: &'a Data, walk: Walk) -> Box<dyn Examples + 'a> {
    match data {
        Data::Images(set) => Box::new(ImageExamples::new(walk, &set.train)),
        Data::Rows(set) => Box::new(RowExamples::new(walk, &set.train)),
        Data::Pictures(set) => {
            let options = LoaderOptions { on_bad: plan.data.on_bad, ..LoaderOptions::default() };
            Box::new(PictureExamples::new(walk, set.train.clone(), options))
        }
    }
}

/// A worker of the plan's model, by whichever loop that needs.
pub(crate) fn build_worker<'a, L: DenseLink + RowLink>(
    plan: &Plan,
    data: &'a Data,
    (slot, batches): (usize, BatchPlan),
    threads: usize,
    desk: Desk,
) -> Result<Box<dyn Trainer<L> + 'a>, Failure> {
    Ok(match data {
        Data::Rows(set) if plan.model.is_sparse() => {
            Box::new(RowWorker::new(slot, batches, &set.train, desk))
        }
        _ => {
            let walk = Walk::new(batches, slot, plan.seed);
            Box::new(build_dense_worker(plan, data, walk, threads, desk)?)
        }
    })
}

fn build_dense_worker<'a>(
    plan: &Plan,
    data: &'a Data,
    walk: Walk,
    threads: usize,
    desk: Desk,
) -> Result<Worker<'a>, Failure> {
    let model = build_model(plan, data.shape(), Room::of(plan, threads))?;
    Ok(Worker { examples: build_examples(plan, data, walk), model, desk })
}

/// A whole run in this process.
fn train_single(
    job: &RawJob,
    plan: &Plan,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<Finished, Failure> {
    let progress = Progress::new(options.quiet);
    let data = load_data(job, plan, &mut |text| progress.say(text))?;
    let checkpoint = options.checkpoint()?;
    let slots = if plan.model.is_sparse() { plan.threads_here(1) } else { 1 };
    let shape = WalkShape::of(plan, slots);
    let from = checkpoint.clone().map(|checkpoint| Resumption::new(checkpoint, shape));
    if let Some(from) = &from {
        check_unfinished(plan, from, data.train_len())?;
        let model = build_model(plan, data.shape(), Room::LEAST)?;
        from.check(model.layout(), &plan.optimizer)?;
    }
    let run = options.open_run(&plan.name, checkpoint.as_ref())?;
    run.write("job.toml", job.explain().as_bytes())?;
    progress.say(&announcement(plan, &data, run.path()));
    let from = from.as_ref();
    from.iter().for_each(|from| progress.say(&resumed(from.step())));
    let alone = Alone { job, plan, data: &data, run: &run, interrupt, shape, from };
    match &data {
        Data::Rows(set) if plan.model.is_sparse() => alone.train_rows(&set.train, progress),
        _ => alone.train_dense(progress),
    }
}

/// A run without other tasks.
struct Alone<'a> {
    job: &'a RawJob,
    plan: &'a Plan,
    data: &'a Data,
    run: &'a RunDir,
    interrupt: &'a Interrupt,
    shape: WalkShape,
    /// What the run goes on from, if it does.
    from: Option<&'a Resumption>,
}

impl<'a> Alone<'a> {
    fn train_dense(&self, progress: Progress) -> Result<Finished, Failure> {
        let batches = self.data.batches(self.plan, 1, self.origin());
        let steps = batches.steps();
        let model = build_model(self.plan, self.data.shape(), Room::LEAST)?;
        let mut link = match self.from {
            None => Local::new(&*model, self.plan.seed, self.plan.optimizer),
            Some(from) => Local::resume(&*model, self.plan.optimizer, from)?,
        };
        link.keep(self.keeper(model.layout())?);
        drop(model);
        let threads = self.plan.threads_here(1);
        let tests = InBetween::new(build_examiner(self.plan, self.data, threads)?);
        let chief = self.chief(steps, Box::new(tests), false, progress);
        let walk = Walk::new(batches, 0, self.plan.seed);
        let worker = build_dense_worker(self.plan, self.data, walk, threads, self.desk()?)?;
        self.carry_out(worker, &mut link, chief, |worker, link, chief| worker.run(link, chief))
    }

    /// One thread, or several that share the table without locks. Tests are made on a thread of
    /// their own, while training goes on.
    fn train_rows(&self, rows: &'a SparseRows, progress: Progress) -> Result<Finished, Failure> {
        let threads = self.plan.threads_here(1);
        let batches = self.data.batches(self.plan, threads, self.origin());
        let steps = all_steps(&batches, self.shape, self.origin());
        let model = Logistic::new(rows.features());
        let (optimizer, layout) = (self.plan.optimizer, model.layout());
        let shared = match self.from {
            None => SharedTable::new(optimizer, layout, threads),
            Some(from) => SharedTable::resume(optimizer, layout, threads, from)?,
        };
        let worker = |slot, desk| RowWorker::new(slot, batches.clone(), rows, desk);
        thread::scope(|scope| {
            let tests = Aside::start(scope, build_examiner(self.plan, self.data, 1)?);
            // A test that may end the run must be over before the next one is due.
            let reproducible = threads == 1 && self.plan.stop.test_loss.is_some();
            let chief = self.chief(steps, Box::new(tests), reproducible, progress);
            let mut link = LocalRows::new(&shared, 0);
            link.keep(self.keeper(layout)?);
            self.carry_out(worker(0, self.desk()?), &mut link, chief, |first, link, chief| {
                let others: Vec<_> = (1..threads)
                    .map(|slot| {
                        let mut other = worker(slot, Desk::open(None, 1.0));
                        let mut link = LocalRows::new(&shared, slot);
                        scope.spawn(move || other.run(&mut link, None))
                    })
                    .collect();
                let work = first.run(link, chief);
                if !matches!(&work, Ok(Work { reason: Some(StopReason::Epochs), .. })) {
                    shared.stop();
                }
                others.into_iter().try_fold(work?, |sum, other| {
                    let Ok(work) = other.join() else { unreachable!("a panic ends the scope") };
                    Ok(sum.with(&work?))
                })
            })
        })
    }

    fn desk(&self) -> Result<Desk, Failure> {
        let mut board = Board::create(&self.run.task(ALONE), self.plan)?;
        let model = build_model(self.plan, self.data.shape(), Room::LEAST)?;
        match self.from {
            None => board.describe(self.plan, &model.graph())?,
            Some(from) => board.resume_at(from.step())?,
        }
        Ok(Desk::open(Some(board), 1.0))
    }

    fn origin(&self) -> Origin {
        self.from.map_or(Origin::default(), Resumption::origin)
    }

    /// Who takes checkpoints, if they are taken.
    fn keeper(&self, layout: &Layout) -> Result<Option<Keeper>, Failure> {
        let (job, walk) = ((self.job, self.plan), (self.shape, self.origin()));
        let terms = Terms::new(self.run, job, layout, walk, (0, 1), "worker-0");
        let warn = |text: &str| write_line(&format!("warning: {text}"));
        let told = move |written: Result<&str, &str>| written.err().into_iter().for_each(warn);
        let keeper = terms.map(|terms| Keeper::start(terms, Box::new(told)));
        keeper.transpose().map_err(|source| Failure::Files {
            what: "cannot start the thread that writes checkpoints".into(),
            source,
        })
    }

    fn chief(
        &self,
        epoch_steps: u64,
        tests: Box<dyn Tests + 'a>,
        reproducible: bool,
        progress: Progress,
    ) -> Chief<'a> {
        let interrupt = self.interrupt;
        Chief::new(Orders {
            stop: self.plan.stop,
            evaluate: self.plan.evaluate,
            checkpoint: self.plan.checkpoint,
            begun_at: self.from.map_or(0, Resumption::step),
            joined_at: self.from.map_or(0, Resumption::step),
            epoch_steps: self.plan.stop.epochs.map(|_| epoch_steps),
            examples_per_step: self.plan.batch,
            tests,
            reproducible,
            progress,
            interrupted: Box::new(|| interrupt.signal()),
        })
    }

    /// Trains, tests for the last time, and leaves everything behind that a run leaves.
    fn carry_out<W: Trainer<L>, L: Link>(
        &self,
        mut worker: W,
        link: &mut L,
        mut chief: Chief<'_>,
        run: impl FnOnce(&mut W, &mut L, Option<&mut Chief<'_>>) -> Result<Work, Failure>,
    ) -> Result<Finished, Failure> {
        let work = run(&mut worker, link, Some(&mut chief));
        chief.finish();
        let work = work.inspect_err(|_| drop(worker.desk().close(false)))?;
        let mine = worker_summary(ALONE, worker.desk(), &work);
        let score = chief.final_test(link, worker.desk().board.as_mut())?;
        worker.desk().close(true)?;
        chief.final_checkpoint(link)?;
        save_model(self.run, worker.layout(), link)?;
        let (reason, step) = (chief.reason().or(work.reason), link.global_step());
        let summary = summarise(self.plan, (1, 0), reason, step, &chief, score, vec![mine]);
        write_summary(self.run, &summary)?;
        let run = self.run.path().to_owned();
        Ok(Finished { run, summary, signal: signal_of(reason) })
    }
}

/// Steps that all slots make together until the plan is through, as updates are counted.
pub(crate) fn all_steps(batches: &BatchPlan, shape: WalkShape, origin: Origin) -> u64 {
    match shape.common_step {
        true => batches.steps(),
        false => {
            let left = batches.steps().saturating_sub(origin.step);
            left.saturating_mul(shape.slots as u64).saturating_add(origin.step)
        }
    }
}

/// Refuses to go on with a run that had come to its end.
pub(crate) fn check_unfinished(
    plan: &Plan,
    from: &Resumption,
    examples: usize,
) -> Result<(), Failure> {
    let (step, position) = (from.step(), from.position());
    let by_steps = plan.stop.steps.is_some_and(|steps| step >= steps);
    let end = |epochs: u64| epochs.saturating_mul(examples as u64);
    let by_epochs = plan.stop.epochs.is_some_and(|epochs| position >= end(epochs));
    match by_steps || by_epochs {
        false => Ok(()),
        true => Err(Failure::Usage(format!(
            "the run had come to its end at step {step}, and there is nothing left to do; with \
             --set train.stop.steps=... or epochs=... it can go on further"
        ))),
    }
}

/// That a run goes on, in a line.
pub(crate) fn resumed(step: u64) -> String {
    format!("going on from the checkpoint of step {step}")
}

/// What is about to be trained, in a line.
pub(crate) fn announcement(plan: &Plan, data: &Data, run: &Path) -> String {
    format!(
        "{}: {} on {} examples ({}), into {}",
        plan.name,
        plan.model.name(),
        data.train_len(),
        data.origin(),
        run.display()
    )
}

/// What a worker did, as it goes into the summary.
pub(crate) fn worker_summary(task: &str, desk: &Desk, work: &Work) -> TaskSummary {
    TaskSummary {
        steps: work.steps,
        dropped: work.dropped,
        examples: work.examples,
        ..TaskSummary::of(task, &desk.clock.totals())
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
    let made = global_steps.saturating_sub(chief.begun_at());
    let moved: u64 = tasks.iter().map(|task| task.sent_bytes).sum();
    Summary {
        name: plan.name.clone(),
        mode: plan.cluster.mode.name().to_owned(),
        workers,
        servers,
        batch: plan.batch,
        stop_reason: reason.unwrap_or(StopReason::Steps).name().to_owned(),
        resumed_from: Some(chief.begun_at()).filter(|&step| step > 0),
        global_steps,
        examples,
        seconds,
        train_loss: chief.train_loss(),
        test_loss: score.loss,
        test_accuracy: score.accuracy,
        test_log_loss: score.is_two_class.then_some(score.loss),
        test_auc: score.auc,
        test_precision: score.precision,
        steps_per_second: made as f64 / seconds,
        examples_per_second: examples as f64 / seconds,
        bytes_per_step: moved as f64 / made as f64,
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

/// Writes the model as the link shows it.
pub(crate) fn save_model(
    run: &RunDir,
    layout: &Layout,
    link: &mut impl Link,
) -> Result<(), Failure> {
    let (path, step) = (run.path().join("model.safetensors"), link.global_step());
    model_file::save(&path, layout, step, |show| link.show_all(show))
}

pub(crate) fn write_summary(run: &RunDir, summary: &Summary) -> Result<(), Failure> {
    let mut json = serde_json::to_vec_pretty(summary)
        .map_err(|error| Failure::Training(format!("summary.json: {error}")))?;
    json.push(b'\n');
    run.write("summary.json", &json)
}
