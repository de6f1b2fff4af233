//! Whole clusters with all their accidents, played from a seed.
//!
//! Each seed draws a cluster, a mode and a list of accidents (`plan.rs`) and plays them in a world
//! of events (`world.rs`, `network.rs`, `node.rs`, `accidents.rs`, `server_deaths.rs`) with
//! processes that really train (`process.rs`, of a sparse model `batches.rs`, several slots per
//! process `roster_processes.rs`). Then it checks what must always hold (`checks.rs`).
//!
//! A failing seed is printed. `PACELINE_SEED=n cargo test -p paceline-exchange simulation --
//! --nocapture` replays it alone and prints every event; `PACELINE_SEEDS=n` plays that many.

mod accidents;
mod batches;
mod checks;
mod network;
mod node;
mod plan;
mod process;
mod roster_processes;
mod server_deaths;
mod world;

use super::harness::for_each_seed;
use plan::{ModelKind, RunStyle, ServerFate, SimPlan};
use world::SimWorld;

/// Plays one seed.
fn play(plan: &SimPlan, seed: u64, trace: bool) {
    if trace {
        println!("{plan:#?}");
    }
    let mut world = SimWorld::new(plan.clone(), seed, trace);
    world.run();
    checks::check(&world);
    if plan.has_exact_bits() {
        let mut calm = SimWorld::new(plan.without_accidents(), seed.wrapping_add(1), false);
        calm.run();
        assert_eq!(calm.params(), world.params(), "accidents changed the bits");
    }
}

fn seeds(style: RunStyle, kind: ModelKind, count: u64) {
    seeds_with(style, kind, ServerFate::Steady, count);
}

fn seeds_with(style: RunStyle, kind: ModelKind, fate: ServerFate, count: u64) {
    for_each_seed(&format!("{kind:?} {style:?} {fate:?}"), count, |seed, trace| {
        play(&SimPlan::draw(style, kind, fate, seed), seed, trace);
    });
}

mod dense {
    use super::*;

    #[test]
    fn every_push_is_applied_once_in_async() {
        seeds(RunStyle::Async, ModelKind::Dense, 3_000);
    }

    #[test]
    fn sync_gives_equal_bits_whatever_happens() {
        seeds(RunStyle::SyncAll, ModelKind::Dense, 3_000);
    }

    #[test]
    fn sync_with_backups_uses_whole_gradients() {
        seeds(RunStyle::SyncBackups, ModelKind::Dense, 3_000);
    }

    #[test]
    fn bounded_keeps_its_bound() {
        seeds(RunStyle::Bounded, ModelKind::Dense, 3_000);
    }

    #[test]
    fn a_worker_lost_for_good_fails_the_run_or_is_left_behind() {
        seeds(RunStyle::Loss, ModelKind::Dense, 3_000);
    }

    #[test]
    fn processes_that_join_leave_and_die_change_nothing() {
        seeds(RunStyle::Elastic, ModelKind::Dense, 2_000);
    }
}

mod sparse {
    use super::*;

    #[test]
    fn every_push_is_applied_once_in_async() {
        seeds(RunStyle::Async, ModelKind::Sparse, 3_000);
    }

    #[test]
    fn sync_gives_equal_bits_whatever_happens() {
        seeds(RunStyle::SyncAll, ModelKind::Sparse, 3_000);
    }

    #[test]
    fn sync_with_backups_uses_whole_gradients() {
        seeds(RunStyle::SyncBackups, ModelKind::Sparse, 3_000);
    }

    #[test]
    fn bounded_keeps_its_bound() {
        seeds(RunStyle::Bounded, ModelKind::Sparse, 3_000);
    }

    #[test]
    fn a_worker_lost_for_good_fails_the_run_or_is_left_behind() {
        seeds(RunStyle::Loss, ModelKind::Sparse, 3_000);
    }

    #[test]
    fn processes_that_join_leave_and_die_change_nothing() {
        seeds(RunStyle::Elastic, ModelKind::Sparse, 2_000);
    }
}

/// Servers die and resume from the last complete checkpoint.
mod mortal_servers {
    use super::*;

    fn both(style: RunStyle, count: u64) {
        seeds_with(style, ModelKind::Dense, ServerFate::Mortal, count);
        seeds_with(style, ModelKind::Sparse, ServerFate::Mortal, count);
    }

    #[test]
    fn cost_async_only_the_pushes_since_the_checkpoint() {
        both(RunStyle::Async, 2_000);
    }

    #[test]
    fn do_not_change_the_bits_of_sync() {
        both(RunStyle::SyncAll, 2_000);
    }

    #[test]
    fn leave_the_gradients_of_sync_with_backups_whole() {
        both(RunStyle::SyncBackups, 2_000);
    }

    #[test]
    fn cost_bounded_only_the_pushes_since_the_checkpoint() {
        both(RunStyle::Bounded, 2_000);
    }

    #[test]
    fn find_processes_that_joined_and_left_again() {
        both(RunStyle::Elastic, 1_000);
    }
}
