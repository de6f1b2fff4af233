//! Whole clusters with all their accidents, played from a seed.
//!
//! Each seed draws a cluster, a mode and a list of accidents (`plan.rs`), plays it in a world of
//! events (`world.rs`, `accidents.rs`) with processes that train in earnest (`process.rs`), and then checks what
//! must always hold (`checks.rs`). A failing seed is printed; `PACELINE_SEED=n cargo test -p
//! paceline-exchange --test simulation` plays it alone and prints every event. `PACELINE_SEEDS=n`
//! plays more seeds, or fewer.

mod accidents;
mod checks;
mod plan;
mod process;
mod world;

use plan::{Plan, Style};
use world::World;

fn play(style: Style, seed: u64, trace: bool) {
    let plan = Plan::draw(style, seed);
    if trace {
        println!("{plan:#?}");
    }
    let mut world = World::new(plan.clone(), seed, trace);
    world.run();
    checks::check(&world);
    if plan.has_exact_bits() {
        let mut calm = World::new(plan.without_accidents(), seed.wrapping_add(1), false);
        calm.run();
        assert_eq!(calm.params(), world.params(), "accidents changed the bits");
    }
}

/// Plays many seeds of one style and names the first that fails.
fn seeds(style: Style, count: u64) {
    if let Some(seed) = std::env::var("PACELINE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return play(style, seed, true);
    }
    let count = std::env::var("PACELINE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(count);
    for seed in 0..count {
        let result = std::panic::catch_unwind(|| play(style, seed, false));
        if let Err(panic) = result {
            println!("{style:?}: replay with PACELINE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn every_push_is_applied_once_in_async() {
    seeds(Style::Async, 3_000);
}

#[test]
fn sync_gives_equal_bits_whatever_happens() {
    seeds(Style::SyncAll, 3_000);
}

#[test]
fn sync_with_backups_uses_whole_gradients() {
    seeds(Style::SyncBackups, 3_000);
}

#[test]
fn bounded_keeps_its_bound() {
    seeds(Style::Bounded, 3_000);
}

#[test]
fn a_worker_lost_for_good_ends_the_run_or_is_left_behind() {
    seeds(Style::Loss, 3_000);
}
