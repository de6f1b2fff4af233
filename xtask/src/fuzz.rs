//! `cargo xtask fuzz` and `cargo xtask deny`.

use crate::process::{ChoreResult, cargo, run};

/// The program that drives the targets. It is optimised, and has the checks that tests have.
const PROGRAM: [&str; 5] = ["run", "--locked", "--profile", "fuzz", "--package=paceline-fuzz"];

/// Drives every fuzz target for its share of some minutes, or for some inputs each.
pub(crate) fn fuzz(args: &[String]) -> ChoreResult {
    let usage = || "cargo xtask fuzz --minutes N | --inputs N [--seed N] [TARGET]...".to_owned();
    let mut drive = cargo(&PROGRAM);
    drive.arg("--");
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg != "--minutes" {
            drive.arg(arg);
            continue;
        }
        let minutes: f64 = args.next().and_then(|number| number.parse().ok()).ok_or_else(usage)?;
        drive.arg("--minutes").arg(minutes.to_string());
    }
    run(&mut drive)
}

/// Checks licences, bans and sources of all dependencies by `deny.toml`, and advisories if asked.
pub(crate) fn deny(args: &[String]) -> ChoreResult {
    let is_there = cargo(&["deny", "--version"]).output().is_ok_and(|out| out.status.success());
    if !is_there {
        return Err("cargo-deny is not installed: cargo install --locked cargo-deny".into());
    }
    // The other checks read the sources of all dependencies, of every feature. Advisories come
    // from the network.
    run(&mut cargo(&["fetch", "--locked"]))?;
    let checks: &[&str] = if args.iter().any(|arg| arg == "--advisories") {
        &["deny", "check"]
    } else {
        &["deny", "--offline", "check", "licenses", "bans", "sources"]
    };
    run(&mut cargo(checks))
}
