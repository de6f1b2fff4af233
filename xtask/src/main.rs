//! The project's chores. `cargo xtask ci` is everything that must hold before a change lands.

mod deps;
mod setup;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const USAGE: &str = "\
cargo xtask ci      format, lints, dependencies, documentation and all tests;
                    installs what they need on a Debian machine
cargo xtask setup   only install what the tests need
cargo xtask deps    only check the dependencies
cargo xtask chaos   300 runs whose tasks are killed, stopped and cut off at random
";

/// A chore's end: nothing, or why it failed.
type Done = Result<(), String>;

fn main() -> ExitCode {
    let chore = std::env::args().nth(1).unwrap_or_default();
    let done = match chore.as_str() {
        "ci" => ci(),
        "setup" => setup::install().map(|python| println!("PACELINE_PYTHON={}", python.display())),
        "deps" => deps::check(&root()),
        "chaos" => chaos(),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Everything, cheapest first.
fn ci() -> Done {
    let start = Instant::now();
    step("format", || run(cargo(&["fmt", "--all", "--check"])))?;
    step("dependencies", || deps::check(&root()))?;
    let lints = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    step("lints", || run(cargo(&lints)))?;
    let docs = ["doc", "--workspace", "--no-deps", "--locked"];
    step("documentation", || run(cargo(&docs).env("RUSTDOCFLAGS", "-D warnings")))?;
    let mut python = PathBuf::new();
    step("set-up", || setup::install().map(|installed| python = installed))?;
    let tests = ["test", "--workspace", "--locked"];
    // Most tests wait for processes rather than work.
    let threads = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    step("tests", || {
        let mut tests = cargo(&tests);
        tests.env("RUST_TEST_THREADS", threads.to_string());
        run(tests.env("PACELINE_PYTHON", &python))
    })?;
    println!("all is well, {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs that everything befalls: ten times as many as the tests make of them.
fn chaos() -> Done {
    let tests = ["test", "-p", "paceline", "--locked", "--test", "process", "chaos::", "--"];
    run(cargo(&tests).arg("--nocapture").env("PACELINE_CHAOS_SEEDS", "300"))
}

fn step(name: &str, work: impl FnOnce() -> Done) -> Done {
    println!("--- {name}");
    let start = Instant::now();
    work().map_err(|why| format!("{name} failed: {why}"))?;
    println!("--- {name}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// The workspace's root.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// Runs a command to its end, with its output going where ours goes.
fn run(mut command: impl AsMutCommand) -> Done {
    let command = command.as_mut_command();
    let shown = format!("{command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

/// `Command`'s builder methods give `&mut Command`; both forms can be run.
trait AsMutCommand {
    fn as_mut_command(&mut self) -> &mut Command;
}

impl AsMutCommand for Command {
    fn as_mut_command(&mut self) -> &mut Command {
        self
    }
}

impl AsMutCommand for &mut Command {
    fn as_mut_command(&mut self) -> &mut Command {
        self
    }
}
