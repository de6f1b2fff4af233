//! What must hold after every run.

use std::collections::BTreeMap;

use paceline_exchange::{ModeConfig, OnLoss, PeerRole};
use paceline_model::Table;

use crate::plan::{Accident, Plan};
use crate::process::Answered;
use crate::world::World;

pub(crate) fn check(world: &World) {
    let plan = &world.plan;
    if let Some(slot) = plan.dies.filter(|_| world.killed_for_good) {
        let must_fail = slot == 0 || plan.on_loss == OnLoss::Fail;
        match (must_fail, world.failure()) {
            // It may have died when it had left already; but a chief never leaves early.
            (true, None) => {
                assert!(slot > 0, "the chief was lost and nobody minded");
                assert!(world.nodes.iter().all(|node| !node.server.is_live(slot)));
            }
            (true, Some(_)) => return assert!(world.is_blamed(slot), "nobody names worker:{slot}"),
            (false, failure) => assert_eq!(failure, None),
        }
    } else {
        assert_eq!(world.failure(), None);
        // A process that takes over a slot whose predecessor had left may find nobody.
        let first = match plan.crews {
            Some(_) => world.processes.len(),
            None => plan.workers + plan.evaluators,
        };
        for process in &world.processes[..first] {
            assert_eq!(process.aborted, None, "{:?}:{}", process.role, process.slot);
        }
    }
    check_stop(world);
    match plan.mode {
        _ if plan.dies.is_some() => {}
        ModeConfig::Async | ModeConfig::Bounded { .. } => check_sums(world),
        ModeConfig::Sync { quorum } if quorum == plan.workers => {
            assert_eq!(world.params(), reference(plan), "not what a plain loop gives");
        }
        ModeConfig::Sync { quorum } => check_backups(world, quorum),
    }
}

/// How many pushes of a slot server 0 has accepted.
fn pushes(world: &World, slot: usize) -> u64 {
    world.nodes[0].server.accepted(0, slot)
}

fn bits(params: &[f32]) -> Vec<u32> {
    params.iter().map(|value| value.to_bits()).collect()
}

/// The number of steps is as asked for.
fn check_stop(world: &World) {
    let plan = &world.plan;
    let steps = world.nodes[0].server.global_step();
    let stop_steps = match (plan.stop_steps, plan.chief_stops_at) {
        (Some(steps), _) => steps,
        (None, at) if plan.is_sync() => at.map_or(0, |at| at + 1),
        _ => return,
    };
    let has_backups = matches!(plan.mode, ModeConfig::Sync { quorum } if quorum < plan.workers);
    match plan.mode {
        // The chief of a run with backups may fall behind the step it meant to stop at.
        _ if has_backups && plan.stop_steps.is_none() => assert!(steps >= 1),
        ModeConfig::Sync { .. } => assert_eq!(steps, stop_steps),
        _ => {
            let overshoot = plan.workers as u64 * 2 + world.shelf.owed();
            assert!((stop_steps..=stop_steps + overshoot).contains(&steps), "{steps} steps");
        }
    }
}

/// Every push was applied on every chunk of every server, once.
fn check_sums(world: &World) {
    let plan = &world.plan;
    let mut expected = vec![0.0f32; plan.total_params];
    for slot in 0..plan.workers {
        for step in 0..pushes(world, slot) {
            let keys = plan.keys(slot, step);
            for (key, value) in keys.iter().zip(plan.gradients(slot, step, &keys, &[])) {
                expected[*key as usize] -= value;
            }
        }
        let (answered, lost) = count_answered(world, slot);
        // A process may have died after its last answer was sent and before it arrived.
        assert!(answered <= pushes(world, slot));
        check_lost(world, slot, lost);
    }
    assert_eq!(world.params(), bits(&expected), "not each push once");
    let total: u64 = (0..plan.workers).map(|slot| pushes(world, slot)).sum();
    for node in &world.nodes {
        assert_eq!(node.begun_with + node.server.stats().applied_total(), total);
        assert_eq!(node.server.global_step(), total);
    }
}

/// How many answers of a slot's pushes stand for what is in the parameters, and how many for what
/// was lost with a server.
fn count_answered(world: &World, slot: usize) -> (u64, u64) {
    let of_slot = |answered: &&Answered| answered.slot == slot;
    let all = world.answered.iter().filter(of_slot).count();
    let lost = world.answered.iter().filter(of_slot).filter(|a| world.shelf.is_lost(a)).count();
    ((all - lost) as u64, lost as u64)
}

/// A process knows how many of its pushes were lost, unless it died itself.
fn check_lost(world: &World, slot: usize, lost: u64) {
    let mut processes =
        world.processes.iter().filter(|p| p.role == PeerRole::Worker && p.slot == slot);
    if let (Some(only), None) = (processes.next(), processes.next()) {
        assert_eq!(only.client.lost_pushes(), lost, "worker:{slot} knows what it lost");
    }
}

/// `sync` with all workers as anybody would write it on one machine.
fn reference(plan: &Plan) -> Vec<u32> {
    let steps = plan.stop_steps.or(plan.chief_stops_at.map(|at| at + 1)).unwrap_or(0);
    let table = new_table(plan);
    for step in 0..steps {
        let takes_part = |slot: &usize| plan.leaves_at[*slot].is_none_or(|at| step < at);
        let slots: Vec<_> = (0..plan.workers).filter(takes_part).collect();
        make_step(plan, step, &slots, &table);
        if plan.checkpoint_every.is_some_and(|every| (step + 1).is_multiple_of(every)) {
            table.fold();
        }
    }
    params(&table)
}

/// All parameters in one table, whatever kind of model it is: its plain SGD is the dense one.
fn new_table(plan: &Plan) -> Table {
    Table::new(plan.optimizer.clone(), &plan.layout(), 0..plan.total_params)
}

fn params(table: &Table) -> Vec<u32> {
    let mut params = vec![f32::NAN; table.len()];
    table.read_range(table.range(), &mut params);
    bits(&params)
}

fn make_step(plan: &Plan, step: u64, slots: &[usize], table: &Table) {
    let total: u64 = slots.iter().map(|&slot| u64::from(plan.examples(slot, step))).sum();
    let mut mean = BTreeMap::new();
    for &slot in slots {
        let weight = (f64::from(plan.examples(slot, step)) / total as f64) as f32;
        let keys = plan.keys(slot, step);
        let mut values = vec![f32::NAN; keys.len()];
        table.read(&keys, &mut values);
        for (key, value) in keys.iter().zip(plan.gradients(slot, step, &keys, &values)) {
            let term = weight * value;
            mean.entry(*key).and_modify(|sum| *sum += term).or_insert(term);
        }
    }
    let (keys, values): (Vec<_>, Vec<_>) = mean.into_iter().unzip();
    table.update(step, &keys, &values);
}

/// With backups, the answers tell whose gradients each step was made of: as many as the quorum
/// or all who were left, and the parameters are what those give, on every chunk.
fn check_backups(world: &World, quorum: usize) {
    let plan = &world.plan;
    let server = &world.nodes[0].server;
    let table = new_table(plan);
    let stays = |answered: &&Answered| !world.shelf.is_lost(answered);
    let mut is_known = true;
    for step in 0..server.global_step() {
        let used =
            |answered: &&Answered| answered.step == step && !answered.dropped && stays(answered);
        let mut slots: Vec<_> = world.answered.iter().filter(used).map(|a| a.slot).collect();
        slots.sort_unstable();
        let before = slots.len();
        slots.dedup();
        assert_eq!(before, slots.len(), "step {step} counts a slot twice");
        assert!(slots.len() <= quorum, "step {step} of {} gradients", slots.len());
        // The last answer of a process that died is not known to us.
        is_known &= !slots.is_empty();
        make_step(plan, step, &slots, &table);
    }
    // With one server nobody dies between two.
    let is_kill = |accident: &Accident| {
        matches!(accident, Accident::Kill { .. } | Accident::KillServer { .. })
    };
    let kills = plan.accidents.iter().any(|(_, accident)| is_kill(accident));
    // A spare may take a slot over that merely lost its connection, which leaves an answer unheard.
    let kills = kills || plan.crews.is_some();
    if is_known && !kills {
        assert_eq!(world.params(), params(&table), "a step mixes gradients");
    }
    let stats = server.stats();
    if world.shelf.has_claims() {
        // What was dropped before the checkpoint is not told apart in it.
        return;
    }
    let used: u64 = stats.applied_total();
    let most = server.global_step() * quorum as u64;
    assert!(used <= most, "{used} gradients in {} steps of {quorum}", server.global_step());
    let leavers = plan.leaves_at.iter().flatten().count();
    assert!(leavers > 0 || used == most, "{used} gradients, not {most}");
}
