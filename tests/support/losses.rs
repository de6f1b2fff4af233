//! Runs whose tasks are killed, beside undisturbed ones.

use super::run_folder::RunFolder;
use super::sandbox::Sandbox;

/// A run that loses tasks.
pub(crate) struct LossyRun<'a> {
    pub(crate) mode: &'a str,
    /// How much longer its steps take, so that there is time to kill tasks.
    pub(crate) slowdown: u32,
    /// The settings of this run and of the undisturbed one.
    pub(crate) settings: &'a [&'a str],
    /// Those of this run alone, with which it survives.
    pub(crate) recovery: &'a [&'a str],
    /// The tasks to kill, one after the other.
    pub(crate) killed: &'a [&'a str],
}

impl LossyRun<'_> {
    /// Checks that the run ends with the bits of an undisturbed one. Returns what it wrote to
    /// standard error, and what it left.
    #[track_caller]
    pub(crate) fn ends_with_the_same_bits(&self, sandbox: &Sandbox) -> (String, RunFolder) {
        let settings = [self.settings, self.recovery].concat();
        let launched = sandbox.launch_slow(self.mode, self.slowdown, &settings);
        self.killed.iter().for_each(|task| launched.kill_and_wait_for_restart(task));
        let output = launched.finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        let undisturbed = sandbox.train_cluster("undisturbed", self.mode, self.settings);
        let run = sandbox.run_folder("run");
        assert_eq!(run.summary()["global_steps"], undisturbed.summary()["global_steps"]);
        assert!(run.model() == undisturbed.model(), "{settings:?}: the bytes differ");
        (output.stderr, run)
    }
}
