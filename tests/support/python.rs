//! Python, whose packages read what Paceline writes.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::files::workspace;
use super::interpreter::python_interpreter;
use super::process::{ProcessOutput, finish, start};

/// A script of `tests/`, ready to run in the interpreter that has the tests' packages.
pub(crate) fn python_command(script: &str) -> Command {
    let mut command = Command::new(python_interpreter());
    command.arg(workspace().join("tests").join(script));
    command
}

/// Runs a script of `tests/`.
pub(crate) fn python(script: &str, args: &[&OsStr]) -> ProcessOutput {
    finish(start(python_command(script).args(args)))
}

/// Runs a script that prints JSON.
pub(crate) fn python_json(script: &str, args: &[&OsStr]) -> Value {
    let output = python(script, args);
    assert_eq!(output.code, Some(0), "{script} failed:\n{}", output.stderr);
    serde_json::from_str(&output.stdout).unwrap()
}

/// Everything that TensorBoard reads below a directory.
pub(crate) fn events(logdir: &Path) -> Value {
    python_json("python/read_events.py", &[logdir.as_os_str()])
}

/// The points of a scalar, as TensorBoard reads them.
pub(crate) fn points(run: &Value, tag: &str) -> Vec<(u64, f32)> {
    let Some(points) = run["scalars"][tag].as_array() else { return Vec::new() };
    points.iter().map(|p| (p[0].as_u64().unwrap(), p[1].as_f64().unwrap() as f32)).collect()
}
