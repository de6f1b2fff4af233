//! Running other programs, and where the workspace is.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// How a chore ends: well, or with what to tell the user.
pub(crate) type ChoreResult = Result<(), String>;

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Cargo with these arguments, in the workspace's root.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// A cargo command that gives way to all others.
pub(crate) fn in_background(subcommand: &str) -> Command {
    let foreground = cargo(&[]);
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(foreground.get_program()).args([subcommand, "--quiet"]);
    command.current_dir(root());
    command
}

/// Runs a command to its end, and prints what it wrote in one piece if it fails.
pub(crate) fn run_quietly(command: &mut Command) -> ChoreResult {
    let output = command.output();
    if let Ok(output) = &output
        && !output.status.success()
    {
        print!("{}", String::from_utf8_lossy(&output.stdout));
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    ended(command, output.map(|output| output.status))
}

/// Runs a command to its end, with its output going where ours goes.
pub(crate) fn run(command: &mut Command) -> ChoreResult {
    let status = command.status();
    ended(command, status)
}

/// How a command has ended.
pub(crate) fn ended(command: &Command, status: io::Result<ExitStatus>) -> ChoreResult {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
