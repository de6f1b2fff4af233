//! Training of sparse logistic regression agrees with numpy on the same rows: see
//! `golden/sparse.py`.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use paceline_model::{
    AdaGrad, Batch, Compactor, Ftrl, Group, Logistic, Model, OptimizerSpec, OptimizerState,
    OutputMode, Rows, Sgd, SparseModel, Table, Tally,
};

const GOLDEN: &str = include_str!("golden/sparse.txt");
const BATCH: usize = 16;
const STEPS: usize = 400;
const TOLERANCE: f64 = 1e-4;

/// The rows of the file, twice over, so that a batch may begin anywhere.
struct GoldenRows {
    starts: Vec<u32>,
    features: Vec<u32>,
    labels: Vec<u32>,
    /// How many there are without repeats.
    count: usize,
}

impl GoldenRows {
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
    let examples = GoldenRows::read();
    let expected = golden(case, "params");
    let features = expected.len() - 1;
    let mut model = Logistic::new(features);
    let table = Table::new(spec, model.layout(), 0..features + 1);
    let mut stepper = TableStepper::new(Box::new(Logistic::new(features)));
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
    check("sgd", Sgd::new(0.5));
}

#[test]
fn sgd_with_lazy_decay_follows_numpy() {
    let mut spec = Sgd::new(0.5);
    spec.weights.decay = 0.01;
    check("sgd-decay", spec);
}

#[test]
fn ada_grad_follows_numpy() {
    check("adagrad", AdaGrad::new(0.2));
}

#[test]
fn ftrl_follows_numpy_and_leaves_the_same_features_out() {
    check("ftrl", OptimizerSpec::new(Ftrl { beta: 1.0, l1: 0.5, l2: 0.1 }, 0.5));
    let zeros = golden("ftrl", "params").iter().filter(|value| **value == 0.0).count();
    assert!((10..110).contains(&zeros), "{zeros} zeros make no case");
}

const FEATURES: usize = 60;

struct SparseSet {
    starts: Vec<u32>,
    features: Vec<u32>,
    values: Vec<f32>,
    labels: Vec<u32>,
}

fn data(rows: u32) -> SparseSet {
    let mut data = SparseSet {
        starts: vec![0],
        features: Vec::new(),
        values: Vec::new(),
        labels: (0..rows).map(|row| row * 7 / 3 % 2).collect(),
    };
    for row in 0..rows {
        for i in 0..row % 9 {
            data.features.push((row * 31 + i * i * 17) % FEATURES as u32);
            data.values.push(((row * 13 + i * 29) % 32) as f32 / 16.0 - 0.9);
        }
        data.starts.push(data.features.len() as u32);
    }
    data
}

impl SparseSet {
    fn batch(&self, from: usize, to: usize) -> Batch<'_> {
        let rows =
            Rows { starts: &self.starts[from..=to], places: &self.features, values: &self.values };
        Batch::sparse(rows, &self.labels[from..to])
    }
}

/// The sparse path (compact slices of a table) against the dense one (all parameters, a
/// gradient as long, the dense optimizer).
#[test]
fn sparse_and_dense_paths_give_the_same_parameters() {
    let data = data(90);
    for spec in [
        Sgd::new(0.2),
        Sgd::new(0.2).decay(0.02).bias_decay(0.0),
        AdaGrad::new(0.2),
        OptimizerSpec::new(Ftrl { beta: 1.0, l1: 0.01, l2: 0.1 }, 0.2),
    ] {
        let spec = spec.bias_rate(0.1);
        let mut model = Logistic::new(FEATURES);
        assert_eq!(model.layout().tensors()[1].group, Group::Biases);
        let all = model.layout().len();
        let table = Table::new(spec.clone(), model.layout(), 0..all);
        let mut optimizer = OptimizerState::new(spec.clone(), model.layout(), 0..all);
        let mut stepper = TableStepper::new(Box::new(Logistic::new(FEATURES)));
        let (mut params, mut grad) = (vec![0.0; all], vec![0.0; all]);
        for step in 0..200usize {
            let from = step * 13 % 80;
            let batch = data.batch(from, from + 10);
            let loss = model.gradient(&params, batch, 0.1, OutputMode::Overwrite, &mut grad);
            optimizer.apply(step as u64, 0, &mut params, &grad);
            let sparse_loss = stepper.step(&table, step as u64, batch);
            assert!((loss - sparse_loss).abs() < 1e-5);
        }
        let mut got = vec![f32::NAN; all];
        table.read_range(0..all, &mut got);
        for (key, (got, want)) in got.iter().zip(&params).enumerate() {
            assert!((got - want).abs() < 1e-6, "{spec:?}, {key}: {got}, not {want}");
        }
    }
}

/// Makes steps of a sparse model on a table: compact, read, gradient, update.
struct TableStepper {
    model: Box<dyn SparseModel>,
    compactor: Compactor,
    starts: Vec<u32>,
    params: Vec<f32>,
    grad: Vec<f32>,
}

impl TableStepper {
    fn new(model: Box<dyn SparseModel>) -> Self {
        Self {
            model,
            compactor: Compactor::new(),
            starts: Vec::new(),
            params: Vec::new(),
            grad: Vec::new(),
        }
    }

    /// Makes a step: the mean gradient over a batch, applied to a table of the whole model.
    /// Returns the mean loss before it. The batch's places are the features themselves.
    ///
    /// # Panics
    /// If batch, model and table do not fit.
    fn step(&mut self, table: &Table, step: u64, batch: Batch<'_>) -> f32 {
        let rows = self.compact(table, batch);
        table.read(self.compactor.keys(), &mut self.params);
        let (share, mut mode, mut loss) = (1.0 / batch.len() as f32, OutputMode::Overwrite, 0.0);
        let (most, mut from) = (self.model.max_block(), 0);
        for labels in batch.labels.chunks(most) {
            let to = from + labels.len();
            let rows = Rows {
                starts: &self.starts[from..=to],
                places: self.compactor.places(),
                values: rows.values,
            };
            let block = Batch { draw: batch.draw, ..Batch::sparse(rows, labels) };
            loss += self.model.gradient(&self.params, block, share, mode, &mut self.grad);
            (mode, from) = (OutputMode::Add, to);
        }
        table.update(step, self.compactor.keys(), &self.grad);
        loss
    }

    /// Finds the batch's keys and makes room for their parameters. Returns the rows of the batch
    /// alone.
    fn compact<'a>(&mut self, table: &Table, batch: Batch<'a>) -> Rows<'a> {
        let rows = batch.rows();
        let (first, last) = match rows.starts {
            [first, .., last] => (*first, *last),
            _ => panic!("a batch without examples"),
        };
        let range = first as usize..last as usize;
        let values = if rows.values.is_empty() { &[] } else { &rows.values[range.clone()] };
        self.starts.clear();
        self.starts.extend(rows.starts.iter().map(|start| start - first));
        let (raw, shared) = (&rows.places[range], self.model.shared_keys());
        self.compactor.compact_with(raw, shared, table.prefetcher());
        self.params.resize(self.compactor.keys().len(), 0.0);
        self.grad.resize(self.compactor.keys().len(), 0.0);
        Rows { values, places: raw, ..rows }
    }
}
