//! Runs whose tasks are started one by one, as on several machines.

use std::process::Command;

use serde_json::Value;

use super::process::{RunningProcess, processes_of};
use super::run_folder::RunFolder;
use super::sandbox::Sandbox;
use super::settings::{SMALL_DATA, environment_for};
use super::tf_config::{SECRET, tf_config};
use super::wait::wait_until;

/// A run whose tasks are started by hand, in any order, with one run directory for all.
pub(crate) struct ManualRun {
    pub(crate) sandbox: Sandbox,
    pub(crate) cluster: Value,
    settings: Vec<String>,
}

impl ManualRun {
    /// A run of this cluster.
    pub(crate) fn new(cluster: Value, settings: &[&str]) -> Self {
        let settings = SMALL_DATA.iter().chain(settings).map(|&setting| setting.to_owned());
        Self { sandbox: Sandbox::new(), cluster, settings: settings.collect() }
    }

    pub(crate) fn run(&self) -> RunFolder {
        self.sandbox.run_folder("run")
    }

    /// A task with this `TF_CONFIG`, ready to start.
    pub(crate) fn command(&self, config: &str) -> Command {
        let mut command = self.sandbox.command(&["train", "--run-dir", self.run().str()]);
        command.env("TF_CONFIG", config).env("PACELINE_TOKEN", SECRET);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command.envs(environment_for(self.settings.iter().map(String::as_str)));
        command
    }

    /// Starts a task.
    pub(crate) fn start(&self, role: &str, index: impl Into<Value>) -> RunningProcess {
        self.start_with(role, index, &[])
    }

    /// Starts a task with settings of its own.
    pub(crate) fn start_with(
        &self,
        role: &str,
        index: impl Into<Value>,
        settings: &[&str],
    ) -> RunningProcess {
        let mut command = self.command(&tf_config(&self.cluster, role, index));
        if settings.iter().any(|setting| setting.starts_with("cluster.token_file")) {
            // A variable that differs from the file would be refused.
            command.env_remove("PACELINE_TOKEN");
        }
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        RunningProcess::start(&mut command, self.run().path)
    }

    /// Starts a task that has no token.
    pub(crate) fn start_without_token(
        &self,
        role: &str,
        index: usize,
        settings: &[&str],
    ) -> RunningProcess {
        let mut command = self.command(&tf_config(&self.cluster, role, index));
        command.env_remove("PACELINE_TOKEN");
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        RunningProcess::start(&mut command, self.run().path)
    }

    /// Waits for these tasks, which must all exit with code 0 and be the last of the run.
    #[track_caller]
    pub(crate) fn all_end_well(&self, tasks: Vec<RunningProcess>) {
        for task in tasks {
            let output = task.finish_task();
            assert_eq!(output.code, Some(0), "{output:?}");
        }
        assert!(processes_of(&self.run().path).is_empty(), "a process is left");
    }

    /// Waits until a task's log has this text.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, task: &str, text: &str) {
        let run = self.run();
        let there = wait_until(|| run.log(task).contains(text));
        assert!(there, "{text:?} is not in the log of {task}: {:?}", run.log(task));
    }
}
