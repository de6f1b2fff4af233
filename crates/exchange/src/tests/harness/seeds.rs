//! Which seeds are played: `PACELINE_SEED=n` replays one and traces it, `PACELINE_SEEDS=n` plays
//! that many, and otherwise each test has its own number.

use std::panic::{catch_unwind, resume_unwind};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

pub(crate) fn seed_count(usual: u64) -> u64 {
    number("PACELINE_SEEDS").unwrap_or(usual)
}

/// Calls `play(seed, trace)` for every seed and names the first one that fails.
pub(crate) fn for_each_seed(
    what: &str,
    usual: u64,
    play: impl Fn(u64, bool) + std::panic::RefUnwindSafe,
) {
    if let Some(seed) = number("PACELINE_SEED") {
        return play(seed, true);
    }
    for seed in 0..seed_count(usual) {
        if let Err(panic) = catch_unwind(|| play(seed, false)) {
            println!("{what}: replay with PACELINE_SEED={seed}");
            resume_unwind(panic);
        }
    }
}
