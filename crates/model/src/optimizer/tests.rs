use super::*;
use crate::layout::{Group, Layout};
use crate::schedule::Schedule;
use crate::thread_pool::ThreadPool;

/// A user's optimizer with three values of state: a mean of signs that also counts updates.
#[derive(Debug)]
struct SignMean;

impl Optimizer for SignMean {
    fn name(&self) -> &str {
        "sign mean"
    }

    fn state_names(&self) -> &[&'static str] {
        &["mean", "count", "last"]
    }

    fn update(&self, _step: u64, update: ParamUpdate<'_>) {
        let ParamUpdate { params, grad, state: [means, counts, lasts, rest], rate, decay, .. } =
            update;
        assert!(rest.is_empty());
        for (i, param) in params.iter_mut().enumerate() {
            let grad = grad[i] + decay * *param;
            counts[i] += 1.0;
            means[i] += (grad.signum() - means[i]) / counts[i];
            *param -= rate * (means[i] + 0.1 * lasts[i]);
            lasts[i] = grad;
        }
    }
}

fn layout() -> Layout {
    let mut layout = Layout::new();
    layout.push("weight", &[4, 7], Group::Weights);
    layout.push("bias", &[4], Group::Biases);
    layout
}

/// A rate of 0.1 with decay for weights, 0.2 without for biases.
fn spec(optimizer: impl Optimizer) -> OptimizerSpec {
    OptimizerSpec::new(optimizer, 0.1).decay(0.01).bias_rate(0.2).bias_decay(0.0)
}

fn all_specs() -> Vec<OptimizerSpec> {
    vec![
        spec(Sgd),
        spec(Momentum { momentum: 0.9 }),
        spec(AdaGrad::default()),
        spec(Adam::default()),
        spec(Ftrl { beta: 1.0, l1: 0.1, l2: 0.5 }),
        spec(SignMean),
    ]
}

fn values(len: usize, salt: u32) -> Vec<f32> {
    (0..len as u32).map(|i| ((i * 37 + salt * 101) % 64) as f32 / 32.0 - 1.0).collect()
}

/// One parameter followed by hand in f64 through three steps of each optimizer.
#[test]
fn each_optimizer_follows_its_formula() {
    for spec in all_specs() {
        let mut layout = Layout::new();
        layout.push("weight", &[1], Group::Weights);
        let mut optimizer = OptimizerState::new(spec.clone(), &layout, 0..1);
        let mut params = [0.5f32];
        let (mut p, mut a, mut b, mut last) = (0.5f64, 0.0f64, 0.0f64, 0.0f64);
        for (step, raw) in [0.3f64, -0.2, 0.7].into_iter().enumerate() {
            optimizer.apply(step as u64, 0, &mut params, &[raw as f32]);
            let g = raw + 0.01 * p;
            let count = step as i32 + 1;
            match spec.optimizer().name() {
                "sgd" => p -= 0.1 * g,
                "momentum" => {
                    a = 0.9 * a + g;
                    p -= 0.1 * a;
                }
                "adagrad" => {
                    a += g * g;
                    p -= 0.1 * g / (a.sqrt() + 1e-8);
                }
                "adam" => {
                    a = 0.9 * a + 0.1 * g;
                    b = 0.999 * b + 0.001 * g * g;
                    let (mean, square) =
                        (a / (1.0 - 0.9f64.powi(count)), b / (1.0 - 0.999f64.powi(count)));
                    p -= 0.1 * mean / (square.sqrt() + 1e-8);
                }
                "ftrl" => {
                    let sigma = ((b + g * g).sqrt() - b.sqrt()) / 0.1;
                    a += g - sigma * p;
                    b += g * g;
                    let over = (a.abs() - 0.1).max(0.0) * a.signum();
                    p = -over / ((1.0 + b.sqrt()) / 0.1 + 0.5);
                }
                _ => {
                    a += g.signum();
                    p -= 0.1 * (a / f64::from(count) + 0.1 * last);
                    last = g;
                }
            }
            assert!((f64::from(params[0]) - p).abs() < 1e-5, "{spec:?}: {params:?}, not {p}");
        }
    }
}

#[test]
fn groups_have_their_own_rate_and_decay() {
    let mut optimizer = OptimizerState::new(spec(Sgd), &layout(), 0..32);
    let mut params = vec![1.0; 32];
    optimizer.apply(0, 0, &mut params, &[1.0; 32]);
    assert_eq!(params[..28], [1.0 - 0.1 * 1.01; 28]);
    assert_eq!(params[28..], [1.0 - 0.2; 4]);
}

#[test]
fn builders_set_rates_and_decay_by_group() {
    let falling = Schedule::Exponential { rate: 1.0, factor: 0.5, every: 2 };
    let spec = Sgd::new(0.1).rate(falling).decay(0.5).bias_rate(0.2).bias_decay(0.0);
    assert_eq!(spec.weights, GroupSettings { rate: falling, warm_up: 0, decay: 0.5, l1: 0.0 });
    let constant = Schedule::Constant { rate: 0.2 };
    assert_eq!(spec.biases, GroupSettings { rate: constant, warm_up: 0, decay: 0.0, l1: 0.0 });
    assert_eq!(spec.downcast(), Some(&Sgd));
    assert_eq!(spec.downcast::<Adam>(), None);
}

#[test]
fn several_threads_give_the_same_bits_as_one() {
    let mut layout = Layout::new();
    layout.push("weight", &[3, 50_001], Group::Weights);
    layout.push("bias", &[3], Group::Biases);
    let (len, pool) = (layout.len(), ThreadPool::new(3).expect("threads"));
    for spec in all_specs() {
        let mut alone = (values(len, 0), OptimizerState::new(spec.clone(), &layout, 0..len));
        let mut shared = alone.clone();
        for step in 0..3 {
            let grad = values(len - 7, step as u32 + 1);
            alone.1.apply(step, 7, &mut alone.0[7..], &grad);
            let params = &mut shared.0[7..];
            pool.run(|| shared.1.apply_with(&pool, step, 7, params, &grad));
        }
        assert_eq!(alone.0, shared.0, "{spec:?}");
        assert!(alone.1.states().eq(shared.1.states()), "{spec:?}");
    }
}

#[test]
fn shards_and_pieces_give_the_same_bits_as_the_whole() {
    let layout = layout();
    for spec in all_specs() {
        let grads = [values(32, 1), values(32, 2), values(32, 3)];
        let mut whole = values(32, 0);
        let mut optimizer = OptimizerState::new(spec.clone(), &layout, 0..32);
        for (step, grad) in grads.iter().enumerate() {
            optimizer.apply(step as u64, 0, &mut whole, grad);
        }
        for cut in [0, 1, 13, 28, 31] {
            let mut params = values(32, 0);
            let mut low = OptimizerState::new(spec.clone(), &layout, 0..cut);
            let mut high = OptimizerState::new(spec.clone(), &layout, cut..32);
            for (step, grad) in grads.iter().enumerate() {
                let (left, right) = params.split_at_mut(cut);
                low.apply(step as u64, 0, left, &grad[..cut]);
                let middle = right.len() / 2;
                let (near, far) = right.split_at_mut(middle);
                high.apply(step as u64, middle, far, &grad[cut + middle..]);
                high.apply(step as u64, 0, near, &grad[cut..cut + middle]);
            }
            assert_eq!(params, whole, "{spec:?} cut at {cut}");
        }
    }
}

#[test]
#[should_panic(expected = "greedy keeps 5 values for each parameter, but at most 4")]
fn an_optimizer_with_too_much_state_is_refused() {
    #[derive(Debug)]
    struct Greedy;
    impl Optimizer for Greedy {
        fn name(&self) -> &str {
            "greedy"
        }
        fn state_names(&self) -> &[&'static str] {
            &["a", "b", "c", "d", "e"]
        }
        fn update(&self, _step: u64, _update: ParamUpdate<'_>) {}
    }
    OptimizerSpec::new(Greedy, 0.1);
}

#[test]
fn two_states_of_one_name_are_refused() {
    #[derive(Debug)]
    struct Twice;

    impl Optimizer for Twice {
        fn name(&self) -> &str {
            "twice"
        }

        fn state_names(&self) -> &[&'static str] {
            &["mean", "square", "mean"]
        }

        fn update(&self, _step: u64, _update: ParamUpdate<'_>) {}
    }

    let refused = OptimizerSpec::new(Twice, 0.1).check().unwrap_err();
    assert_eq!(refused, "twice has two states named \"mean\"; name each differently");
}
