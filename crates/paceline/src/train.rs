//! `paceline train`: from a job to a run directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_data::BatchPlan;
use paceline_model::{Layout, Model, Score};
use paceline_record::events::HParam;
use paceline_record::{EventLogConfig, RunDescription};

use crate::alone::train_single;
use crate::checkpoint::{Checkpoint, Origin, Resumption, Shape, Shelf};
use crate::chief::{Chief, StopReason};
use crate::cluster::{Cluster, Leash, launch, task};
use crate::interrupt::Interrupt;
use crate::job::{Mode, Plan, RawJob};
use crate::link::Link;
use crate::progress::write_line;
use crate::source::Data;
use crate::watch::Watching;
use crate::worker::{Desk, Work};
use crate::{Failure, account};
use paceline_observe::Recorder;
use paceline_record::names::files;
use paceline_record::{RunDir, model_file};
use paceline_record::{Summary, TaskSummary};

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
    /// The page that shows the run, if somebody wants to see it.
    pub watch: Option<Arc<Watching>>,
    /// In benches: tasks leave their accounting out.
    pub bare: bool,
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
        let run = match (&self.resume, from) {
            (Some(path), Some(from)) => {
                let run = RunDir::reopen(path)?;
                Shelf::of(path).set_aside_after(from.manifest.about.step)?;
                run
            }
            _ => RunDir::create(self.run_dir.as_deref(), name)?,
        };
        self.watch.iter().for_each(|watch| watch.begin(run.path()));
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
        (_, Some(_)) if options.watch.is_some() => Err(Failure::Usage(
            "--watch is for runs that this command starts, and TF_CONFIG makes it one task of many; \
             use `paceline watch RUN` where the run directory is"
                .into(),
        )),
        (Mode::Single, _) => train_single(job, &plan, options, interrupt).map(Some),
        (_, Some(cluster)) => task::run(job, &plan, &cluster, options, interrupt, leash),
        (_, None) => launch::launch(job, &plan, options, interrupt).map(Some),
    }
}

/// Steps that all slots make together until the plan is through, as updates are counted.
pub(crate) fn all_steps(batches: &BatchPlan, shape: Shape, origin: Origin) -> u64 {
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

/// How a run ended, in a line for the log.
pub(crate) fn ending(summary: &Summary) -> String {
    let verdict = summary.verdict.as_ref().map_or("", |verdict| &verdict.text);
    format!(
        "done ({}) at step {}: test loss {:.4}, accuracy {:.2} %; {verdict}",
        summary.stop_reason,
        summary.global_steps,
        summary.test_loss,
        100.0 * summary.test_accuracy,
    )
}

/// What a task's event log records.
pub(crate) fn event_log_config(plan: &Plan, task: &str) -> EventLogConfig {
    EventLogConfig {
        loss_every: plan.observe_every,
        sample: plan.observe_sample,
        ..EventLogConfig::new(task)
    }
}

/// What is trained, for TensorBoard.
pub(crate) fn description(plan: &Plan, model: &dyn Model) -> RunDescription {
    let hparams = vec![
        HParam::new("model", plan.model.name()),
        HParam::new("data", plan.data.kind.name()),
        HParam::new("mode", plan.cluster.mode.name()),
        HParam::new("batch", plan.batch as i64),
        HParam::new("rate", f64::from(plan.optimizer.weights.rate.at(0))),
        HParam::new("optimizer", plan.optimizer.rule.name()),
        HParam::new("seed", plan.seed as i64),
    ];
    RunDescription { graph: model.graph(), hparams }
}

/// What a worker did, as it goes into the summary.
pub(crate) fn worker_summary(task: &str, desk: &Desk, work: &Work) -> TaskSummary {
    let tested = desk.tested.as_secs_f64();
    TaskSummary {
        steps: work.steps,
        dropped: work.dropped,
        lost: work.lost,
        examples: work.examples,
        evaluation_seconds: (tested > 0.0).then_some(tested),
        resources: desk.board.resources(),
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
    mut tasks: Vec<TaskSummary>,
) -> Summary {
    let (verdict, ranking) = account::judge(plan.cluster.mode.name(), &mut tasks);
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
        lost_pushes: tasks.iter().map(|task| task.lost).sum(),
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
        verdict: Some(verdict),
        ranking,
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
    let (path, step) = (run.path().join(files::MODEL), link.global_step());
    model_file::save(&path, layout, step, |show| link.show_all(show))
}

pub(crate) fn write_summary(run: &RunDir, summary: &Summary) -> Result<(), Failure> {
    Ok(summary.write(run)?)
}
