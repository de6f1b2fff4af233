//! Checks of what must hold after every run.

use std::collections::BTreeMap;

use crate::{GradientChanges, ModeConfig, OnLoss, PeerRole, WireFormat};
use paceline_model::ParamTable;
use paceline_model::kernels::{bf16_decode, bf16_encode};

use super::plan::{SimAccident, SimPlan};
use super::process::AnsweredPush;
use super::world::SimWorld;
use crate::tests::harness::read_table;

pub(crate) fn check(world: &SimWorld) {
    let plan = &world.plan;
    if let Some(slot) = plan.dies.filter(|_| world.killed_for_good) {
        let must_fail = slot == 0 || plan.on_loss == OnLoss::Fail;
        match (must_fail, world.failures().next()) {
            // It may have died after it left; but a coordinator never leaves early.
            (true, None) => {
                assert!(slot > 0, "the coordinator was lost without effect");
                assert!(world.nodes.iter().all(|node| !node.server.is_live(slot)));
            }
            (true, Some(_)) => {
                return assert!(names_worker(world, slot), "no server names worker:{slot}");
            }
            (false, failure) => assert_eq!(failure, None),
        }
    } else {
        assert_eq!(world.failures().next(), None);
        // A process that takes over a slot whose predecessor had left may find no server.
        let first = match plan.roster_processes {
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

/// Whether some server failed and named this worker. Others may name the workers that left because
/// of that.
fn names_worker(world: &SimWorld, slot: usize) -> bool {
    world.failures().any(|why| why.contains(&format!("worker:{slot}")))
}

fn pushes(world: &SimWorld, slot: usize) -> u64 {
    world.nodes[0].server.accepted(0, slot)
}

pub(crate) fn bits(params: &[f32]) -> Vec<u32> {
    params.iter().map(|value| value.to_bits()).collect()
}

/// Checks that the run stopped after the requested number of steps.
fn check_stop(world: &SimWorld) {
    let plan = &world.plan;
    let steps = world.nodes[0].server.global_step();
    let stop_steps = match (plan.stop_steps, plan.coordinator_stops_at) {
        (Some(steps), _) => steps,
        (None, at) if plan.is_sync() => at.map_or(0, |at| at + 1),
        _ => return,
    };
    let has_backups = matches!(plan.mode, ModeConfig::Sync { quorum } if quorum < plan.workers);
    match plan.mode {
        // With backups the coordinator may fall behind the step at which it wants to stop.
        _ if has_backups && plan.stop_steps.is_none() => assert!(steps >= 1),
        ModeConfig::Sync { .. } => assert_eq!(steps, stop_steps),
        _ => {
            let overshoot = plan.workers as u64 * 2 + world.disk.owed_pushes();
            assert!((stop_steps..=stop_steps + overshoot).contains(&steps), "{steps} steps");
        }
    }
}

/// Checks that every push was applied once on every chunk of every server.
fn check_sums(world: &SimWorld) {
    let plan = &world.plan;
    let mut expected = vec![0.0f32; plan.total_params * plan.width];
    let mut wire = ReferenceWire::new(plan);
    for slot in 0..plan.workers {
        for step in 0..pushes(world, slot) {
            let keys = plan.keys(slot, step);
            let gradient = wire.gradient(slot, plan.gradients(slot, step, &keys, &[]));
            for (key, values) in keys.iter().zip(gradient.chunks_exact(plan.width)) {
                let place = &mut expected[*key as usize * plan.width..][..plan.width];
                place.iter_mut().zip(values).for_each(|(sum, value)| *sum -= value);
            }
        }
        let (answered, lost) = count_answered(world, slot);
        // A process may have died between its last answer's departure and arrival.
        assert!(answered <= pushes(world, slot));
        check_lost(world, slot, lost);
    }
    expected.truncate(plan.layout().len());
    assert_eq!(world.params(), bits(&expected), "not each push once");
    let total: u64 = (0..plan.workers).map(|slot| pushes(world, slot)).sum();
    for node in &world.nodes {
        assert_eq!(node.restored_pushes + node.server.stats().applied_total(), total);
        assert_eq!(node.server.global_step(), total);
    }
}

/// Answered pushes of a slot that are in the parameters, and those that were lost with a server.
fn count_answered(world: &SimWorld, slot: usize) -> (u64, u64) {
    let of_slot = |answered: &&AnsweredPush| answered.slot == slot;
    let all = world.answered.iter().filter(of_slot).count();
    let lost = world.answered.iter().filter(of_slot).filter(|a| world.disk.is_lost(a)).count();
    ((all - lost) as u64, lost as u64)
}

/// Checks that a process knows how many of its pushes were lost, unless it died itself.
fn check_lost(world: &SimWorld, slot: usize, lost: u64) {
    let mut processes =
        world.processes.iter().filter(|p| p.role == PeerRole::Worker && p.slot == slot);
    if let (Some(only), None) = (processes.next(), processes.next()) {
        assert_eq!(only.client.lost_pushes(), lost, "worker:{slot} counts its lost pushes");
    }
}

/// `sync` with all workers, as a plain loop on one machine.
fn reference(plan: &SimPlan) -> Vec<u32> {
    let steps = plan.stop_steps.or(plan.coordinator_stops_at.map(|at| at + 1)).unwrap_or(0);
    let (table, mut wire) = (new_table(plan), ReferenceWire::new(plan));
    for step in 0..steps {
        let takes_part = |slot: &usize| plan.leaves_at[*slot].is_none_or(|at| step < at);
        let slots: Vec<_> = (0..plan.workers).filter(takes_part).collect();
        make_step(plan, step, &slots, &table, &mut wire);
        if plan.checkpoint_every.is_some_and(|every| (step + 1).is_multiple_of(every)) {
            table.fold();
        }
    }
    params(&table)
}

/// All parameters in one table, for both kinds of model: plain SGD gives dense results.
fn new_table(plan: &SimPlan) -> ParamTable {
    plan.table(0..plan.total_params)
}

fn params(table: &ParamTable) -> Vec<u32> {
    bits(&read_table(table))
}

/// What travels, as a plain loop sees it: every value and every gradient rounded as the wire does.
struct ReferenceWire {
    format: WireFormat,
    changes: Vec<GradientChanges>,
}

impl ReferenceWire {
    fn new(plan: &SimPlan) -> Self {
        let changes = (0..plan.workers).map(|_| GradientChanges::new(plan.total_params)).collect();
        Self { format: plan.wire, changes }
    }

    /// A slot's gradient as the servers know it.
    fn gradient(&mut self, slot: usize, gradient: Vec<f32>) -> Vec<f32> {
        if self.format == WireFormat::F32 {
            return gradient;
        }
        let all = 0..gradient.len();
        self.changes[slot].update(all.clone(), &gradient);
        self.changes[slot].known_mut(all).to_vec()
    }

    fn values(&self, values: &mut [f32]) {
        if self.format == WireFormat::Bf16 {
            let mut bits = vec![0; values.len()];
            bf16_encode(values, &mut bits);
            bf16_decode(&bits, values);
        }
    }
}

fn make_step(
    plan: &SimPlan,
    step: u64,
    slots: &[usize],
    table: &ParamTable,
    wire: &mut ReferenceWire,
) {
    let total: u64 = slots.iter().map(|&slot| u64::from(plan.examples(slot, step))).sum();
    let mut mean = BTreeMap::new();
    for &slot in slots {
        let weight = (f64::from(plan.examples(slot, step)) / total as f64) as f32;
        let keys = plan.keys(slot, step);
        let mut values = vec![f32::NAN; keys.len() * plan.width];
        table.read(&keys, &mut values);
        wire.values(&mut values);
        let gradient = wire.gradient(slot, plan.gradients(slot, step, &keys, &values));
        for (key, values) in keys.iter().zip(gradient.chunks_exact(plan.width)) {
            let terms: Vec<f32> = values.iter().map(|value| weight * value).collect();
            let add = |sums: &mut Vec<f32>| {
                sums.iter_mut().zip(&terms).for_each(|(sum, term)| *sum += term);
            };
            mean.entry(*key).and_modify(add).or_insert(terms.clone());
        }
    }
    let (keys, values): (Vec<_>, Vec<Vec<f32>>) = mean.into_iter().unzip();
    table.update(step, &keys, &values.concat());
}

/// Checks a run with backups. The answers say whose gradients made each step: a quorum, or all
/// workers that were left. The parameters must be what those gradients give, on every chunk.
fn check_backups(world: &SimWorld, quorum: usize) {
    let plan = &world.plan;
    let server = &world.nodes[0].server;
    let (table, mut wire) = (new_table(plan), ReferenceWire::new(plan));
    let stays = |answered: &&AnsweredPush| !world.disk.is_lost(answered);
    let mut is_known = true;
    for step in 0..server.global_step() {
        let used = |answered: &&AnsweredPush| {
            answered.step == step && !answered.dropped && stays(answered)
        };
        let mut slots: Vec<_> = world.answered.iter().filter(used).map(|a| a.slot).collect();
        slots.sort_unstable();
        let before = slots.len();
        slots.dedup();
        assert_eq!(before, slots.len(), "step {step} counts a slot twice");
        assert!(slots.len() <= quorum, "step {step} of {} gradients", slots.len());
        // The last answer of a process that died is unknown.
        is_known &= !slots.is_empty();
        make_step(plan, step, &slots, &table, &mut wire);
    }
    // There is one server, so no accident is a `KillBetween`.
    let is_kill = |accident: &SimAccident| {
        matches!(accident, SimAccident::Kill { .. } | SimAccident::KillServer { .. })
    };
    let kills = plan.accidents.iter().any(|(_, accident)| is_kill(accident));
    // A spare may take over a slot that merely lost its connection; then an answer stays unread.
    let kills = kills || plan.roster_processes.is_some();
    // A late gradient may be of parameters of two steps. It is not used, but where gradients
    // travel as changes, the next one builds on it.
    let has_late = world.answered.iter().any(|answered| answered.dropped);
    let kills = kills || has_late && plan.wire == WireFormat::Bf16;
    if is_known && !kills {
        assert_eq!(world.params(), params(&table), "a step mixes gradients");
    }
    let stats = server.stats();
    if world.disk.has_claims() {
        // A checkpoint does not say which pushes were dropped before it.
        return;
    }
    let used: u64 = stats.applied_total();
    let most = server.global_step() * quorum as u64;
    assert!(used <= most, "{used} gradients in {} steps of {quorum}", server.global_step());
    let leavers = plan.leaves_at.iter().flatten().count();
    assert!(leavers > 0 || used == most, "{used} gradients, not {most}");
}
