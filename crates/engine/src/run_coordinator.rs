//! How worker 0 coordinates a run: it trains like any worker, acts on each step as the
//! [`Coordinator`] decides, and ends the run.
//!
//! [`run_coordinator`] is the same for every mode. In `single` there is no other task to leave,
//! collect reports from, or release: the link's methods do nothing.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use paceline_model::Layout;
use paceline_net::LinkOutcome::{self, Done, Rewound};
use paceline_observe::trace::Tracer;
use paceline_observe::{StopReason, TaskSummary, TestLoad, TestPacer};

use crate::best_model::BestKeeper;
use crate::context::{FinalModel, NoteLevel, VisitPiece};
use crate::coordinator::{Coordinator, CoordinatorConfig};
use crate::error::TrainError;
use crate::link::Link;
use crate::loop_trace::traced;
use crate::rewind::{joined_at, rewind};
use crate::run_report::{RunFacts, RunReport, ending, summarise};
use crate::settings::{Mode, TrainSettings};
use crate::step_recorder::WorkDone;
use crate::test_history::TestHistory;
use crate::test_runner::{BackgroundEvaluator, InlineEvaluator, StepScore, TestRunner};
use crate::trainer::Trainer;
use crate::training_task::{TrainingTask, encode_report};

/// What differs between the coordinators of the modes.
pub(crate) struct CoordinatorOptions<'a> {
    /// Whether tests run on a thread of their own while training continues, instead of between two
    /// steps.
    pub(crate) has_test_thread: bool,
    /// Threads that a test computes with.
    pub(crate) test_threads: usize,
    /// Threads of the training loop.
    pub(crate) loop_threads: usize,
    /// See [`CoordinatorConfig::reproducible`].
    pub(crate) reproducible: bool,
    /// The timeline of the task, if it is recorded.
    pub(crate) tracer: Option<&'a Arc<Tracer>>,
    /// Adds what other slots of the process did to the report of slot 0.
    pub(crate) combine: &'a dyn Fn(TaskSummary) -> TaskSummary,
}

/// Trains as the coordinator, through as many rewinds as there are, and ends the run.
pub(crate) fn run_coordinator<L: Link>(
    task: &TrainingTask<'_>,
    link: &mut L,
    trainer: &mut dyn Trainer<L>,
    options: CoordinatorOptions<'_>,
) -> Result<RunReport, TrainError> {
    let tested = task.settings.evaluate.examples;
    let evaluator = task.workload.running_evaluator(tested, options.test_threads)?;
    let (evaluator, watch) = (traced(options.tracer, evaluator), task.test_watch());
    thread::scope(|scope| {
        let tests: Box<dyn TestRunner> = if options.has_test_thread {
            Box::new(BackgroundEvaluator::start(scope, evaluator, watch))
        } else {
            Box::new(InlineEvaluator::new(evaluator, watch))
        };
        let mut coordinator = new_coordinator(task, link, trainer.layout(), tests, &options)?;
        if coordinator.resume(link)? == Rewound {
            rewind(task, link, trainer, Some(&mut coordinator))?;
        }
        loop {
            let ended = match trainer.run(link, Some(&mut coordinator)) {
                Ok(Done(work)) => {
                    end_run(task, link, trainer, &work, &mut coordinator, options.combine)
                }
                Ok(Rewound) => Ok(Rewound),
                Err(error) => Err(error),
            };
            let rewound = match ended {
                Ok(Done(report)) => return Ok(report),
                Ok(Rewound) => rewind(task, link, trainer, Some(&mut coordinator)),
                Err(error) => Err(error),
            };
            if let Err(error) = rewound {
                let _ = trainer.step_recorder().finish(false);
                return Err(error);
            }
        }
    })
}

/// The coordinator of a run, at the step that the link has reached.
fn new_coordinator<'a>(
    task: &'a TrainingTask<'_>,
    link: &impl Link,
    layout: &Layout,
    tests: Box<dyn TestRunner + 'a>,
    options: &CoordinatorOptions<'_>,
) -> Result<Coordinator<'a>, TrainError> {
    let settings = task.settings;
    let joined_at = joined_at(task, link);
    let load = TestLoad {
        examples: task.workload.tested_examples(settings.evaluate.examples),
        relative_cost: task.workload.relative_test_cost(),
        threads: options.test_threads,
        loop_threads: options.loop_threads,
        batch: settings.batch,
    };
    Ok(Coordinator::new(CoordinatorConfig {
        stop: settings.stop,
        best: settings.best,
        keeper: best_keeper(task, layout)?,
        history: test_history(task, joined_at)?,
        pacer: TestPacer::new(settings.evaluate.every, load, joined_at),
        checkpoint: settings.checkpoint,
        started_at: task.started_at(),
        joined_at,
        epoch_steps: settings.stop.epochs.map(|_| task.plan_steps()),
        examples_per_step: settings.examples_per_step(task.place.slots),
        has_exact_steps: !matches!(settings.mode, Mode::Async | Mode::Bounded { .. }),
        tests,
        // Tests that are spaced by their cost decide nothing.
        reproducible: options.reproducible && settings.evaluate.every.is_some(),
        context: &*task.context,
    }))
}

/// Keeps the parameters of the best test, if the run does.
fn best_keeper(task: &TrainingTask<'_>, layout: &Layout) -> Result<Option<BestKeeper>, TrainError> {
    let best = task.settings.best;
    if !best.keep {
        return Ok(None);
    }
    Ok(Some(BestKeeper::new(layout.clone(), best.metric, task.context.kept_best()?)))
}

/// The tests and times of earlier processes of the run. They are written down if the run's end
/// depends on them and it takes checkpoints.
fn test_history(task: &TrainingTask<'_>, joined_at: u64) -> Result<TestHistory, TrainError> {
    let TrainSettings { stop, checkpoint, best, .. } = task.settings;
    let logs_tests = stop.test_loss.is_some() || stop.patience.is_some();
    let is_needed = checkpoint.is_some() && (logs_tests || stop.seconds.is_some());
    match task.checkpoints.filter(|_| is_needed) {
        Some(dir) => {
            let judged_by = stop.patience.map(|_| *best);
            TestHistory::restore(dir.test_log()?, joined_at, logs_tests, judged_by)
        }
        None => Ok(TestHistory::default()),
    }
}

/// The coordinator's last steps: leaves, collects all reports, tests and keeps the final model,
/// keeps the summary, and only then lets the other tasks end.
fn end_run<L: Link>(
    task: &TrainingTask<'_>,
    link: &mut L,
    trainer: &mut dyn Trainer<L>,
    work: &WorkDone,
    coordinator: &mut Coordinator<'_>,
    combine: &dyn Fn(TaskSummary) -> TaskSummary,
) -> Result<LinkOutcome<RunReport>, TrainError> {
    if link.is_recalled() {
        return Err(TrainError::Lost("another slot of this process has failed".into()));
    }
    let own = combine(task.task_summary(trainer.step_recorder(), work, link));
    let has_timeline = task.finish_timeline(trainer.step_recorder());
    let Done(()) = link.leave(&encode_report(&own))? else { return Ok(Rewound) };
    let Done(mut tasks) = link.collect(own)? else { return Ok(Rewound) };
    let Done(()) = link.refresh()? else { return Ok(Rewound) };
    let begun = Instant::now();
    let tested = coordinator.final_test(link, &mut *trainer.step_recorder().recorder)?;
    let Done(last) = tested else { return Ok(Rewound) };
    let Done(test) = test_set_score(task, link, last)? else { return Ok(Rewound) };
    if let Some(own) = tasks.iter_mut().find(|one| one.task == task.place.name) {
        own.add_final_test(begun.elapsed().as_secs_f64());
    }
    let was_interrupted = matches!(coordinator.reason(), Some(StopReason::Interrupted { .. }));
    if let Some(last) = last.filter(|_| !was_interrupted) {
        trainer.step_recorder().divergence.check_test(link.global_step(), &last.score)?;
    }
    coordinator.final_checkpoint(link)?;
    let Done(()) = save_model(task, link, trainer)? else { return Ok(Rewound) };
    link.finish_checkpoints();
    trainer.step_recorder().finish(true)?;
    let reason = coordinator.reason().or(work.reason);
    let summary = summarise(RunFacts {
        name: task.run_name,
        settings: task.settings,
        place: task.place,
        reason,
        stop_test: coordinator.stop_test(),
        global_steps: link.global_step(),
        started_at: coordinator.started_at(),
        train_loss: coordinator.train_loss(),
        best: coordinator.best(),
        validation: last.filter(|_| task.workload.has_validation()),
        test,
        tasks,
    });
    task.note(NoteLevel::Info, &ending(&summary));
    task.context.save_summary(&summary, has_timeline)?;
    link.finish()?;
    Ok(Done(RunReport { summary, reason }))
}

/// The score of the last parameters on the test set. It is that of the last test, unless tests
/// during training use other examples.
fn test_set_score(
    task: &TrainingTask<'_>,
    link: &mut impl Link,
    last: Option<StepScore>,
) -> Result<LinkOutcome<Option<StepScore>>, TrainError> {
    let step = link.global_step();
    let was_tested = last.is_some_and(|last| last.step == step);
    // An interrupted run that had no time for a test on the validation set has none for the test
    // set either.
    if !task.workload.has_validation() || !was_tested {
        return Ok(Done(last.filter(|_| !task.workload.has_validation())));
    }
    let examples = task.settings.evaluate.examples;
    let mut evaluator = task.workload.evaluator(examples, task.test_threads)?;
    let Done(params) = link.peek(evaluator.keys().as_deref())? else { return Ok(Rewound) };
    match evaluator.test(params, &task.test_watch()) {
        Err(TrainError::Interrupted(_)) => Ok(Done(None)),
        tested => Ok(Done(Some(StepScore::new(step, tested?)))),
    }
}

/// Hands the final parameters to the task's context.
fn save_model<L: Link>(
    task: &TrainingTask<'_>,
    link: &mut L,
    trainer: &dyn Trainer<L>,
) -> Result<LinkOutcome, TrainError> {
    let step = link.global_step();
    let mut is_rewound = false;
    let mut params = |visit: &mut VisitPiece<'_>| match link.for_each_piece(visit)? {
        Done(()) => Ok(()),
        // The context knows no rewinds: for it, the parameters end too early.
        Rewound => {
            is_rewound = true;
            Err(TrainError::Lost("the run was rewound".into()))
        }
    };
    let saved = task.context.save_model(FinalModel::new(trainer.layout(), step, &mut params));
    if is_rewound { Ok(Rewound) } else { saved.map(Done) }
}
