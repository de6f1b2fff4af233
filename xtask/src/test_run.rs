//! The workspace's tests, and a second chance alone for the few that fail beside others.
//!
//! Tests of how soon a large network ends run after the others, one by one: beside them they would
//! measure how busy the machine is.
//!
//! Most tests start real processes and bound how long they take. On a busy machine one of them may
//! miss a bound. It then runs again with the machine to itself: a fault fails twice. A test that
//! passes then is reported as unstable, so that it is mended rather than forgotten.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};

use crate::process::{ChoreResult, cargo, ended, in_background, run, run_quietly};

/// The module of the process tests that run one by one.
const ONE_BY_ONE: &str = "cut_short::";

/// With more failures than this, nothing runs again.
const MOST_UNSTABLE: usize = 3;

/// What the tests of the workspace printed about failures.
#[derive(Debug, Default)]
struct Failures {
    /// The tests that failed, by name.
    names: Vec<String>,
    /// The test programs that ended with a list of failed tests.
    reports: usize,
    /// The test programs that failed, with or without such a list.
    programs: usize,
}

impl Failures {
    fn note(&mut self, line: &str) {
        if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.names.push(name.to_owned());
        }
        self.reports += usize::from(line.starts_with("test result: FAILED"));
        self.programs += usize::from(line.starts_with("    `-p "));
    }

    /// Whether every failure has a name, and they are few.
    fn may_run_again(&self) -> bool {
        let named = self.reports == self.programs && !self.names.is_empty();
        named && self.names.len() <= MOST_UNSTABLE
    }
}

/// Compiles every test.
pub(crate) fn build() -> ChoreResult {
    run(tests().arg("--no-run"))
}

/// Runs the examples in the documentation, in the background.
pub(crate) fn check_documentation() -> ChoreResult {
    let mut examples = in_background("test");
    run_quietly(examples.args(["--profile", "ci", "--workspace", "--locked", "--doc"]))
}

/// Runs every other test, most of them with this many at once.
pub(crate) fn check(threads: usize) -> ChoreResult {
    check_together(threads)?;
    let mut rest = tests();
    rest.args(["--", ONE_BY_ONE]);
    run(rest.env("RUST_TEST_THREADS", "1"))
}

/// Runs the tests that bear others beside them, with this many at once.
fn check_together(threads: usize) -> ChoreResult {
    let mut all = tests();
    all.args(["--no-fail-fast", "--", "--skip", ONE_BY_ONE]);
    all.env("RUST_TEST_THREADS", threads.to_string());
    let mut failures = Failures::default();
    let Err(why) = run_and_read(&mut all, |line| failures.note(line)) else { return Ok(()) };
    if !failures.may_run_again() {
        return Err(why);
    }
    println!("--- once more, alone: {}", failures.names.join(", "));
    let mut again = tests();
    again.args(["--", "--exact"]).args(&failures.names).env("RUST_TEST_THREADS", "1");
    run(&mut again)?;
    println!("--- unstable, must be mended: {}", failures.names.join(", "));
    Ok(())
}

/// The tests except for those in the documentation. Programs in `examples/` are not compiled: the
/// tests that run them include them. Those that run apart are filtered by name: for fewer packages
/// or targets, cargo would compile some of them again, with other features.
fn tests() -> Command {
    let mut tests = cargo(&["test", "--profile", "ci", "--workspace", "--locked"]);
    tests.args(["--lib", "--bins", "--tests"]);
    tests
}

/// Runs a command to its end; prints each line of its output and gives it to `read`.
fn run_and_read(command: &mut Command, read: impl FnMut(&str)) -> ChoreResult {
    let status = read_output(command, read);
    ended(command, status)
}

fn read_output(command: &mut Command, read: impl FnMut(&str)) -> io::Result<ExitStatus> {
    let (lines, output) = io::pipe()?;
    let mut child = command.stdout(output.try_clone()?).stderr(output).spawn()?;
    // The command holds the writing end, and the lines end when no process has it.
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    print_lines(lines, read)?;
    child.wait()
}

fn print_lines(from: impl Read, mut read: impl FnMut(&str)) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        read(text.trim_end());
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(output: &str) -> Failures {
        let mut failures = Failures::default();
        print_lines(output.as_bytes(), |line| failures.note(line)).unwrap();
        failures
    }

    const ONE_TEST: &str = "\
        test slurm::a ... ok\n\
        test slurm::b ... FAILED\n\
        test result: FAILED. 1 passed; 1 failed\n\
        error: 1 target failed:\n    `-p paceline-cli --test process`\n";

    #[test]
    fn a_failed_test_runs_again_by_its_name() {
        let failures = failures(ONE_TEST);
        assert_eq!(failures.names, ["slurm::b"]);
        assert!(failures.may_run_again());
    }

    #[test]
    fn a_program_that_crashes_does_not_pass_at_a_second_run() {
        assert!(!failures("error: 1 target failed:\n    `-p x --lib`\n").may_run_again());
        let and_another = format!("{ONE_TEST}    `-p x --lib`\n");
        assert!(!failures(&and_another).may_run_again());
    }

    #[test]
    fn many_failures_do_not_run_again() {
        let many = "test a ... FAILED\n".repeat(MOST_UNSTABLE + 1);
        let output = format!("{many}test result: FAILED.\n    `-p x --lib`\n");
        assert!(!failures(&output).may_run_again());
    }

    #[test]
    fn the_code_and_the_lines_of_a_command_are_read() {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let result = run_and_read(&mut command, |line| lines.push(line.to_owned()));
        assert!(result.unwrap_err().contains("exit status: 3"));
        lines.sort();
        assert_eq!(lines, ["err", "out"]);
    }
}
