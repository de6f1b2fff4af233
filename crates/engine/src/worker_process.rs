//! A worker process: the way into training for every mode.

use std::net::TcpListener;

use paceline_exchange::ProcessName;

use crate::error::TrainError;
use crate::mirrored::train_replica;
use crate::process_state::ProcessState;
use crate::run_report::RunReport;
use crate::settings::Mode;
use crate::single::{train_dense, train_sparse};
use crate::slot_manager::{enrol, fill_slots};
use crate::slot_thread::SlotThread;
use crate::task_place::process_id;
use crate::training_task::TrainingTask;

/// Trains as the worker that `task` describes, until the run is over or the worker leaves.
///
/// Only the coordinator returns a report. In mode `mirrored` the worker accepts the connections of
/// others through `listener`.
pub fn run_worker(
    task: &TrainingTask<'_>,
    listener: Option<TcpListener>,
) -> Result<Option<RunReport>, TrainError> {
    task.workload.check_weights(&task.settings.class_weights)?;
    match task.settings.mode {
        Mode::Single if task.workload.is_sparse() => train_sparse(task).map(Some),
        Mode::Single => train_dense(task).map(Some),
        Mode::Mirrored => train_replica(task, listener),
        Mode::Async | Mode::Sync { .. } | Mode::Bounded { .. } => {
            let process = ProcessName { id: process_id(), name: task.place.name.clone() };
            let gives_up = || task.context.stop_signal().is_some() || task.is_late();
            let enrolled = enrol(task, process.clone(), &gives_up);
            let Some(roster) = task.unless_late(enrolled)? else { return Ok(None) };
            let process = &ProcessState::new(process);
            let filled = fill_slots(task, roster, process, &|assignment| {
                let slot = SlotThread { task, assignment, process };
                slot.accept_end(slot.run())
            });
            task.unless_late(filled).map(Option::flatten)
        }
    }
}

/// Joins a run that is under way, and fills slots until it is over or the worker leaves.
///
/// Server 0 names the process, unless its place has a name. `named` receives the name, such as
/// `worker:3`, and returns the task to train as: its recorders and log belong to that name.
pub fn join_run<'a>(
    task: &TrainingTask<'_>,
    named: impl FnOnce(&str) -> Result<TrainingTask<'a>, TrainError>,
) -> Result<(), TrainError> {
    let id = process_id();
    let own = ProcessName { id, name: task.place.name.clone() };
    let gives_up = || task.context.stop_signal().is_some();
    let roster = enrol(task, own, &gives_up)?;
    let name = roster.name().to_owned();
    let task = &named(&name)?;
    let process = &ProcessState::new(ProcessName { id, name });
    fill_slots(task, roster, process, &|assignment| {
        let slot = SlotThread { task, assignment, process };
        slot.accept_end(slot.run())
    })
    .map(drop)
}
