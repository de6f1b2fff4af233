//! A worker process: the way into training for every mode.

use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crate::error::TrainError;
use crate::mirrored::train_replica;
use crate::process_state::ProcessState;
use crate::run_report::RunReport;
use crate::settings::Mode;
use crate::single::{train_dense, train_sparse};
use crate::slot_manager::{EnrolledWorker, NextSlot, SlotManager};
use crate::slot_thread::SlotThread;
use crate::training_task::TrainingTask;

/// How a worker process comes into its run.
pub enum WorkerEntry {
    /// The run starts with it. In mode `mirrored` it accepts the connections of others through the
    /// listener.
    Planned(Option<TcpListener>),
    /// It joins a run with servers that is under way.
    Joined(Box<EnrolledWorker>),
}

/// Trains as the worker that `task` describes, until the run is over or the worker leaves.
///
/// Only the coordinator returns a report.
pub fn run_worker(
    task: &TrainingTask<'_>,
    entry: WorkerEntry,
) -> Result<Option<RunReport>, TrainError> {
    task.workload.check_weights(&task.settings.class_weights)?;
    let enrolled = match (task.settings.mode, entry) {
        (Mode::Single, _) if task.workload.is_sparse() => return train_sparse(task).map(Some),
        (Mode::Single, _) => return train_dense(task).map(Some),
        (Mode::Mirrored, WorkerEntry::Planned(listener)) => return train_replica(task, listener),
        (_, WorkerEntry::Planned(_)) => EnrolledWorker::enrol(task),
        (_, WorkerEntry::Joined(enrolled)) => Ok(*enrolled),
    };
    let Some(EnrolledWorker { process, roster }) = task.unless_late(enrolled)? else {
        return Ok(None);
    };
    let process = &ProcessState::new(process);
    let ended = thread::scope(|scope| {
        let mut manager = SlotManager::new(task, process, roster);
        loop {
            let (assignment, ending) = match manager.next_slot()? {
                NextSlot::Fill(assignment, ending) => (assignment, ending),
                NextSlot::End(report) => return Ok(report.map(|report| *report)),
            };
            let name = format!("slot {}", assignment.slot);
            let slot = SlotThread { task, assignment, process };
            let fill = move || {
                ending.tell(catch_unwind(AssertUnwindSafe(|| slot.accept_end(slot.run()))));
            };
            thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, fill)
                .map_err(TrainError::while_doing("cannot start a thread"))?;
        }
    });
    task.unless_late(ended).map(Option::flatten)
}
