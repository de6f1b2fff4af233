//! Whole clusters with all their accidents, played from a seed.
//!
//! Each seed draws a cluster, a mode and a list of accidents (`plan.rs`) and plays them in a world
//! of events (`world.rs`, `network.rs`, `node.rs`, `accidents.rs`, `server_deaths.rs`) with
//! processes that really train (`process.rs`, `goodbyes.rs`; of a sparse model `batches.rs`; with
//! several slots `roster_processes.rs`). Then it checks what must always hold (`checks.rs`).
//!
//! A failing seed is printed. `PACELINE_SEED=n cargo test -p paceline-exchange simulation --
//! --nocapture` replays it alone and prints every event; `PACELINE_SEEDS=n` plays that many.

mod accidents;
mod batches;
mod checks;
mod goodbyes;
mod network;
mod node;
mod plan;
mod process;
mod roster_processes;
mod server_deaths;
mod world;

use super::harness::for_each_seed;
use plan::{RunStyle, ServerFate, SimPlan, StoreKind};
use world::SimWorld;

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

/// Defines tests that play seeds of one style, kind of model and fate of servers.
macro_rules! seeded_tests {
    ($($name:ident: $style:ident, $kind:ident, $fate:ident, $count:literal;)*) => {$(
        #[test]
        fn $name() {
            let what = concat!(stringify!($kind), " ", stringify!($style), " ", stringify!($fate));
            for_each_seed(what, $count, |seed, trace| {
                let (style, kind) = (RunStyle::$style, StoreKind::$kind);
                play(&SimPlan::draw(style, kind, ServerFate::$fate, seed), seed, trace);
            });
        }
    )*};
}

mod dense {
    use super::*;

    seeded_tests! {
        every_push_is_applied_once_in_async: Async, Dense, Steady, 3_000;
        sync_gives_equal_bits_whatever_happens: SyncAll, Dense, Steady, 3_000;
        sync_with_backups_uses_whole_gradients: SyncBackups, Dense, Steady, 3_000;
        bounded_keeps_its_bound: Bounded, Dense, Steady, 3_000;
        a_worker_lost_for_good_fails_the_run_or_is_left_behind: Loss, Dense, Steady, 3_000;
        processes_that_join_leave_and_die_change_nothing: Elastic, Dense, Steady, 2_000;
    }
}

mod sparse {
    use super::*;

    seeded_tests! {
        every_push_is_applied_once_in_async: Async, Sparse, Steady, 3_000;
        sync_gives_equal_bits_whatever_happens: SyncAll, Sparse, Steady, 3_000;
        sync_with_backups_uses_whole_gradients: SyncBackups, Sparse, Steady, 3_000;
        bounded_keeps_its_bound: Bounded, Sparse, Steady, 3_000;
        a_worker_lost_for_good_fails_the_run_or_is_left_behind: Loss, Sparse, Steady, 3_000;
        processes_that_join_leave_and_die_change_nothing: Elastic, Sparse, Steady, 2_000;
    }
}

/// Numbers travel as bf16, gradients as changes.
mod rounded {
    use super::*;

    seeded_tests! {
        every_push_is_applied_once_in_async: Async, Rounded, Steady, 2_000;
        sync_gives_equal_bits_whatever_happens: SyncAll, Rounded, Steady, 3_000;
        sync_with_backups_uses_whole_gradients: SyncBackups, Rounded, Steady, 2_000;
        bounded_keeps_its_bound: Bounded, Rounded, Steady, 2_000;
        a_worker_lost_for_good_fails_the_run_or_is_left_behind: Loss, Rounded, Steady, 1_000;
        processes_that_join_leave_and_die_change_nothing: Elastic, Rounded, Steady, 2_000;
        servers_that_die_do_not_change_the_bits_of_sync: SyncAll, Rounded, Mortal, 2_000;
        servers_that_die_cost_async_only_pushes: Async, Rounded, Mortal, 2_000;
        servers_that_die_cost_bounded_only_pushes: Bounded, Rounded, Mortal, 1_000;
        servers_that_die_leave_sync_with_backups_whole: SyncBackups, Rounded, Mortal, 1_000;
        servers_that_die_find_processes_that_joined: Elastic, Rounded, Mortal, 1_000;
    }
}

/// Servers die and resume from the last complete checkpoint.
mod mortal_servers {
    use super::*;

    seeded_tests! {
        cost_async_only_the_pushes_since_the_checkpoint: Async, Dense, Mortal, 2_000;
        do_not_change_the_bits_of_sync: SyncAll, Dense, Mortal, 2_000;
        leave_the_gradients_of_sync_with_backups_whole: SyncBackups, Dense, Mortal, 2_000;
        cost_bounded_only_the_pushes_since_the_checkpoint: Bounded, Dense, Mortal, 2_000;
        find_processes_that_joined_and_left_again: Elastic, Dense, Mortal, 1_000;
    }

    /// The coordinator dies twice while the others make 300 steps without it.
    #[test]
    fn leave_the_gradients_whole_of_a_run_that_lasts_because_its_coordinator_is_away() {
        let plan =
            |seed| SimPlan::draw(RunStyle::SyncBackups, StoreKind::Dense, ServerFate::Mortal, seed);
        play(&plan(10_912), 10_912, false);
    }

    mod sparse {
        use super::*;

        seeded_tests! {
            cost_async_only_the_pushes_since_the_checkpoint: Async, Sparse, Mortal, 2_000;
            do_not_change_the_bits_of_sync: SyncAll, Sparse, Mortal, 2_000;
            leave_the_gradients_of_sync_with_backups_whole: SyncBackups, Sparse, Mortal, 2_000;
            cost_bounded_only_the_pushes_since_the_checkpoint: Bounded, Sparse, Mortal, 2_000;
            find_processes_that_joined_and_left_again: Elastic, Sparse, Mortal, 1_000;
        }
    }
}
