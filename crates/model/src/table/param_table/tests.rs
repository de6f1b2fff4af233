//! Tables of entries agree with the dense optimizers on the entries that are touched.

use std::collections::BTreeSet;

use super::*;
use crate::batch::Batch;
use crate::kernels::OutputMode;
use crate::layout::{Group, Layout};
use crate::model::Model;
use crate::optimizer::{AdaGrad, Adam, Ftrl, Momentum, OptimizerState, Sgd};
use crate::schedule::Schedule;
use crate::sparse_model::EntryBirth;
use crate::table::BlockColumns;
use crate::tally::Tally;
use paceline_kernels::KeyPlaces;

const FEATURES: usize = 300;
const FTRL: Ftrl = Ftrl { beta: 1.0, l1: 0.02, l2: 0.5 };

/// A model of a linear weight and a vector for each feature, and a bias, whose gradients come from
/// elsewhere.
struct VectorModel {
    features: usize,
    layout: Layout,
}

impl VectorModel {
    fn new(features: usize, rank: usize) -> Self {
        let mut layout = Layout::of_width(1 + rank);
        layout.push("factors", &[features, 1 + rank], Group::Weights);
        layout.push("bias", &[1], Group::Biases);
        Self { features, layout }
    }
}

impl Model for VectorModel {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.features
    }

    fn initialise(&self, seed: u64, params: &mut [f32]) {
        params.fill(0.0);
        let entries = params.chunks_exact_mut(self.layout.width()).take(self.features);
        for (entry, key) in entries.zip(0..) {
            self.birth(seed).feature(key, entry);
        }
    }

    fn gradient(&mut self, _: &[f32], _: Batch<'_>, _: f32, _: OutputMode, _: &mut [f32]) -> f32 {
        unreachable!("its gradients come from elsewhere")
    }

    fn evaluate(&mut self, _: &[f32], _: Batch<'_>, _: &mut Tally) {
        unreachable!("it is not tested")
    }
}

impl SparseModel for VectorModel {
    fn birth(&self, seed: u64) -> EntryBirth {
        let shared = self.layout.len() - self.layout.params_of(0..self.features).end;
        let shared = (0..shared).map(|at| 0.25 * at as f32).collect();
        EntryBirth { seed, linear: 1, deviation: 0.03, shared }
    }
}

fn spec(spec: OptimizerSpec) -> OptimizerSpec {
    spec.rate(Schedule::Exponential { rate: 0.3, factor: 0.5, every: 40 }).bias_rate(0.1)
}

fn all_specs() -> [OptimizerSpec; 4] {
    let ftrl = OptimizerSpec::new(FTRL, 0.1);
    [Sgd::new(0.1).decay(0.01), AdaGrad::new(0.1).l2(0.02), Adam::new(0.1), ftrl].map(spec)
}

/// The keys and gradient of a step, which touches a few features and the bias.
fn gradient(step: u64, width: usize) -> (Vec<u32>, Vec<f32>) {
    let chosen = |key: &u32| (u64::from(*key) * 2_654_435_761 + step * 40_503) % 97 < 9;
    let mut keys: Vec<u32> = (0..FEATURES as u32).filter(chosen).collect();
    keys.push(FEATURES as u32);
    let mut grad = vec![0.0; keys.len() * width];
    crate::seed::fill_uniform(step, 9, 1.0, &mut grad);
    // Behind the bias is padding.
    let padding = grad.len() - width + 1;
    grad[padding..].fill(0.0);
    (keys, grad)
}

fn table(spec: &OptimizerSpec, model: &VectorModel, keys: Range<usize>) -> ParamTable {
    ParamTable::new(spec.clone(), model, keys, 11)
}

fn contents(table: &ParamTable) -> Vec<f32> {
    let mut all = vec![f32::NAN; table.range().len()];
    table.read_range(table.range(), &mut all);
    for state in 0..table.state_names().len() {
        let mut values = vec![f32::NAN; table.range().len()];
        table.read_state(state, table.range(), &mut values);
        all.extend(values);
    }
    all
}

/// Applies the gradient to the touched entries of dense parameters, as the table should.
fn apply_touched(
    optimizer: &mut OptimizerState,
    layout: &Layout,
    step: u64,
    keys: &[u32],
    params: &mut [f32],
    grad: &[f32],
) {
    for (&key, grad) in keys.iter().zip(grad.chunks_exact(layout.width())) {
        let range = layout.params_of(key as usize..key as usize + 1);
        let len = range.len();
        optimizer.apply(step, range.start, &mut params[range], &grad[..len]);
    }
}

#[test]
fn touched_entries_get_the_bits_of_the_dense_optimizer_and_others_do_not_exist() {
    // Ranks whose entries fill a block exactly, do not, or are longer than one.
    for rank in [1, 8, 15, 63, 1_500] {
        let model = VectorModel::new(FEATURES, rank);
        let layout = model.layout();
        for spec in &all_specs()[..3] {
            let table = table(spec, &model, 0..FEATURES + 1);
            let mut params = vec![0.0; layout.len()];
            model.initialise(11, &mut params);
            let mut optimizer = OptimizerState::new(spec.clone(), layout, 0..layout.len());
            let mut touched = BTreeSet::from([FEATURES as u32]);
            for step in 0..7 {
                let (keys, grad) = gradient(step, layout.width());
                table.update(step, &keys, &grad);
                apply_touched(&mut optimizer, layout, step, &keys, &mut params, &grad);
                touched.extend(keys);
            }
            let mut got = vec![f32::NAN; layout.len()];
            table.read_range(0..layout.len(), &mut got);
            assert_eq!(table.entries(), Some(touched.len()));
            for key in 0..FEATURES as u32 {
                let range = layout.params_of(key as usize..key as usize + 1);
                let is_touched = touched.contains(&key);
                let zeros = vec![0.0; range.len()];
                let want = if is_touched { &params[range.clone()] } else { &zeros[..] };
                assert_eq!(got[range.clone()], *want, "{spec:?}, rank {rank}, key {key}");
                let mut first = vec![f32::NAN; range.len()];
                table.read(&[key], &mut first);
                assert_eq!(first, params[range], "{spec:?}, rank {rank}, key {key}");
            }
            assert_eq!(got.last(), params.last(), "the bias");
        }
    }
}

#[test]
fn features_that_are_updated_before_the_rest_of_a_step_get_the_same_bits() {
    let policy = EntryPolicy { min_count: 2, evict_after: Some(3), ..EntryPolicy::default() };
    let mut columns = BlockColumns::default();
    for (rank, spec) in [3, 70].into_iter().flat_map(|rank| all_specs().map(|spec| (rank, spec))) {
        let model = VectorModel::new(FEATURES, rank);
        let keys = 0..FEATURES + 1;
        let tables = [0, 1].map(|_| {
            let keys = keys.clone();
            ParamTable::allocate_with(spec.clone(), &model, keys, 11, policy).unwrap()
        });
        for step in 0..9 {
            let (keys, grad) = gradient(step, 1 + rank);
            tables[0].update(step, &keys, &grad);
            let (first, rest) = keys.split_at(keys.len() / 2);
            let (first_grad, rest_grad) = grad.split_at(first.len() * (1 + rank));
            let table = tables[1].as_entries().unwrap();
            table.update_ahead(step, first, rest, first_grad, &mut columns);
            tables[1].update(step, rest, rest_grad);
            let [mut whole, mut ahead] = [(); 2].map(|()| vec![f32::NAN; grad.len()]);
            tables[0].read(&keys, &mut whole);
            tables[1].as_entries().unwrap().read_ahead(&keys, &[], &mut ahead);
            assert_eq!(whole, ahead, "{spec:?}, rank {rank}, step {step}");
        }
        assert_eq!(contents(&tables[0]), contents(&tables[1]), "{spec:?}, rank {rank}");
    }
}

#[test]
fn ftrl_takes_the_linear_part_and_ada_grad_the_rest() {
    let model = VectorModel::new(FEATURES, 3);
    let layout = model.layout();
    let [.., ftrl] = all_specs();
    let beside = OptimizerSpec::new(AdaGrad::default(), 0.1).groups(ftrl.weights, ftrl.biases);
    let mut params = vec![0.0; layout.len()];
    model.initialise(11, &mut params);
    let table = table(&ftrl, &model, 0..FEATURES + 1);
    let mut linear = vec![0.0; layout.len()];
    let mut optimizers =
        [ftrl, beside].map(|spec| OptimizerState::new(spec, layout, 0..layout.len()));
    for step in 0..60 {
        let (keys, grad) = gradient(step, layout.width());
        table.update(step, &keys, &grad);
        let [ftrl, beside] = &mut optimizers;
        // FTRL's weights depend on the rate of the last step, also where the gradient is zero.
        let mut all = vec![0.0; (FEATURES + 1) * layout.width()];
        for (&key, grad) in keys.iter().zip(grad.chunks_exact(layout.width())) {
            all[key as usize * layout.width()..][..layout.width()].copy_from_slice(grad);
        }
        ftrl.apply(step, 0, &mut linear, &all[..layout.len()]);
        apply_touched(beside, layout, step, &keys, &mut params, &grad);
    }
    let all: Vec<u32> = (0..FEATURES as u32).collect();
    let mut got = vec![f32::NAN; FEATURES * layout.width()];
    table.read(&all, &mut got);
    for (key, got) in got.chunks(layout.width()).enumerate() {
        let at = key * layout.width();
        assert_eq!(got[0], linear[at], "the weight of key {key}");
        assert_eq!(got[1..], params[at + 1..at + layout.width()], "the vector of key {key}");
    }
}

#[test]
fn shards_give_the_bits_of_the_whole() {
    let model = VectorModel::new(FEATURES, 4);
    let width = model.layout().width();
    for spec in all_specs() {
        let whole = table(&spec, &model, 0..FEATURES + 1);
        let shards =
            [0..37, 37..FEATURES, FEATURES..FEATURES + 1].map(|keys| table(&spec, &model, keys));
        for step in 0..20 {
            let (keys, grad) = gradient(step, width);
            whole.update(step, &keys, &grad);
            for shard in &shards {
                let from = keys.partition_point(|&key| (key as usize) < shard.keys().start);
                let to = keys.partition_point(|&key| (key as usize) < shard.keys().end);
                shard.update(step, &keys[from..to], &grad[from * width..to * width]);
            }
        }
        let mut expected = vec![0.0; model.layout().len()];
        whole.read_range(whole.range(), &mut expected);
        let mut got = vec![0.0; model.layout().len()];
        for shard in &shards {
            shard.read_range(shard.range(), &mut got[shard.range()]);
        }
        assert_eq!(got, expected, "{spec:?}");
    }
}

#[test]
fn a_table_restored_in_odd_pieces_continues_with_the_same_bits() {
    let model = VectorModel::new(FEATURES, 4);
    let width = model.layout().width();
    for spec in all_specs() {
        let tables = [0, 1].map(|_| table(&spec, &model, 5..FEATURES + 1));
        let step = |table: &ParamTable, step| {
            let (keys, grad) = gradient(step, width);
            let from = keys.partition_point(|&key| key < 5);
            table.update(step, &keys[from..], &grad[from * width..]);
        };
        (0..30).for_each(|at| step(&tables[0], at));
        let all = tables[0].range();
        tables[1].resume(30);
        for from in all.clone().step_by(7) {
            let piece = from..(from + 7).min(all.end);
            let mut values = vec![f32::NAN; piece.len()];
            tables[0].read_range(piece.clone(), &mut values);
            tables[1].write_range(piece.clone(), &values);
            for state in 0..tables[0].state_names().len() {
                tables[0].read_state(state, piece.clone(), &mut values);
                tables[1].write_state(state, piece.clone(), &values);
            }
        }
        assert_eq!(contents(&tables[0]), contents(&tables[1]), "{spec:?}");
        assert_eq!(tables[0].entries(), tables[1].entries(), "{spec:?}");
        (30..60).for_each(|at| tables.iter().for_each(|table| step(table, at)));
        assert_eq!(contents(&tables[0]), contents(&tables[1]), "{spec:?}");
    }
}

#[test]
fn threads_that_create_one_entry_at_a_time_agree_on_it() {
    let model = VectorModel::new(1_000, 2);
    let table = table(&Sgd::new(0.5), &model, 0..1_001);
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let table = &table;
            // Each thread moves a number of its own in every entry.
            scope.spawn(move || {
                let mut grad = [0.0; 3];
                if thread < 3 {
                    grad[thread as usize] = 1.0;
                }
                (0..1_000).for_each(|key| table.update(0, &[key], &grad));
            });
        }
    });
    let mut numbers = vec![0.0; 3_000];
    table.read_range(0..3_000, &mut numbers);
    // An update may be lost where two threads meet, but no entry may have other numbers.
    for (entry, key) in numbers.chunks(3).zip(0..) {
        let mut first = [0.0; 3];
        model.birth(11).feature(key, &mut first);
        for (&got, first) in entry.iter().zip(first) {
            assert!(got == first || got == first - 0.5, "key {key}: {got} from {first}");
        }
    }
}

#[test]
fn optimizers_that_entries_cannot_run_are_refused_with_advice() {
    let advice = |spec| ParamTable::supports(&spec, 9).unwrap_err();
    assert!(advice(Momentum::new(0.1, 0.9)).contains("use sgd, adagrad, adam or ftrl"));
    assert!(advice(AdaGrad::new(0.1).l1(0.1)).contains("use ftrl with l1"));
    assert!(advice(OptimizerSpec::new(FTRL, 0.1).decay(0.1)).contains("l2"));
    assert_eq!(ParamTable::supports(&Adam::new(0.1), 9), Ok(()));
    assert!(ParamTable::supports(&Adam::new(0.1), 1).is_err());
}

#[test]
#[should_panic(expected = "key 8 is outside a table of the keys 2..8")]
fn a_key_outside_the_range_is_refused() {
    let model = VectorModel::new(9, 1);
    ParamTable::new(Sgd::new(0.1), &model, 2..8, 0).update(0, &[5, 8], &[1.0; 4]);
}

#[test]
fn tables_of_servers_with_a_part_of_features_and_of_shared_keys_have_the_bits_of_one_table() {
    let (rank, shared) = (2, 40);
    let mut model = VectorModel::new(FEATURES, rank);
    model.layout.push("weight", &[shared - 1], Group::Weights);
    let (keys, width) = (model.layout.keys(), model.layout.width());
    let shards = [0..keys / 3, keys / 3..2 * keys / 3, 2 * keys / 3..keys];
    let order = KeyPlaces::new(FEATURES, width, &shards);
    for spec in all_specs() {
        let whole = table(&spec, &model, 0..keys);
        let part = |server| {
            let (part, policy) = (order.part(server).clone(), EntryPolicy::default());
            ParamTable::allocate_part(spec.clone(), &model, part, 11, policy).unwrap()
        };
        let parts = [0, 1, 2].map(part);
        let (mut places, mut placed) = (Vec::new(), Vec::new());
        let own = |places: &[u32], part: &ParamTable| {
            let below = |end: usize| places.partition_point(|&place| (place as usize) < end);
            below(part.keys().start)..below(part.keys().end)
        };
        for step in 0..7 {
            let mut touched = gradient(step, width).0;
            touched.extend(FEATURES as u32 + 1..keys as u32);
            let mut grad = vec![0.0; touched.len() * width];
            crate::seed::fill_uniform(step, 9, 1.0, &mut grad);
            whole.update(step, &touched, &grad);
            order.place_keys(&touched, &mut places);
            order.gather(&touched, &grad, &mut placed);
            for part in &parts {
                let own = own(&places, part);
                let grad = &placed[own.start * width..own.end * width];
                part.update(step, &places[own], grad);
            }
        }
        let all: Vec<u32> = (0..keys as u32).collect();
        let (mut expected, mut found) = (vec![0.0; keys * width], Vec::new());
        whole.read(&all, &mut expected);
        order.place_keys(&all, &mut places);
        for part in &parts {
            let mut values = vec![0.0; part.keys().len() * width];
            part.read(&places[own(&places, part)], &mut values);
            found.extend(values);
        }
        let mut by_key = vec![0.0; keys * width];
        order.scatter(&all, &found, &mut by_key);
        assert_eq!(by_key, expected, "{spec:?}");
        let named: Vec<Vec<u32>> = parts
            .iter()
            .map(|part| {
                let mut keys = part.entry_keys(part.keys());
                part.name_keys(&mut keys);
                assert!(keys.is_sorted(), "files list keys in order");
                keys
            })
            .collect();
        let mut named = named.concat();
        named.sort_unstable();
        assert_eq!(named, whole.entry_keys(0..keys), "{spec:?}");
    }
}
