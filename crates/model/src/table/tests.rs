//! Tables agree with the dense optimizers.

use super::*;
use crate::layout::{Group, Layout};
use crate::optimizer::{
    AdaGrad, Adam, Ftrl, Momentum, Optimizer, OptimizerSpec, OptimizerState, ParamUpdate, Sgd,
};
use crate::schedule::Schedule;

const FTRL: Ftrl = Ftrl { beta: 1.0, l1: 0.02, l2: 0.5 };
const ADA_GRAD: AdaGrad = AdaGrad { epsilon: 1e-8, initial: 0.01 };

fn layout(features: usize) -> Layout {
    let mut layout = Layout::new();
    layout.push("weight", &[features], Group::Weights);
    layout.push("bias", &[1], Group::Biases);
    layout
}

fn spec(optimizer: impl Optimizer, decay: f32) -> OptimizerSpec {
    let mut spec = OptimizerSpec::new(optimizer, 0.1);
    spec.weights.rate = Schedule::Exponential { rate: 0.3, factor: 0.5, every: 40 };
    spec.weights.decay = decay;
    spec
}

/// All optimizers that tables run: SGD with a decay, and the others without.
fn all_specs(decay: f32) -> [OptimizerSpec; 4] {
    [spec(Sgd, decay), spec(ADA_GRAD, 0.0), spec(FTRL, 0.0), spec(MeanSign, 0.0)]
}

/// A user's optimizer with three values of state, which a zero gradient leaves alone.
#[derive(Debug)]
struct MeanSign;

impl Optimizer for MeanSign {
    fn name(&self) -> &str {
        "mean sign"
    }

    fn state_names(&self) -> &[&'static str] {
        &["mean", "count", "last"]
    }

    fn update(&self, _step: u64, update: ParamUpdate<'_>) {
        let ParamUpdate { params, grad, state: [means, counts, lasts, _], rate, decay, .. } =
            update;
        for (i, param) in params.iter_mut().enumerate() {
            let grad = grad[i] + decay * *param;
            if grad != 0.0 {
                counts[i] += 1.0;
                means[i] += (grad.signum() - means[i]) / counts[i];
                *param -= rate * (means[i] + 0.1 * lasts[i]);
                lasts[i] = grad;
            }
        }
    }

    fn ignores_zero_gradients(&self) -> bool {
        true
    }
}

/// The keys and gradient of a step, which touches a few of the features and the bias.
fn gradient(step: u64, features: usize) -> (Vec<u32>, Vec<f32>) {
    let chosen = |key: &u32| (u64::from(*key) * 2_654_435_761 + step * 40_503) % 97 < 30;
    let mut keys: Vec<u32> = (0..features as u32).filter(chosen).collect();
    keys.push(features as u32);
    let value = |key: &u32| ((u64::from(*key) * 37 + step * 101) % 64) as f32 / 32.0 - 1.0;
    let grad = keys.iter().map(value).collect();
    (keys, grad)
}

/// The greatest difference of a parameter between a table and the dense optimizer.
fn difference(spec: OptimizerSpec, features: usize, steps: u64) -> f32 {
    let layout = layout(features);
    let table = Table::new(spec.clone(), &layout, 0..features + 1);
    let mut optimizer = OptimizerState::new(spec, &layout, 0..features + 1);
    let mut params = vec![0.0; features + 1];
    let mut worst = 0f32;
    for step in 0..steps {
        let (keys, grad) = gradient(step, features);
        let mut full = vec![0.0; features + 1];
        keys.iter().zip(&grad).for_each(|(&key, &g)| full[key as usize] = g);
        table.update(step, &keys, &grad);
        optimizer.apply(step, 0, &mut params, &full);
        let all: Vec<u32> = (0..=features as u32).collect();
        let mut got = vec![f32::NAN; features + 1];
        table.read(&all, &mut got);
        let mut again = vec![f32::NAN; features + 1];
        table.read_range(0..features + 1, &mut again);
        assert_eq!(got, again);
        worst = got.iter().zip(&params).map(|(a, b)| (a - b).abs()).fold(worst, f32::max);
    }
    worst
}

#[test]
fn without_decay_a_table_gives_the_bits_of_the_dense_optimizer() {
    for spec in all_specs(0.0) {
        for features in [1, 63, 64, 65, 300] {
            assert_eq!(difference(spec.clone(), features, 60), 0.0, "{spec:?}, {features}");
        }
    }
}

#[test]
fn lazy_decay_follows_the_dense_optimizer_through_folding() {
    // The last ones have to be folded often, at every step, and with a factor below zero.
    for (decay, steps) in [(1e-3, 200), (0.5, 400), (10.0 / 3.0, 30), (4.0, 30)] {
        let off = difference(spec(Sgd, decay), 130, steps);
        assert!(off < 2e-6, "decay {decay}: off by {off}");
    }
}

#[test]
fn shards_give_the_bits_of_the_whole() {
    let (features, layout) = (100, layout(100));
    for spec in all_specs(0.01) {
        let whole = Table::new(spec.clone(), &layout, 0..101);
        let shards =
            [0..37, 37..100, 100..101].map(|range| Table::new(spec.clone(), &layout, range));
        for step in 0..20 {
            let (keys, grad) = gradient(step, features);
            whole.update(step, &keys, &grad);
            for shard in &shards {
                let from = keys.partition_point(|&key| (key as usize) < shard.range().start);
                let to = keys.partition_point(|&key| (key as usize) < shard.range().end);
                shard.update(step, &keys[from..to], &grad[from..to]);
            }
        }
        let mut expected = vec![0.0; 101];
        whole.read_range(0..101, &mut expected);
        let mut got = vec![0.0; 101];
        shards.iter().for_each(|shard| shard.read_range(shard.range(), &mut got[shard.range()]));
        assert_eq!(got, expected, "{spec:?}");
    }
}

#[test]
fn a_restored_table_continues_with_the_same_bits() {
    let (features, layout) = (80, layout(80));
    for spec in all_specs(0.01) {
        let tables = [0, 1].map(|_| Table::new(spec.clone(), &layout, 0..81));
        let step = |table: &Table, step| {
            let (keys, grad) = gradient(step, features);
            table.update(step, &keys, &grad);
        };
        (0..30).for_each(|at| step(&tables[0], at));
        tables[0].fold();
        let mut values = vec![0.0; 81];
        tables[1].resume(30);
        tables[0].read_range(0..81, &mut values);
        tables[1].write_range(0..81, &values);
        for state in 0..tables[0].state_names().len() {
            tables[0].read_state(state, 0..81, &mut values);
            tables[1].write_state(state, 0..81, &values);
        }
        let read = |table: &Table| {
            let mut values = vec![0.0; 81];
            table.read_range(0..81, &mut values);
            values
        };
        assert_eq!(read(&tables[0]), read(&tables[1]), "{spec:?}");
        (30..40).for_each(|at| tables.iter().for_each(|table| step(table, at)));
        assert_eq!(read(&tables[0]), read(&tables[1]), "{spec:?}");
    }
}

#[test]
fn written_parameters_are_read_back_and_decay_from_there() {
    for spec in all_specs(0.5) {
        let table = Table::new(spec.clone(), &layout(9), 2..8);
        table.update(0, &[3], &[1.0]);
        table.write_range(3..6, &[1.0, 0.0, -2.0]);
        let mut got = [f32::NAN; 3];
        table.read_range(3..6, &mut got);
        for (got, want) in got.into_iter().zip([1.0, 0.0, -2.0]) {
            assert!((got - want).abs() < 1e-6, "{spec:?}: {got}, not {want}");
        }
    }
}

#[test]
fn threads_that_share_a_table_lose_no_factor_and_tear_no_number() {
    // Every thread has a feature of its own, so that no update can be lost; decay is common.
    let table = Table::new(spec(Sgd, 0.2).rate(0.1), &layout(4), 0..5);
    table.write_range(0..4, &[1.0; 4]);
    let steps = 3_000;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..steps).for_each(|step| table.update(step, &[3], &[0.0])));
        }
    });
    let mut got = [0.0; 4];
    table.read_range(0..4, &mut got);
    // The product of 12,000 factors of 0.98 is below the least float, so all values become zero.
    assert_eq!(got, [0.0; 4]);
    table.write_range(0..4, &[1.0; 4]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|step| table.update(step, &[0], &[0.0])));
        }
    });
    table.read_range(0..4, &mut got);
    let expected = 0.98f64.powi(400) as f32;
    assert!(got.iter().all(|value| (value / expected - 1.0).abs() < 1e-4), "{got:?}");
}

#[test]
fn optimizers_that_a_table_cannot_run_exactly_are_refused_with_advice() {
    let advice = |spec| Table::supports(&spec).unwrap_err();
    assert!(advice(spec(ADA_GRAD, 0.1)).contains("use ftrl"));
    assert!(advice(spec(FTRL, 0.1)).contains("l2"));
    assert!(advice(spec(Momentum { momentum: 0.9 }, 0.0)).contains("use sgd"));
    assert!(advice(spec(Adam::default(), 0.0)).contains("adam moves every parameter"));
    assert!(advice(spec(MeanSign, 0.1)).contains("mean sign with decay would have to touch"));
    assert_eq!(Table::supports(&spec(Sgd, 0.1)), Ok(()));
}

#[test]
#[should_panic(expected = "outside a table of 2..8")]
fn a_key_outside_the_range_is_refused() {
    Table::new(spec(Sgd, 0.0), &layout(9), 2..8).update(0, &[5, 8], &[1.0, 1.0]);
}
