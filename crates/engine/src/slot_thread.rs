//! What a worker process does in one of its slots, on the slot's thread.
//!
//! The thread has connections to all servers, reads the slot's batches from where the slot stands,
//! and trains until the plan ends, the slot must be given back, or another process takes it. If the
//! run is rewound because a server was lost, the thread continues from the checkpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use paceline_exchange::{ExchangeConditions, FactorChoice, PeerRole, travels_in_pieces};
use paceline_model::Model;
use paceline_net::LinkOutcome::{self, Done, Rewound};
use paceline_observe::trace::Tracer;
use paceline_observe::{Recorder, TaskSummary};

use crate::context::NoteLevel;
use crate::error::{TrainError, record_failure};
use crate::exchange_observer::exchange_track;
use crate::link::Link;
use crate::link_observers::Notify;
use crate::process_state::ProcessState;
use crate::run_coordinator::{CoordinatorOptions, run_coordinator};
use crate::run_report::RunReport;
use crate::server_link::{ServerLink, ServerOverlap, StopConditions};
use crate::settings::Mode;
use crate::step_pieces::{exchange_conditions, step_pieces};
use crate::step_recorder::{StepRecorder, WorkDone};
use crate::step_stop::{StepStop, StopRole};
use crate::task_place::ModelIdentity;
use crate::train_slot::train_slot;
use crate::trainer::Trainer;
use crate::training_task::{TrainingTask, encode_report};
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

/// A thread that fills a slot.
pub(crate) struct SlotThread<'a> {
    pub(crate) task: &'a TrainingTask<'a>,
    pub(crate) assignment: SlotAssignment,
    pub(crate) process: &'a ProcessState,
}

impl SlotThread<'_> {
    /// Fills the slot until its plan ends or it must be given back.
    pub(crate) fn run(&self) -> Result<SlotEnd, TrainError> {
        let Self { task, ref assignment, process } = *self;
        let slot = assignment.slot;
        let is_coordinator = slot == 0;
        let recorder = self.recorder()?;
        let notify = |text: &str| task.context.waiting(Some(text));
        let is_early = || !process.has_started() && task.place.slot.is_some();
        let is_interrupted = || is_early() && task.context.stop_signal().is_some();
        let gives_up = || process.is_halted() || is_interrupted() || task.is_late();
        let mut link = self.connect(&notify, &gives_up)?;
        process.set_started();
        task.context.waiting(None);
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
        let model = self.overlap(&mut link, tracer.as_ref())?;
        let stop = StepStop::new(task.context.clone(), self.stop_role());
        link.step_stop = Some(stop.clone());
        let config = self.loop_config(recorder, &link, tracer.as_ref())?;
        let config = LoopConfig { model, stop: Some(stop), ..config };
        let mut trainer = task.workload.trainer::<ServerLink<'_>>(task.settings, config)?;
        if !is_coordinator {
            return train_slot(task, &mut link, &mut *trainer, |link, trainer, work| {
                self.leave(link, trainer, work)
            });
        }
        task.context.reopen_run()?;
        let options = CoordinatorOptions {
            has_test_thread: true,
            test_threads: 1,
            loop_threads: task.threads.per_loop(assignment.slots_here),
            reproducible: task.settings.mode.is_synchronous(),
            tracer: tracer.as_ref(),
            combine: &|report: TaskSummary| process.combine(0, &report),
        };
        let report = run_coordinator(task, &mut link, &mut *trainer, options)?;
        Ok(SlotEnd::Finished(Box::new(report)))
    }

    /// The thread has ended: how the slot was left. Losing a slot other than the coordinator's
    /// need not be a failure.
    pub(crate) fn accept_end(
        &self,
        ended: Result<SlotEnd, TrainError>,
    ) -> Result<SlotEnd, TrainError> {
        let Self { task, ref assignment, process } = *self;
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
            Err(TrainError::Lost(_) | TrainError::Interrupted(_))
                if !is_coordinator && task.is_late() =>
            {
                Ok(SlotEnd::Left)
            }
            ended => ended,
        }
    }

    /// One thread records the process's curves, metrics and timeline.
    fn recorder(&self) -> Result<Box<dyn Recorder + Send>, TrainError> {
        if self.assignment.records { self.task.context.recorder() } else { Ok(Box::new(())) }
    }

    fn connect<'l>(
        &self,
        notify: Notify<'l>,
        gives_up: &'l dyn Fn() -> bool,
    ) -> Result<ServerLink<'l>, TrainError> {
        let Self { task, ref assignment, process } = *self;
        let model = task.workload.small_model()?;
        let identity = ModelIdentity { model: &*model, is_sparse: task.workload.is_sparse() };
        let mut config = task.place.connect_config(task.settings, PeerRole::Worker, identity);
        config.client.slot = assignment.slot as u32;
        config.client.incarnation = assignment.incarnation;
        config.client.process = process.process.clone();
        ServerLink::connect(config, task.settings.mode, notify, gives_up)
    }

    /// Which steps the worker may give up, once the run must end.
    fn stop_role(&self) -> StopRole {
        match self.task.settings.mode {
            _ if self.assignment.slot == 0 => StopRole::Coordinator,
            Mode::Sync { .. } if self.has_backups() => StopRole::Follower,
            Mode::Sync { .. } => StopRole::Cautious,
            _ => StopRole::Independent,
        }
    }

    /// Whether a step is made without the slowest workers.
    fn has_backups(&self) -> bool {
        let slots = self.task.place.slots;
        matches!(self.task.settings.mode, Mode::Sync { quorum: Some(quorum) } if quorum < slots)
    }

    /// Lets steps travel while they are computed, if that pays. Returns the model, if it has been
    /// built to find out.
    ///
    /// With backups the whole gradient must be final before any of it is sent: the first chunk
    /// decides whether it counts.
    fn overlap(
        &self,
        link: &mut ServerLink<'_>,
        tracer: Option<&Arc<Tracer>>,
    ) -> Result<Option<Box<dyn Model>>, TrainError> {
        let Self { task, ref assignment, .. } = *self;
        let conditions = ExchangeConditions {
            choice: FactorChoice::Never,
            // Even one worker's gradient travels.
            ..exchange_conditions(task.settings, task.place.slots.max(2))
        };
        let params = task.workload.small_model()?.layout().len();
        let is_sparse = task.workload.is_sparse();
        if is_sparse || self.has_backups() || !travels_in_pieces(params, &conditions) {
            return Ok(None);
        }
        let threads = task.threads.per_loop(assignment.slots_here);
        let mut model = task.workload.loop_model(task.settings, threads)?;
        let pieces = step_pieces(&mut *model, &conditions)?;
        if !pieces.is_empty() {
            let track = exchange_track(tracer, params);
            link.overlap = Some(ServerOverlap { pieces, track });
        }
        Ok(Some(model))
    }

    fn loop_config<'t>(
        &self,
        mut recorder: Box<dyn Recorder + Send>,
        link: &ServerLink<'_>,
        tracer: Option<&'t Arc<Tracer>>,
    ) -> Result<LoopConfig<'t>, TrainError> {
        let Self { task, ref assignment, process } = *self;
        let slot = assignment.slot;
        recorder.start(task.run_start(slot, link)).map_err(record_failure)?;
        process.start_clock();
        Ok(LoopConfig {
            slot,
            plan: task.batches(),
            threads: task.threads.per_loop(assignment.slots_here),
            step_recorder: StepRecorder::start(recorder, task.settings, slot),
            tracer,
            model: None,
            stop: None,
        })
    }

    /// Leaves the run, or gives the slot back.
    fn leave<'l>(
        &self,
        link: &mut ServerLink<'l>,
        trainer: &mut dyn Trainer<ServerLink<'l>>,
        work: &WorkDone,
    ) -> Result<LinkOutcome<SlotEnd>, TrainError> {
        let Self { task, ref assignment, process } = *self;
        if process.is_halted() {
            return Ok(Done(SlotEnd::GivenUp));
        }
        let report = task.task_summary(trainer.step_recorder(), work, link);
        let report = encode_report(&process.combine(assignment.slot, &report));
        // Before leaving: the coordinator merges the timelines once every worker has left.
        task.finish_timeline(trainer.step_recorder());
        if work.reason.is_some() || link.is_stopping() || link.already_left() {
            let Done(()) = link.leave(&report)? else { return Ok(Rewound) };
            let Done(()) = link.wait_for_end()? else { return Ok(Rewound) };
            return Ok(Done(SlotEnd::Left));
        }
        let Done(()) = link.release(&report)? else { return Ok(Rewound) };
        Ok(Done(SlotEnd::GivenUp))
    }
}
