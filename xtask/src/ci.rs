//! `cargo xtask ci` and `cargo xtask chaos`.

use std::time::Instant;

use crate::process::{ChoreResult, cargo, root, run};
use crate::{cycles, deps, setup, test_run, tidy};

/// Every check and test, the cheapest first.
pub(crate) fn ci() -> ChoreResult {
    let start = Instant::now();
    step("format", || run(&mut cargo(&["fmt", "--all", "--check"])))?;
    step("dependencies", || deps::check(&root()))?;
    step("cycles", || cycles::check(&root()))?;
    step("tidy", || tidy::check(&root(), &[]))?;
    step("lints", || {
        // With the code that only some builds have.
        let mut clippy = cargo(&["clippy", "--workspace", "--all-targets", "--all-features"]);
        clippy.env("CARGO_INCREMENTAL", "0");
        run(clippy.args(["--locked", "--", "-D", "warnings"]))
    })?;
    step("documentation", || {
        let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
        run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    step("set-up", setup::install)?;
    // Most tests wait for processes rather than work.
    let threads = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    step("tests", || test_run::check(threads))?;
    println!("ci passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Plays 100 chaos seeds of each mode; `cargo test` plays six.
pub(crate) fn chaos() -> ChoreResult {
    let mut tests = cargo(&["test", "--workspace", "--locked", "--test", "process", "chaos::"]);
    run(tests.args(["--", "--nocapture"]).env("PACELINE_CHAOS_SEEDS", "300"))
}

fn step(name: &str, work: impl FnOnce() -> ChoreResult) -> ChoreResult {
    println!("--- {name}");
    let start = Instant::now();
    work().map_err(|why| format!("{name} failed: {why}"))?;
    println!("--- {name}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
