//! Whole clusters with all their accidents, played from a seed.
//!
//! Each seed draws a cluster, a mode and a list of accidents (`plan.rs`), plays it in a world of
//! events (`world.rs`, `node.rs`, `accidents.rs`, `lives.rs`) with processes that train in earnest
//! (`process.rs`, of a sparse model `batches.rs`, and together as `crews.rs`), and then checks what must always hold
//! (`checks.rs`). A failing seed is printed; `PACELINE_SEED=n cargo test -p paceline-exchange --test
//! simulation` plays it alone and prints every event. `PACELINE_SEEDS=n` plays more, or fewer.

mod accidents;
mod batches;
mod checks;
mod crews;
mod lives;
mod node;
mod plan;
mod process;
mod world;

use plan::{ModelKind, Plan, Servers, Style};
use world::World;

fn play(style: Style, kind: ModelKind, mortal: Servers, seed: u64, trace: bool) {
    let plan = Plan::draw(style, kind, mortal, seed);
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
fn seeds(style: Style, kind: ModelKind, count: u64) {
    seeds_with(style, kind, Servers::Steady, count);
}

fn seeds_with(style: Style, kind: ModelKind, mortal: Servers, count: u64) {
    if let Some(seed) = std::env::var("PACELINE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return play(style, kind, mortal, seed, true);
    }
    let count = std::env::var("PACELINE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(count);
    for seed in 0..count {
        let result = std::panic::catch_unwind(|| play(style, kind, mortal, seed, false));
        if let Err(panic) = result {
            println!("{kind:?} {style:?} {mortal:?}: replay with PACELINE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

mod dense {
    use super::*;

    #[test]
    fn every_push_is_applied_once_in_async() {
        seeds(Style::Async, ModelKind::Dense, 3_000);
    }

    #[test]
    fn sync_gives_equal_bits_whatever_happens() {
        seeds(Style::SyncAll, ModelKind::Dense, 3_000);
    }

    #[test]
    fn sync_with_backups_uses_whole_gradients() {
        seeds(Style::SyncBackups, ModelKind::Dense, 3_000);
    }

    #[test]
    fn bounded_keeps_its_bound() {
        seeds(Style::Bounded, ModelKind::Dense, 3_000);
    }

    #[test]
    fn a_worker_lost_for_good_ends_the_run_or_is_left_behind() {
        seeds(Style::Loss, ModelKind::Dense, 3_000);
    }

    #[test]
    fn processes_that_come_and_go_change_nothing() {
        seeds(Style::Elastic, ModelKind::Dense, 2_000);
    }
}

mod sparse {
    use super::*;

    #[test]
    fn every_push_is_applied_once_in_async() {
        seeds(Style::Async, ModelKind::Sparse, 3_000);
    }

    #[test]
    fn sync_gives_equal_bits_whatever_happens() {
        seeds(Style::SyncAll, ModelKind::Sparse, 3_000);
    }

    #[test]
    fn sync_with_backups_uses_whole_gradients() {
        seeds(Style::SyncBackups, ModelKind::Sparse, 3_000);
    }

    #[test]
    fn bounded_keeps_its_bound() {
        seeds(Style::Bounded, ModelKind::Sparse, 3_000);
    }

    #[test]
    fn a_worker_lost_for_good_ends_the_run_or_is_left_behind() {
        seeds(Style::Loss, ModelKind::Sparse, 3_000);
    }

    #[test]
    fn processes_that_come_and_go_change_nothing() {
        seeds(Style::Elastic, ModelKind::Sparse, 2_000);
    }
}

/// Servers die and come back with what the last complete checkpoint has.
mod mortal_servers {
    use super::*;

    fn both(style: Style, count: u64) {
        seeds_with(style, ModelKind::Dense, Servers::Mortal, count);
        seeds_with(style, ModelKind::Sparse, Servers::Mortal, count);
    }

    #[test]
    fn cost_async_no_push_but_those_since_the_checkpoint() {
        both(Style::Async, 2_000);
    }

    #[test]
    fn do_not_change_the_bits_of_sync() {
        both(Style::SyncAll, 2_000);
    }

    #[test]
    fn leave_the_gradients_of_sync_with_backups_whole() {
        both(Style::SyncBackups, 2_000);
    }

    #[test]
    fn cost_bounded_no_push_but_those_since_the_checkpoint() {
        both(Style::Bounded, 2_000);
    }

    #[test]
    fn find_processes_that_came_and_went_again() {
        both(Style::Elastic, 1_000);
    }
}
