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
