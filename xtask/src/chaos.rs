//! `cargo xtask chaos`.

use std::ops::Range;

use crate::process::{ChoreResult, cargo, run};

const USAGE: &str = "cargo xtask chaos [--tls] [--release] [--seeds FIRST..END]";

/// The seeds of each mode that are played unless others are asked for.
const SEEDS: Range<u64> = 0..100;

/// The tests play a third of the number that they are given.
const NUMBER_PER_SEED: u64 = 3;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct ChaosArgs {
    /// All runs are encrypted, and not half of them.
    tls: bool,
    /// The program is built as users have it, and not as tests have it.
    release: bool,
    seeds: Range<u64>,
}

/// Plays some chaos seeds of each mode; `cargo test` plays two.
pub(crate) fn chaos(args: &[String]) -> ChoreResult {
    let ChaosArgs { tls, release, seeds } = parse(args).ok_or(USAGE)?;
    let mut tests = cargo(&["test", "--package=paceline-cli", "--locked"]);
    if release {
        tests.arg("--release");
    }
    if tls {
        tests.env("PACELINE_CHAOS_TLS", "1");
    }
    tests.args(["--test", "process", "chaos::", "--", "--nocapture"]);
    tests.env("PACELINE_CHAOS_SEED", seeds.start.to_string());
    let number = NUMBER_PER_SEED * (seeds.end - seeds.start);
    run(tests.env("PACELINE_CHAOS_SEEDS", number.to_string()))
}

fn parse(args: &[String]) -> Option<ChaosArgs> {
    let mut parsed = ChaosArgs { tls: false, release: false, seeds: SEEDS };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--tls" => parsed.tls = true,
            "--release" => parsed.release = true,
            "--seeds" => {
                let (first, end) = args.next()?.split_once("..")?;
                parsed.seeds = first.parse().ok()?..end.parse().ok()?;
            }
            _ => return None,
        }
    }
    (parsed.seeds.start < parsed.seeds.end).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<ChaosArgs> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_range_of_seeds_is_played_and_an_empty_one_is_refused() {
        let args = parsed("--seeds 18..40 --tls --release").unwrap();
        assert_eq!(args, ChaosArgs { tls: true, release: true, seeds: 18..40 });
        let args = parsed("").unwrap();
        assert_eq!(args, ChaosArgs { tls: false, release: false, seeds: SEEDS });
        for wrong in ["--seeds", "--seeds 5", "--seeds 5..5", "--seeds 5..=7", "--fast"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
