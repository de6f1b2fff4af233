//! How worker 0 leads a run: it trains like any worker, coordinates, and ends the run.
//!
//! [`lead`] is the same for every mode. In `single` there is no other task to leave, collect
//! reports from, or release: the link's methods do nothing.

use paceline_observe::{Recorder, RunStart, TaskSummary};

use crate::context::{FinalModel, NoteLevel};
use crate::coordinator::{Coordinator, CoordinatorConfig};
use crate::error::{Ending, Interruption, TrainError, record_failure};
use crate::link::Link;
use crate::run_report::{RunFacts, RunReport, ending, summarise};
use crate::step_recorder::WorkDone;
use crate::test_runner::TestRunner;
use crate::trainer::Trainer;
use crate::training_task::TrainingTask;

/// How a run is led.
pub(crate) struct LeadConfig<'a> {
    /// Runs the tests.
    pub(crate) tests: Box<dyn TestRunner + 'a>,
    /// See [`CoordinatorConfig::reproducible`].
    pub(crate) reproducible: bool,
    /// Adds what other slots of the process did to the report of slot 0.
    pub(crate) combine: &'a dyn Fn(TaskSummary) -> TaskSummary,
}

/// Trains as the coordinator, through as many rewinds as there are, and ends the run.
pub(crate) fn lead<L: Link>(
    task: &TrainingTask<'_>,
    link: &mut L,
    trainer: &mut dyn Trainer<L>,
    config: LeadConfig<'_>,
) -> Result<RunReport, TrainError> {
    let settings = task.settings;
    let mut coordinator = Coordinator::new(CoordinatorConfig {
        stop: settings.stop,
        evaluate: settings.evaluate,
        checkpoint: settings.checkpoint,
        started_at: task.started_at(),
        joined_at: joined_at(task, link),
        epoch_steps: settings.stop.epochs.map(|_| task.plan_steps()),
        examples_per_step: settings.examples_per_step(task.place.slots),
        tests: config.tests,
        reproducible: config.reproducible,
        context: &*task.context,
    });
    loop {
        let trained = train(trainer, link, Some(&mut coordinator)).and_then(|work| {
            if link.is_recalled() {
                let why = "another slot of this process has failed".into();
                return Err(TrainError::Lost(why).into());
            }
            end_run(task, link, trainer, &work, &mut coordinator, config.combine)
        });
        match Ending::of(trained) {
            Ok(Ending::Done(report)) => return Ok(report),
            Ok(Ending::Rewound) => rewind(task, link, trainer, Some(&mut coordinator))?,
            Err(error) => {
                let _ = trainer.account().finish(false);
                return Err(error);
            }
        }
    }
}

/// Trains, unless an earlier process has already left for this slot.
pub(crate) fn train<L: Link>(
    trainer: &mut dyn Trainer<L>,
    link: &mut L,
    coordinator: Option<&mut Coordinator<'_>>,
) -> Result<WorkDone, Interruption> {
    if link.already_left() {
        return Ok(WorkDone::default());
    }
    trainer.run(link, coordinator)
}

/// The run was rewound to a checkpoint: this worker reconnects and continues from there.
pub(crate) fn rewind<L: Link>(
    task: &TrainingTask<'_>,
    link: &mut L,
    trainer: &mut dyn Trainer<L>,
    mut coordinator: Option<&mut Coordinator<'_>>,
) -> Result<(), TrainError> {
    loop {
        link.rejoin()?;
        trainer.account().work.lost = link.lost_pushes();
        let step = joined_at(task, link).max(link.base_step());
        let start = RunStart::Rewound { step };
        trainer.account().recorder.start(start).map_err(record_failure)?;
        let rewound = coordinator.as_deref_mut().map_or(Ok(()), |it| it.rewind(step, link));
        if let Ending::Done(()) = Ending::of(rewound)? {
            return Ok(());
        }
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
) -> Result<RunReport, Interruption> {
    let own = combine(task.task_summary(trainer.account(), work, link));
    let has_timeline = task.finish_timeline(trainer.account());
    link.leave(&encode_report(&own))?;
    let tasks = link.collect(own)?;
    link.refresh()?;
    let score = coordinator.final_test(link, &mut *trainer.account().recorder)?;
    coordinator.final_checkpoint(link)?;
    save_model(task, link, trainer)?;
    trainer.account().finish(true)?;
    let reason = coordinator.reason().or(work.reason);
    let summary = summarise(RunFacts {
        name: task.run_name,
        settings: task.settings,
        place: task.place,
        reason,
        global_steps: link.global_step(),
        started_at: coordinator.started_at(),
        train_loss: coordinator.train_loss(),
        score,
        tasks,
    });
    task.note(NoteLevel::Info, &ending(&summary));
    task.context.save_summary(&summary, has_timeline)?;
    link.finish()?;
    Ok(RunReport { summary, reason })
}

/// Hands the final parameters to the task's context.
fn save_model<L: Link>(
    task: &TrainingTask<'_>,
    link: &mut L,
    trainer: &dyn Trainer<L>,
) -> Result<(), Interruption> {
    let step = link.global_step();
    let mut rewound = false;
    let saved = {
        let mut params = |visit: &mut crate::context::VisitPiece<'_>| match Ending::of(
            link.for_each_piece(visit),
        )? {
            Ending::Done(()) => Ok(()),
            Ending::Rewound => {
                rewound = true;
                Err(TrainError::Lost("the run was rewound".into()))
            }
        };
        task.context.save_model(FinalModel::new(trainer.layout(), step, &mut params))
    };
    if rewound { Err(Interruption::Rewound) } else { Ok(saved?) }
}

/// A report as it travels.
pub(crate) fn encode_report(report: &TaskSummary) -> Vec<u8> {
    serde_json::to_vec(report).unwrap_or_default()
}

/// The global step the coordinator finds. Before its first pull, the link of a sparse model knows
/// it only in `sync`, by the step that comes next.
fn joined_at(task: &TrainingTask<'_>, link: &impl Link) -> u64 {
    let is_synchronous = task.settings.mode.is_synchronous();
    let known = if is_synchronous { link.next_step() } else { link.global_step() };
    known.max(task.started_at())
}
