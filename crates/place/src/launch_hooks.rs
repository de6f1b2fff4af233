//! What a program tells the local launcher, and what the launcher asks of it.

use std::process::Command;

use crate::cluster::Task;

/// The tasks to launch, and what to do when they end.
#[derive(Clone, Copy, Debug)]
pub struct LaunchSettings {
    /// Worker processes.
    pub workers: usize,
    /// Server processes; `None` in a mode without servers, where workers listen themselves.
    pub servers: Option<usize>,
    /// How often lost tasks are started again, in total.
    pub restarts: usize,
    /// Whether a lost worker is started again.
    pub restarts_workers: bool,
    /// Whether a lost server is started again.
    pub restarts_servers: bool,
    /// Whether the run continues without a lost worker.
    pub spares_workers: bool,
    /// Whether servers may still write a checkpoint at the end.
    pub writes_checkpoints: bool,
}

/// What the launcher asks of the program whose tasks it starts.
pub trait LaunchHooks: Sync {
    /// Adds the program's arguments and environment to the command of a task. `is_restart` says
    /// that the task takes the place of a lost one.
    fn configure(&self, command: &mut Command, is_restart: bool);

    /// Whether the run has ended: its summary is written.
    fn has_ended(&self) -> bool;

    /// The signal that the launcher received, if any.
    fn stop_signal(&self) -> Option<i32>;

    /// A message for people.
    fn note(&self, text: &str);

    /// Whether the process that launched the tasks has ended its own task, and the run with it.
    fn has_own_task_ended(&self) -> bool {
        false
    }

    /// Whether the launcher also starts tasks in place of workers that others had started and that
    /// are lost, until its own task has ended.
    fn replaces_others(&self) -> bool {
        false
    }

    /// A worker that another process had started and that is lost, if there is one.
    fn lost_worker(&self) -> Option<Task> {
        None
    }
}
