//! Whole runs without servers, played from a seed (`plan.rs`, `world.rs`, `wires.rs`): frames are
//! delayed and reordered across connections, connections hold little, and workers die. In runs
//! that recover, any process may be killed at any moment, including the coordinator, all of them
//! at once, or one that has just been restarted, and connections break; each time a new process
//! fills the slot. Every run must end, and with the bits of a plain loop.

use std::collections::BTreeSet;

mod keyed;
mod pieces;
mod plan;
mod refusals;
mod states;
mod wires;
mod world;

use super::harness::{SeededRandom, for_each_seed, mix, seed_count};
use crate::{
    ControlFrame, GreetError, RefuseCode, Replica, ReplicaConfig, WireFormat, as_bytes,
    worker_names,
};
use plan::ReplicaPlan;
use world::{LOST_AT_ONCE, ReplicaPhase, ReplicaWorld};

#[test]
fn all_replicas_end_with_the_bits_of_a_plain_loop() {
    for_each_seed("replicas", 3_000, |seed, _| {
        let plan = ReplicaPlan::draw(seed, false);
        let (params, steps) = plan.plain_loop();
        let world = ReplicaWorld::new(plan.clone(), seed).play();
        for process in world.processes.iter().flatten() {
            assert_eq!(process.failed, None, "{plan:?}");
            assert_eq!(process.replica.global_step(), steps, "{plan:?}");
            assert!(as_bytes(process.replica.params()) == as_bytes(&params), "{plan:?}");
        }
        let reports = world.processes[0].as_ref().unwrap().replica.reports().unwrap();
        let slots: Vec<_> = reports.iter().filter_map(|report| report.slot).collect();
        assert_eq!(slots, (1..plan.workers as u32).collect::<Vec<_>>());
    });
}

#[test]
fn changes_that_are_rounded_give_the_bits_of_a_plain_loop_that_rounds() {
    for_each_seed("rounded replicas", 3_000, |seed, _| {
        let plan = ReplicaPlan { wire: WireFormat::Bf16, ..ReplicaPlan::draw(seed, false) };
        let (params, steps) = plan.plain_loop();
        for process in ReplicaWorld::new(plan.clone(), seed).play().processes.iter().flatten() {
            assert_eq!(process.failed, None, "{plan:?}");
            assert_eq!(process.replica.global_step(), steps, "{plan:?}");
            assert!(as_bytes(process.replica.params()) == as_bytes(&params), "{plan:?}");
        }
    });
}

#[test]
fn a_run_that_rounds_ends_with_its_bits_unless_two_workers_are_lost_at_once() {
    let (mut transfers, mut deaths, mut failures) = (0, 0, 0);
    let seeds = seed_count(4_000);
    for seed in 0..seeds {
        let plan = ReplicaPlan { wire: WireFormat::Bf16, ..ReplicaPlan::draw(seed, true) };
        let (params, _) = plan.plain_loop();
        let mut world = ReplicaWorld::new(plan.clone(), seed);
        draw_deaths(&mut world);
        let slots: BTreeSet<_> = world.deaths.iter().map(|(_, slot)| *slot).collect();
        let planned = world.deaths.len();
        let world = world.play();
        deaths += planned - world.deaths.len();
        transfers += world.transfers;
        for process in world.processes.iter().flatten() {
            if let Some(why) = &process.failed {
                failures += 1;
                assert!(why.contains(LOST_AT_ONCE) && slots.len() > 1, "{seed}: {why} {plan:?}");
            } else if process.phase == ReplicaPhase::Leaving {
                let has_same = as_bytes(process.replica.params()) == as_bytes(&params);
                assert!(has_same, "{seed}: {plan:?}");
            }
        }
    }
    let is_rich = deaths > seeds as usize / 4 && transfers > seeds as usize / 8;
    assert!(is_rich, "only {deaths} deaths and {transfers} transfers in {seeds} runs");
    assert!(failures < seeds as usize / 4, "{failures} workers failed in {seeds} runs");
}

/// A worker is one step behind and loses the only replica that has made the step, while another
/// process is new.
#[test]
fn a_run_that_rounds_does_not_begin_again_when_its_last_step_is_lost() {
    for seed in [6_758, 16_711] {
        let plan = ReplicaPlan { wire: WireFormat::Bf16, ..ReplicaPlan::draw(seed, true) };
        let mut world = ReplicaWorld::new(plan, seed);
        draw_deaths(&mut world);
        let world = world.play();
        let mut failures = world.processes.iter().flatten().filter_map(|its| its.failed.as_ref());
        assert!(failures.any(|why| why.contains(LOST_AT_ONCE)), "{seed}");
    }
}

#[test]
fn a_worker_that_dies_fails_the_run_for_all_and_is_named_by_all() {
    let mut failures = 0;
    for seed in 0..3_000 {
        let plan = ReplicaPlan::draw(seed, false);
        let (params, _) = plan.plain_loop();
        let mut random = SeededRandom::new(mix(seed + 77));
        let dead = random.index(plan.workers);
        let mut world = ReplicaWorld::new(plan.clone(), seed);
        world.deaths.push((random.index(200), dead));
        let world = world.play();
        if world.processes[dead].is_some() {
            continue;
        }
        for process in world.processes.iter().flatten() {
            match &process.failed {
                Some(why) => {
                    failures += 1;
                    assert_eq!(why, &format!("lost worker:{dead}"), "{seed}: {plan:?}");
                }
                // It died so late that no other worker needed it any more.
                None => assert_eq!(process.replica.params(), params, "{seed}: {plan:?}"),
            }
        }
    }
    assert!(failures > 1000, "only {failures} workers failed");
}

#[test]
fn a_run_that_recovers_ends_with_the_bits_of_a_plain_loop_whatever_dies() {
    let (mut transfers, mut deaths) = (0, 0);
    let seeds = seed_count(4_000);
    for seed in 0..seeds {
        let plan = ReplicaPlan::draw(seed, true);
        let (params, steps) = plan.plain_loop();
        let mut world = ReplicaWorld::new(plan.clone(), seed);
        draw_deaths(&mut world);
        let planned = world.deaths.len();
        let world = world.play();
        deaths += planned - world.deaths.len();
        transfers += world.transfers;
        let coordinator = world.processes[0].as_ref().unwrap();
        let reports = coordinator.replica.reports().unwrap();
        assert_eq!(reports.len(), plan.workers - 1, "{seed}: {plan:?}");
        for process in world.processes.iter().flatten() {
            if process.phase == ReplicaPhase::Leaving {
                assert_eq!(process.replica.global_step(), steps, "{seed}: {plan:?}");
                assert!(
                    as_bytes(process.replica.params()) == as_bytes(&params),
                    "{seed}: {plan:?}"
                );
            }
        }
    }
    let is_rich = deaths > seeds as usize / 4 && transfers > seeds as usize / 8;
    assert!(is_rich, "only {deaths} deaths and {transfers} transfers in {seeds} runs");
}

/// Draws up to five deaths, sometimes the death of all at once, and up to two broken connections.
fn draw_deaths(world: &mut ReplicaWorld) {
    let n = world.plan.workers;
    let within = 40 + 60 * world.plan.steps[0] as usize * n;
    let random = &mut world.random;
    let count = random.index(6);
    world.deaths = (0..count).map(|_| (random.index(within), random.index(n))).collect();
    if random.index(5) == 0 {
        let when = random.index(within);
        world.deaths.extend((0..n).map(|slot| (when, slot)));
    }
    let count = random.index(3);
    world.cuts = (0..count).map(|_| random.index(within)).collect();
}

#[test]
fn replicas_that_differ_are_found_at_the_next_comparison_and_named() {
    let plan = ReplicaPlan {
        workers: 3,
        total: 20,
        chunk_floats: 3,
        owner_floats: 15,
        steps: vec![6; 3],
        stop_steps: None,
        stop_after: None,
        room: 2,
        recovers: false,
        pieces: Vec::new(),
        wire: WireFormat::F32,
        table: None,
    };
    let mut world = ReplicaWorld::new(plan, 5);
    world.fault = Some((2, 4));
    for process in world.play().processes.into_iter().flatten() {
        let why = process.failed.unwrap();
        assert!(why.contains("worker:2") && why.contains("differ"), "{why}");
    }
}

#[test]
fn workers_that_do_not_belong_to_the_run_are_refused() {
    let plan = ReplicaPlan { workers: 3, ..ReplicaPlan::draw(3, false) };
    let mut here = plan.replica(plan.config(1));
    let base = plan.config(2);
    let refused = |here: &mut Replica, other: ReplicaConfig| {
        let ControlFrame { header, body: hello } = plan.replica(other).hello(1);
        match here.accept_hello(&header, &hello) {
            Err(GreetError::Refused { refusal, slot }) => (refusal.code, slot),
            other => panic!("{other:?}"),
        }
    };
    let other = |change: &dyn Fn(&mut ReplicaConfig)| {
        let mut config = base.clone();
        change(&mut config);
        config
    };
    for (config, expected) in [
        (other(&|c| c.job = [8; 32].into()), (RefuseCode::WrongJob, Some(2))),
        (other(&|c| c.layout_digest = [8; 32]), (RefuseCode::WrongLayout, Some(2))),
        (other(&|c| c.names = worker_names(4)), (RefuseCode::WrongServer, Some(2))),
        (other(&|c| c.wire = WireFormat::Bf16), (RefuseCode::WrongWire, Some(2))),
        (other(&|c| c.slot = 0), (RefuseCode::BadSlot, Some(0))),
        (other(&|c| c.incarnation = 1 << 62), (RefuseCode::NotNow, Some(2))),
    ] {
        assert_eq!(refused(&mut here, config), expected);
    }
    let ControlFrame { header, body: hello } = plan.replica(other(&|c| c.incarnation = 5)).hello(1);
    assert_eq!(here.accept_hello(&header, &hello), Ok(2));
    assert_eq!(refused(&mut here, base.clone()), (RefuseCode::SlotTaken, Some(2)));
    let mut broken = hello.clone();
    broken[0] = b'X';
    assert!(matches!(here.accept_hello(&header, &broken), Err(GreetError::Stranger(_))));
}

#[test]
fn a_process_in_place_of_a_lost_worker_may_connect_to_higher_slots() {
    let plan = ReplicaPlan { workers: 3, ..ReplicaPlan::draw(3, true) };
    let mut here = plan.replica(plan.config(2));
    let ControlFrame { header, body: hello } = plan.replica(plan.config(1)).hello(2);
    assert_eq!(here.accept_hello(&header, &hello), Ok(1));
    assert!(here.is_connected(1));
}
