//! The harness: a directory for each test, the program in it, and the readers of what it writes.

pub(crate) mod browser;
pub(crate) mod download_mirror;
mod files;
mod interpreter;
mod losses;
mod manual_run;
mod process;
pub(crate) mod proxy;
mod python;
mod run_folder;
mod sandbox;
mod settings;
mod slurm;
mod tf_config;
mod wait;

pub(crate) use files::{tree, workspace};
pub(crate) use losses::LossyRun;
pub(crate) use manual_run::ManualRun;
pub(crate) use process::{
    ProcessOutput, RunningProcess, environment, finish, processes_in, processes_of, signal,
    signal_to, start, task_process,
};
pub(crate) use python::{events, points, python, python_command, python_json};
pub(crate) use run_folder::RunFolder;
pub(crate) use sandbox::{IDX_FILES, PACELINE, Sandbox};
pub(crate) use settings::{ENDLESS, SHARED_MODES, SMALL, SMALL_DATA};
pub(crate) use slurm::{Slurm, ends_with, mpirun};
pub(crate) use tf_config::{SECRET, cluster_of, free_ports, tf_config};
pub(crate) use wait::{wait_until, within};

/// The first line of standard error that is an error.
#[track_caller]
pub(crate) fn first_error(stderr: &str) -> &str {
    let mut lines = stderr.lines();
    lines.find(|line| line.contains("error: ")).unwrap_or_else(|| panic!("no error: {stderr:?}"))
}

/// Asserts that a text contains each of these fragments.
#[track_caller]
pub(crate) fn assert_says(text: &str, fragments: &[&str]) {
    for fragment in fragments {
        assert!(text.contains(fragment), "{fragment:?} is not in {text:?}");
    }
}
