//! Training of sparse logistic regression, held to what numpy makes of the same rows: see
//! `golden/sparse.py`.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use paceline_model::{Batch, Logistic, Model, OptimizerSpec, Rows, Rule, Stepper, Table, Tally};

const GOLDEN: &str = include_str!("golden/sparse.txt");
const BATCH: usize = 16;
const STEPS: usize = 400;
const TOLERANCE: f64 = 1e-4;

/// The rows of the file, twice over, so that a batch may begin anywhere.
struct Examples {
    starts: Vec<u32>,
    features: Vec<u32>,
    labels: Vec<u32>,
    /// How many there are without repeats.
    count: usize,
}

impl Examples {
    fn read() -> Self {
        let mut all = Self { starts: vec![0], features: vec![], labels: vec![], count: 0 };
        let rows: Vec<_> = GOLDEN.lines().filter_map(|line| line.strip_prefix("row ")).collect();
        all.count = rows.len();
        for row in rows.iter().chain(&rows) {
            let mut words = row.split(' ').map(|word| word.parse::<u32>().unwrap());
            all.labels.push(words.next().unwrap());
            all.features.extend(words);
            all.starts.push(all.features.len() as u32);
        }
        all
    }

    fn batch(&self, from: usize, to: usize) -> Batch<'_> {
        let starts = &self.starts[from..=to];
        let rows = Rows { starts, places: &self.features, values: &[] };
        Batch::sparse(rows, &self.labels[from..to])
    }
}

/// The numbers of a line of a case.
fn golden(case: &str, name: &str) -> Vec<f64> {
    let mut lines = GOLDEN.lines().skip_while(|line| *line != format!("case {case}"));
    let line = lines.find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn check(case: &str, spec: OptimizerSpec) {
    let examples = Examples::read();
    let expected = golden(case, "params");
    let features = expected.len() - 1;
    let mut model = Logistic::new(features);
    let table = Table::new(spec, model.layout(), 0..features + 1);
    let mut stepper = Stepper::new(Box::new(Logistic::new(features)));
    let losses = golden(case, "losses");
    for step in 0..STEPS {
        let from = step * BATCH % examples.count;
        let loss = stepper.step(&table, step as u64, examples.batch(from, from + BATCH));
        if step % 10 == 0 {
            let off = (f64::from(loss) - losses[step / 10]).abs();
            assert!(off < TOLERANCE, "{case}: the loss of step {step} is off by {off}");
        }
    }
    let mut params = vec![f32::NAN; features + 1];
    table.read_range(0..features + 1, &mut params);
    for (key, (&got, want)) in params.iter().zip(&expected).enumerate() {
        assert!((f64::from(got) - want).abs() < TOLERANCE, "{case}, {key}: {got}, not {want}");
    }
    let mut tally = Tally::default();
    model.evaluate(&params, examples.batch(0, examples.count), &mut tally);
    let score = tally.score();
    assert!(score.loss < 0.6 && score.auc.unwrap() > 0.7, "{case} has learnt nothing: {score:?}");
}

#[test]
fn sgd_follows_numpy() {
    check("sgd", OptimizerSpec::sgd(0.5));
}

#[test]
fn sgd_with_lazy_decay_follows_numpy() {
    let mut spec = OptimizerSpec::sgd(0.5);
    spec.weights.decay = 0.01;
    check("sgd-decay", spec);
}

#[test]
fn ada_grad_follows_numpy() {
    check(
        "adagrad",
        OptimizerSpec { rule: Rule::AdaGrad { epsilon: 1e-8 }, ..OptimizerSpec::sgd(0.2) },
    );
}

#[test]
fn ftrl_follows_numpy_and_leaves_the_same_features_out() {
    let rule = Rule::Ftrl { beta: 1.0, l1: 0.5, l2: 0.1 };
    check("ftrl", OptimizerSpec { rule, ..OptimizerSpec::sgd(0.5) });
    let zeros = golden("ftrl", "params").iter().filter(|value| **value == 0.0).count();
    assert!((10..110).contains(&zeros), "{zeros} zeros make no case");
}
