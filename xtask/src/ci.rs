//! `cargo xtask ci`.

use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use crate::process::{ChoreResult, cargo, in_background, root, run, run_quietly};
use crate::{cycles, deps, setup, test_run, tidy};

/// Every check and test, the cheapest first. What the tests need is installed while they are
/// compiled. Lints and documentation are checked beside the tests, which often wait: all of them
/// use the same profile, so what one has compiled for the others (macros, build scripts and their C
/// libraries) is there.
pub(crate) fn ci() -> ChoreResult {
    let start = Instant::now();
    step("format", || run(&mut cargo(&["fmt", "--all", "--check"])))?;
    step("dependencies", || deps::check(&root()))?;
    step("cycles", || cycles::check(&root()))?;
    step("tidy", || tidy::check(&root(), &[]))?;
    thread::scope(|scope| {
        let needs = scope.spawn(|| step("set-up", setup::install));
        let built = step("build", test_run::build);
        ended(needs)?;
        built?;
        let lints = scope.spawn(|| {
            step("lints", lint)?;
            step("documentation", document)?;
            step("examples of the documentation", test_run::check_documentation)
        });
        // Most tests wait for processes rather than work.
        let threads = 1 + 2 * thread::available_parallelism().map_or(2, usize::from);
        let tests = step("tests", || test_run::check(threads));
        ended(lints).and(tests)
    })?;
    println!("ci passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// How the chores of a thread have ended.
fn ended(chores: ScopedJoinHandle<ChoreResult>) -> ChoreResult {
    chores.join().unwrap_or_else(|_| Err("a thread of the checks failed".into()))
}

/// Lints everything with all features, and without Parquet, as a first build is, the crates that
/// may use it.
fn lint() -> ChoreResult {
    let everything = ["--workspace", "--all-targets", "--all-features"];
    let no_parquet = ["-p", "paceline-score", "-p", "paceline-table", "--no-default-features"];
    for targets in [&everything[..], &no_parquet] {
        let mut clippy = in_background("clippy");
        clippy.args(["--profile", "ci", "--locked"]).args(targets);
        run_quietly(clippy.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

fn document() -> ChoreResult {
    let mut doc = in_background("doc");
    doc.args(["--profile", "ci", "--workspace", "--no-deps", "--all-features", "--locked"]);
    run_quietly(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn step(name: &str, work: impl FnOnce() -> ChoreResult) -> ChoreResult {
    println!("--- {name}");
    let start = Instant::now();
    work().map_err(|why| format!("{name} failed: {why}"))?;
    println!("--- {name}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
