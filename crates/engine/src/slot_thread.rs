//! What a worker process does in one of its slots, on a thread of its own.
//!
//! The thread has connections to all servers, reads the slot's batches from where the slot stands,
//! and trains until the plan ends, the slot must be given back, or another process takes it. If the
//! run is rewound because a server was lost, the thread continues from the checkpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use paceline_exchange::PeerRole;
use paceline_observe::trace::Tracer;
use paceline_observe::{Recorder, TaskSummary};

use crate::context::NoteLevel;
use crate::error::{Ending, Interruption, TrainError, record_failure};
use crate::lead::{LeadConfig, encode_report, lead, rewind, train};
use crate::link::Link;
use crate::loop_trace::traced;
use crate::process_state::ProcessState;
use crate::run_report::RunReport;
use crate::server_link::{ServerLink, StopConditions};
use crate::step_recorder::StepRecorder;
use crate::task_place::ModelIdentity;
use crate::test_runner::BackgroundEvaluator;
use crate::trainer::Trainer;
use crate::training_task::{TrainingTask, slowdown};
use crate::workload::LoopConfig;

/// A slot that a thread of this process fills.
pub(crate) struct SlotAssignment {
    pub(crate) slot: usize,
    pub(crate) incarnation: u64,
    /// Slots this process fills, including this one.
    pub(crate) slots_here: usize,
    /// The slot must be given back between two steps.
    pub(crate) recalled: Arc<AtomicBool>,
    /// Whether the thread records for the process.
    pub(crate) records: bool,
}

/// How a slot was left.
pub(crate) enum SlotEnd {
    /// Its plan ended, or the run is stopping.
    Left,
    /// It was given back, or another process has it.
    GivenUp,
    /// It was the coordinator's, and the run is over.
    Finished(Box<RunReport>),
}

/// Fills a slot until its plan ends or it must be given back.
pub(crate) fn fill_slot(
    task: &TrainingTask<'_>,
    assignment: &SlotAssignment,
    process: &ProcessState,
) -> Result<SlotEnd, TrainError> {
    let ended = SlotThread { task, assignment, process }.run();
    process.close_slot(assignment.slot);
    let is_coordinator = assignment.slot == 0;
    match ended {
        // Another process fills the slot now.
        Err(TrainError::Replaced(why)) if !is_coordinator => {
            task.note(NoteLevel::Info, &why);
            Ok(SlotEnd::GivenUp)
        }
        // The process is ending, and the reason is already known.
        Err(_) if !is_coordinator && process.is_halted() => Ok(SlotEnd::GivenUp),
        // The run ended without this slot.
        Err(TrainError::Lost(_)) if !is_coordinator && task.is_late() => Ok(SlotEnd::Left),
        ended => ended,
    }
}

/// A thread that fills a slot.
struct SlotThread<'a> {
    task: &'a TrainingTask<'a>,
    assignment: &'a SlotAssignment,
    process: &'a ProcessState,
}

impl SlotThread<'_> {
    fn run(&self) -> Result<SlotEnd, TrainError> {
        let Self { task, assignment, process } = *self;
        let slot = assignment.slot;
        let is_coordinator = slot == 0;
        let recorder = self.recorder()?;
        let level = if is_coordinator { NoteLevel::Warning } else { NoteLevel::Info };
        let notify = |text: &str| task.note(level, text);
        let is_early = || !process.has_started() && task.place.slot.is_some();
        let is_interrupted = || is_early() && task.context.stop_signal().is_some();
        let gives_up = || process.is_halted() || is_interrupted() || task.is_late();
        let mut link = self.connect(&notify, &gives_up)?;
        process.set_started();
        let recalled = || assignment.recalled.load(Ordering::Relaxed) && !is_coordinator;
        let is_recalled = || recalled() || process.is_halted();
        let is_halted = || process.is_halted();
        let is_run_over = || !is_coordinator && task.is_late();
        link.set_stop_conditions(StopConditions {
            is_recalled: Some(&is_recalled),
            is_halted: Some(&is_halted),
            is_run_over: Some(&is_run_over),
        });
        let tracer = task.tracer().filter(|_| assignment.records);
        let config = self.loop_config(recorder, &link, tracer.as_ref())?;
        let mut trainer = task.workload.trainer::<ServerLink<'_>>(task.settings, config)?;
        if is_coordinator {
            self.lead(&mut link, &mut *trainer, tracer.as_ref())
        } else {
            self.follow(&mut link, &mut *trainer)
        }
    }

    /// One thread records the process's curves, metrics and timeline.
    fn recorder(&self) -> Result<Box<dyn Recorder + Send>, TrainError> {
        if self.assignment.records { self.task.context.recorder() } else { Ok(Box::new(())) }
    }

    fn connect<'l>(
        &self,
        notify: &'l dyn Fn(&str),
        gives_up: &'l dyn Fn() -> bool,
    ) -> Result<ServerLink<'l>, TrainError> {
        let Self { task, assignment, process } = *self;
        let model = task.workload.small_model()?;
        let identity =
            ModelIdentity { layout: model.layout(), is_sparse: task.workload.is_sparse() };
        let mut config = task.place.connect_config(task.settings, PeerRole::Worker, identity);
        config.client.slot = assignment.slot as u32;
        config.client.incarnation = assignment.incarnation;
        config.client.process = process.process.clone();
        ServerLink::connect(config, task.settings.mode, notify, gives_up)
    }

    fn loop_config<'t>(
        &self,
        mut recorder: Box<dyn Recorder + Send>,
        link: &ServerLink<'_>,
        tracer: Option<&'t Arc<Tracer>>,
    ) -> Result<LoopConfig<'t>, TrainError> {
        let Self { task, assignment, process } = *self;
        let slot = assignment.slot;
        recorder.start(task.run_start(slot, link)).map_err(record_failure)?;
        process.start_clock();
        Ok(LoopConfig {
            slot,
            plan: task.batches(),
            threads: task.threads.per_loop(assignment.slots_here),
            account: StepRecorder::start(recorder, slowdown(slot)),
            tracer,
        })
    }

    /// Trains slot 0 and leads the run to its end.
    fn lead<'l>(
        &self,
        link: &mut ServerLink<'l>,
        trainer: &mut dyn Trainer<ServerLink<'l>>,
        tracer: Option<&Arc<Tracer>>,
    ) -> Result<SlotEnd, TrainError> {
        let Self { task, process, .. } = *self;
        task.context.reopen_run()?;
        let evaluator = task.workload.evaluator(task.settings.evaluate.examples, 1)?;
        let combine = |report: TaskSummary| process.combine(0, &report);
        thread::scope(|scope| {
            let tests = BackgroundEvaluator::start(scope, traced(tracer, evaluator));
            let config = LeadConfig {
                tests: Box::new(tests),
                reproducible: task.settings.mode.is_synchronous(),
                combine: &combine,
            };
            let report = lead(task, link, trainer, config)?;
            Ok(SlotEnd::Finished(Box::new(report)))
        })
    }

    /// Trains a slot other than 0, through as many rewinds as there are.
    fn follow<'l>(
        &self,
        link: &mut ServerLink<'l>,
        trainer: &mut dyn Trainer<ServerLink<'l>>,
    ) -> Result<SlotEnd, TrainError> {
        let ended = loop {
            match Ending::of(self.train_and_leave(link, trainer)) {
                Ok(Ending::Done(end)) => break Ok(end),
                Ok(Ending::Rewound) => {
                    if let Err(error) = rewind(self.task, link, trainer, None) {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        match ended {
            Ok(end) => trainer.account().finish(true).map(|()| end),
            Err(error) => {
                let _ = trainer.account().finish(false);
                Err(error)
            }
        }
    }

    /// Trains until the plan ends or the slot must be given back, and leaves.
    fn train_and_leave<'l>(
        &self,
        link: &mut ServerLink<'l>,
        trainer: &mut dyn Trainer<ServerLink<'l>>,
    ) -> Result<SlotEnd, Interruption> {
        let Self { task, assignment, process } = *self;
        let work = train(trainer, link, None)?;
        if process.is_halted() {
            return Ok(SlotEnd::GivenUp);
        }
        let report = task.task_summary(trainer.account(), &work, link);
        let report = encode_report(&process.combine(assignment.slot, &report));
        // Before leaving: the coordinator merges the timelines once every worker has left.
        task.finish_timeline(trainer.account());
        if work.reason.is_some() || link.is_stopping() || link.already_left() {
            link.leave(&report)?;
            link.wait_for_end()?;
            return Ok(SlotEnd::Left);
        }
        link.release(&report)?;
        Ok(SlotEnd::GivenUp)
    }
}
