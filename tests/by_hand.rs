//! Runs whose tasks are started one by one, as on several machines.

use std::process::Command;

use serde_json::Value;

use crate::support::{Launched, Room, Run, SMALL_DATA, processes_of, tf_config, wait_until};

/// A run whose tasks are started by hand, in any order. They share a run directory.
pub(crate) struct ByHand {
    pub(crate) room: Room,
    pub(crate) cluster: Value,
    settings: Vec<String>,
}

impl ByHand {
    /// A run of this cluster.
    pub(crate) fn new(cluster: Value, settings: &[&str]) -> Self {
        let settings = SMALL_DATA.iter().chain(settings).map(|&setting| setting.to_owned());
        Self { room: Room::new(), cluster, settings: settings.collect() }
    }

    /// Their run directory.
    pub(crate) fn run(&self) -> Run {
        self.room.run_dir("run")
    }

    /// A task with this `TF_CONFIG`, ready to be started.
    pub(crate) fn command(&self, config: &str) -> Command {
        let mut command = self.room.command(&["train", "--run-dir", self.run().str()]);
        command.env("TF_CONFIG", config);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command
    }

    /// Starts a task.
    pub(crate) fn start(&self, role: &str, index: impl Into<Value>) -> Launched {
        self.start_with(role, index, &[])
    }

    /// Starts a task with settings of its own.
    pub(crate) fn start_with(
        &self,
        role: &str,
        index: impl Into<Value>,
        settings: &[&str],
    ) -> Launched {
        let mut command = self.command(&tf_config(&self.cluster, role, index));
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        Launched::start(&mut command, self.run().path)
    }

    /// All of these must end well, and nobody may be left.
    #[track_caller]
    pub(crate) fn all_end_well(&self, tasks: Vec<Launched>) {
        for task in tasks {
            let done = task.finish_task();
            assert_eq!(done.code, Some(0), "{done:?}");
        }
        assert!(processes_of(&self.run().path).is_empty(), "somebody is left");
    }

    /// Waits until a task's log has this text.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, task: &str, text: &str) {
        let run = self.run();
        let there = wait_until(|| run.log(task).contains(text));
        assert!(there, "{text:?} is not in the log of {task}: {:?}", run.log(task));
    }
}
