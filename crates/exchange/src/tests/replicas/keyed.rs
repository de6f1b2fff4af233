//! Runs of a sparse model without servers: every worker has the whole table.

use paceline_model::{
    AdaGrad, EntryPolicy, Group, Layout, OptimizerSpec, ParamTable, Sgd, StoredEntries,
};

use super::plan::{ReplicaPlan, examples};
use super::world::ReplicaWorld;
use super::{ReplicaPhase, draw_deaths};
use crate::tests::harness::{EntryModel, SeededRandom, mix, seed_count};
use crate::{ControlFrame, Flags, FrameKind, Header, Replica, WholeGradient};

/// What the tables of a run are.
#[derive(Clone, Debug)]
pub(crate) struct TablePlan {
    features: usize,
    width: usize,
    /// Parameters that every example touches.
    shared: usize,
    policy: EntryPolicy,
    /// Whether parameters decay, with plain SGD.
    decays: bool,
}

impl TablePlan {
    fn draw(seed: u64) -> Self {
        let mut random = SeededRandom::new(mix(seed ^ 0x5eed));
        let width = 1 + random.index(5);
        Self {
            features: 1 + random.index(30),
            width,
            shared: random.index(2 * width + 1),
            policy: EntryPolicy {
                min_count: 1 + random.index(3) as u32,
                evict_after: (random.index(2) == 0).then(|| random.between(1, 3)),
                max_entries: None,
            },
            decays: random.index(2) == 0,
        }
    }

    pub(crate) fn empty(&self) -> ParamTable {
        let mut layout = Layout::of_width(self.width);
        layout.push("entries", &[self.features, self.width], Group::Weights);
        if self.shared > 0 {
            layout.push("shared", &[self.shared], Group::Biases);
        }
        let optimizer: OptimizerSpec =
            if self.decays { Sgd::new(0.1).decay(0.3) } else { AdaGrad::new(0.1) };
        let model = EntryModel { features: self.features, layout };
        let keys = 0..model.layout.keys();
        ParamTable::allocate_with(optimizer, &model, keys, 7, self.policy).unwrap()
    }
}

/// The gradient of a worker's batch: its keys, which depend on slot and step, and numbers that
/// depend on what the table says of them.
pub(crate) fn keyed_gradient(table: &ParamTable, slot: usize, step: u64) -> (Vec<u32>, Vec<f32>) {
    let named = |key: &u32| mix(u64::from(*key) * 31 + slot as u64 * 7 + step).is_multiple_of(3);
    let keys: Vec<u32> = (0..table.keys().end as u32).filter(named).collect();
    let mut values = vec![0.0; keys.len() * table.width()];
    table.read(&keys, &mut values);
    let at = |i: usize| ((i * 5 + slot) as f32 * 0.71 + step as f32).cos();
    values.iter_mut().enumerate().for_each(|(i, value)| *value = at(i) + 0.1 * *value);
    (keys, values)
}

/// The same run in a plain loop: its table and its number of steps.
fn plain_table(plan: &ReplicaPlan) -> (ParamTable, u64) {
    let table = plan.table.as_ref().unwrap().empty();
    let (width, mut step) = (table.width(), 0);
    loop {
        let slots: Vec<_> = (0..plan.workers).filter(|&slot| step < plan.steps[slot]).collect();
        if slots.is_empty() {
            return (table, step);
        }
        let total: u64 = slots.iter().map(|&slot| u64::from(examples(slot, step))).sum();
        let mut mean = std::collections::BTreeMap::<u32, Vec<f32>>::new();
        for slot in slots {
            let weight = (f64::from(examples(slot, step)) / total as f64) as f32;
            let (keys, values) = keyed_gradient(&table, slot, step);
            for (key, values) in keys.iter().zip(values.chunks_exact(width)) {
                let scaled = values.iter().map(|value| weight * value);
                match mean.get_mut(key) {
                    Some(sum) => sum.iter_mut().zip(scaled).for_each(|(sum, more)| *sum += more),
                    None => drop(mean.insert(*key, scaled.collect())),
                }
            }
        }
        let keys: Vec<u32> = mean.keys().copied().collect();
        table.update(step, &keys, &mean.into_values().flatten().collect::<Vec<_>>());
        step += 1;
        if plan.stops_at(step) {
            return (table, step);
        }
    }
}

/// Everything that decides about the bits of a table.
fn contents(table: &ParamTable) -> (Vec<u32>, Vec<u32>, Vec<u64>) {
    let (mut entries, mut counts) = (StoredEntries::default(), StoredEntries::default());
    assert_eq!(table.copy_stored(0, usize::MAX, &mut entries), None);
    assert_eq!(table.copy_counts(0, usize::MAX, &mut counts), None);
    let numbers = entries.cells.iter().chain(&counts.cells).map(|cell| cell.to_bits()).collect();
    let factors = table.stored_factors().into_iter().map(f64::to_bits).collect();
    ([entries.keys, counts.keys].concat(), numbers, factors)
}

fn draw(seed: u64, recovers: bool) -> ReplicaPlan {
    let drawn = ReplicaPlan::draw(seed, recovers);
    ReplicaPlan { pieces: Vec::new(), table: Some(TablePlan::draw(seed)), ..drawn }
}

#[test]
fn replicas_of_a_table_end_with_the_bits_of_a_plain_loop() {
    for seed in 0..seed_count(2_000) {
        let plan = draw(seed, false);
        let (table, steps) = plain_table(&plan);
        for process in ReplicaWorld::new(plan.clone(), seed).play().processes.iter().flatten() {
            assert_eq!(process.failed, None, "{seed}: {plan:?}");
            assert_eq!(process.replica.global_step(), steps, "{seed}: {plan:?}");
            let found = contents(process.replica.table().unwrap());
            assert!(found == contents(&table), "{seed}: {plan:?}");
        }
    }
}

#[test]
fn replicas_of_a_table_that_recover_end_with_the_bits_of_a_plain_loop_whatever_dies() {
    let (mut transfers, mut deaths) = (0, 0);
    let seeds = seed_count(3_000);
    for seed in 0..seeds {
        let plan = draw(seed, true);
        let (table, steps) = plain_table(&plan);
        let mut world = ReplicaWorld::new(plan.clone(), seed);
        draw_deaths(&mut world);
        let planned = world.deaths.len();
        let world = world.play();
        deaths += planned - world.deaths.len();
        transfers += world.transfers;
        for process in world.processes.iter().flatten() {
            if process.phase == ReplicaPhase::Leaving {
                assert_eq!(process.replica.global_step(), steps, "{seed}: {plan:?}");
                let found = contents(process.replica.table().unwrap());
                assert!(found == contents(&table), "{seed}: {plan:?}");
            }
        }
    }
    let is_rich = deaths > seeds as usize / 4 && transfers > seeds as usize / 8;
    assert!(is_rich, "only {deaths} deaths and {transfers} transfers in {seeds} runs");
}

/// Two connected replicas of a table of ten keys with two numbers each, three keys to a frame.
fn pair() -> (Replica, Replica) {
    let table = TablePlan {
        features: 9,
        width: 2,
        shared: 2,
        policy: EntryPolicy::default(),
        decays: false,
    };
    let drawn = ReplicaPlan::draw(1, true);
    let plan = ReplicaPlan { workers: 2, chunk_floats: 6, pieces: Vec::new(), ..drawn };
    let plan = ReplicaPlan { stop_steps: None, stop_after: None, table: Some(table), ..plan };
    let (mut left, mut right) = (plan.replica(plan.config(0)), plan.replica(plan.config(1)));
    let ControlFrame { header, body: hello } = right.hello(0);
    assert_eq!(left.accept_hello(&header, &hello), Ok(1));
    let ControlFrame { header, body: welcome } = left.welcome();
    assert_eq!(right.hello_answered(0, &header, &welcome), Ok(None));
    left.plan_catch_up().unwrap();
    right.plan_catch_up().unwrap();
    left.begin_keyed_step(Some(1), &[4]);
    (left, right)
}

/// The next frame from the right replica to the left one, in one piece.
fn next_frame(right: &mut Replica, gradient: &WholeGradient<'_>) -> (Header, Vec<u8>) {
    let frame = right.next_frame(0, gradient).unwrap();
    let parts = [right.payload(&frame.source, gradient), right.payload_tail(&frame.source)];
    (frame.header, parts.concat())
}

#[test]
fn headers_of_a_keyed_gradient_that_do_not_fit_are_refused() {
    let (left, mut right) = pair();
    right.begin_keyed_step(Some(2), &[0, 1, 5, 9]);
    let values = [0.5; 8];
    let (first, _) = next_frame(&mut right, &WholeGradient(&values));
    assert_eq!((first.kind, first.sequence), (FrameKind::KeyedGradient, 3));
    assert!(first.flags.contains(Flags::MORE));
    let wrong = |change: &dyn Fn(&mut Header)| {
        let mut header = first;
        change(&mut header);
        header
    };
    for header in [
        wrong(&|h| h.chunk = 1),
        wrong(&|h| h.sequence = 4),
        wrong(&|h| h.sequence = u64::MAX),
        wrong(&|h| h.len = 4),
        wrong(&|h| h.len = 64 << 20),
        wrong(&|h| h.step = 5),
        wrong(&|h| h.flags = Flags::STOP),
        wrong(&|h| h.kind = FrameKind::Entries),
        wrong(&|h| h.kind = FrameKind::GradientChunk),
    ] {
        assert!(left.read_target(1, &header).is_err(), "{header:?}");
    }
    assert!(left.read_target(1, &first).is_ok());
}

#[test]
fn keys_that_do_not_rise_or_numbers_that_are_not_finite_are_refused() {
    let deliver = |left: &mut Replica, header: &Header, bytes: &[u8]| {
        let none = &mut WholeGradient::none();
        let target = left.read_target(1, header).unwrap();
        left.target_bytes(1, &target, none).copy_from_slice(bytes);
        left.frame_arrived(1, header, &[], none)
    };
    let (mut left, mut right) = pair();
    right.begin_keyed_step(Some(2), &[0, 1, 5, 9]);
    let values = [0.5; 8];
    let (header, bytes) = next_frame(&mut right, &WholeGradient(&values));
    assert!(deliver(&mut left, &header, &bytes).is_ok());
    // The same keys once more, as if they were the next ones.
    let again = Header { chunk: 1, ..header };
    let error = deliver(&mut left, &again, &bytes).unwrap_err().to_string();
    assert!(error.contains("do not follow"), "{error}");

    let (mut left, mut right) = pair();
    right.begin_keyed_step(Some(2), &[3]);
    let (header, bytes) = next_frame(&mut right, &WholeGradient(&[0.5, f32::NAN]));
    let error = deliver(&mut left, &header, &bytes).unwrap_err().to_string();
    assert!(error.contains("not finite"), "{error}");
}

#[test]
fn tables_that_differ_are_found_at_the_end() {
    let (mut left, mut right) = pair();
    right.begin_keyed_step(Some(2), &[3]);
    left.table().unwrap().update(0, &[7], &[1.0, 1.0]);
    left.request_stop();
    for replica in [&mut left, &mut right] {
        replica.cut_short();
    }
    let ControlFrame { header, body } = right.leave(b"report");
    let none = &mut WholeGradient::none();
    let error = left.frame_arrived(1, &header, &body, none).unwrap_err().to_string();
    assert!(error.contains("differ"), "{error}");
}
