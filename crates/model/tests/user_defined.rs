//! Sparse models and losses that are not part of the crate, on all paths of training.

use paceline_model::{
    AdaGrad, Batch, Compactor, Group, Layout, LossSlope, Model, OptimizerSpec, OptimizerState,
    OutputMode, Row, RowDescent, Rows, ScoreLoss, Sgd, SparseLinear, SparseModel, Table, Tally,
};

const FEATURES: usize = 40;

/// Two classes by the score `gain * tanh(weights * row) + bias`, with the squared hinge loss.
/// Both `gain` and `bias` are shared by all rows.
struct Squashed {
    layout: Layout,
}

impl Squashed {
    fn new() -> Self {
        let mut layout = Layout::new();
        layout.push("weight", &[FEATURES], Group::Weights);
        layout.push("gain", &[1], Group::Weights);
        layout.push("bias", &[1], Group::Biases);
        Self { layout }
    }
}

impl Model for Squashed {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        FEATURES
    }

    fn initialise(&self, _seed: u64, params: &mut [f32]) {
        params.fill(0.0);
    }

    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        mode.prepare(grad);
        let [.., gain, bias] = *params else { panic!("no shared parameters") };
        let mut loss = 0.0;
        for row in block.sparse_rows() {
            let squashed = row.dot(params).tanh();
            let point = SquaredHinge.loss(gain.exp() * squashed + bias, row.label);
            let delta = share * point.slope;
            row.add_scaled(delta * gain.exp() * (1.0 - squashed * squashed), grad);
            let [.., gain_grad, bias_grad] = grad else { panic!("no shared parameters") };
            *gain_grad += delta * gain.exp() * squashed;
            *bias_grad += delta;
            loss += share * point.loss;
        }
        loss
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        let [.., gain, bias] = *params else { panic!("no shared parameters") };
        for row in block.sparse_rows() {
            let score = gain.exp() * row.dot(params).tanh() + bias;
            tally.count_two_class(score, row.label, SquaredHinge.loss(score, row.label).loss);
        }
    }

    fn max_block(&self) -> usize {
        7
    }
}

impl SparseModel for Squashed {}

struct SquaredHinge;

impl ScoreLoss for SquaredHinge {
    fn loss(&self, score: f32, label: u32) -> LossSlope {
        let sign = if label == 0 { -1.0 } else { 1.0 };
        let gap = (1.0 - sign * score).max(0.0);
        LossSlope { loss: gap * gap, slope: -2.0 * sign * gap }
    }
}

/// Rows whose class depends on whether most of their features are even.
struct OddRows {
    starts: Vec<u32>,
    keys: Vec<u32>,
    values: Vec<f32>,
    labels: Vec<u32>,
}

impl OddRows {
    fn new(rows: u32) -> Self {
        let mut set = Self { starts: vec![0], keys: vec![], values: vec![], labels: vec![] };
        for row in 0..rows {
            let keys: Vec<u32> =
                (0..row % 6).map(|i| (row * 31 + i * i * 17) % FEATURES as u32).collect();
            let even = keys.iter().filter(|key| key.is_multiple_of(2)).count();
            set.labels.push(u32::from(2 * even > keys.len()));
            set.values.extend(keys.iter().map(|key| 0.5 + (key % 3) as f32 / 4.0));
            set.keys.extend(keys);
            set.starts.push(set.keys.len() as u32);
        }
        set
    }

    /// All rows with places instead of keys.
    fn batch<'a>(&'a self, places: &'a [u32], from: usize, to: usize) -> Batch<'a> {
        let rows = Rows { starts: &self.starts[from..=to], places, values: &self.values };
        Batch::sparse(rows, &self.labels[from..to])
    }

    fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        self.labels.iter().enumerate().map(|(at, &label)| {
            let range = self.starts[at] as usize..self.starts[at + 1] as usize;
            let (keys, values) = (&self.keys[range.clone()], &self.values[range]);
            Row { label, weight: 1.0, keys, values, fields: &[] }
        })
    }
}

/// The mean gradient over all rows, block by block; returns the mean loss.
fn gradient(
    model: &mut dyn SparseModel,
    set: &OddRows,
    places: &[u32],
    params: &[f32],
    grad: &mut [f32],
) -> f32 {
    let (count, share) = (set.labels.len(), 1.0 / set.labels.len() as f32);
    let (mut loss, mut mode) = (0.0, OutputMode::Overwrite);
    for from in (0..count).step_by(model.max_block()) {
        let to = (from + model.max_block()).min(count);
        loss += model.gradient(params, set.batch(places, from, to), share, mode, grad);
        mode = OutputMode::Add;
    }
    loss
}

/// A step through a table with a compact slice.
fn step_on_table(model: &mut dyn SparseModel, table: &Table, step: u64, set: &OddRows) -> f32 {
    let mut compactor = Compactor::new();
    compactor.compact(&set.keys, model.shared_keys());
    let keys = compactor.keys();
    let (mut params, mut grad) = (vec![0.0; keys.len()], vec![0.0; keys.len()]);
    table.read(keys, &mut params);
    let loss = gradient(model, set, compactor.places(), &params, &mut grad);
    table.update(step, keys, &grad);
    loss
}

fn contents(table: &Table) -> Vec<f32> {
    let mut params = vec![f32::NAN; table.len()];
    table.read_range(table.range(), &mut params);
    params
}

#[test]
fn a_sparse_model_learns_the_same_on_a_table_and_with_all_parameters() {
    let set = OddRows::new(60);
    for spec in [Sgd::new(0.3).bias_rate(0.1), AdaGrad::new(0.2)] {
        let mut model = Squashed::new();
        assert_eq!(model.shared_keys(), 40..42);
        assert!(model.score_loss().is_none());
        let all = model.layout().len();
        let table = Table::new(spec.clone(), model.layout(), 0..all);
        let mut state = OptimizerState::new(spec.clone(), model.layout(), 0..all);
        let (mut params, mut grad) = (vec![0.0; all], vec![0.0; all]);
        for step in 0..300 {
            let loss = gradient(&mut model, &set, &set.keys, &params, &mut grad);
            state.apply(step, 0, &mut params, &grad);
            let on_table = step_on_table(&mut model, &table, step, &set);
            assert!((loss - on_table).abs() < 1e-6, "step {step}: {loss}, {on_table}");
        }
        for (got, want) in contents(&table).iter().zip(&params) {
            assert!((got - want).abs() < 1e-5, "{spec:?}: {got}, not {want}");
        }
        let mut tally = Tally::default();
        model.evaluate(&params, set.batch(&set.keys, 0, 60), &mut tally);
        assert!(tally.score().accuracy > 0.9, "{spec:?}: {:?}", tally.score());
    }
}

#[test]
fn the_gradient_of_a_sparse_model_agrees_with_finite_differences() {
    let (set, mut model) = (OddRows::new(13), Squashed::new());
    let mut params: Vec<f32> = (0..42).map(|i| (i * 37 % 64) as f32 / 64.0 - 0.5).collect();
    let (mut grad, mut unused) = (vec![0.0; 42], vec![0.0; 42]);
    gradient(&mut model, &set, &set.keys, &params, &mut grad);
    for i in 0..42 {
        let (here, step) = (params[i], 1e-2);
        params[i] = here + step;
        let above = gradient(&mut model, &set, &set.keys, &params, &mut unused);
        params[i] = here - step;
        let below = gradient(&mut model, &set, &set.keys, &params, &mut unused);
        params[i] = here;
        let slope = (above - below) / (2.0 * step);
        assert!((grad[i] - slope).abs() < 1e-3, "parameter {i}: {}, not {slope}", grad[i]);
    }
}

#[test]
fn a_linear_loss_gives_the_same_bits_in_place_and_with_a_compact_slice() {
    let set = OddRows::new(60);
    let mut model = SparseLinear::with_loss(FEATURES, SquaredHinge);
    let spec: OptimizerSpec = Sgd::new(0.05).decay(0.01).bias_decay(0.0);
    let table = || Table::new(spec.clone(), model.layout(), 0..FEATURES + 1);
    let (compact, in_place) = (table(), table().with_sums().unwrap());
    let mut descent = RowDescent::new(model.max_block());
    for step in 0..50 {
        let loss = step_on_table(&mut model, &compact, step, &set);
        let score_loss = model.score_loss().unwrap();
        let got = descent.gradient(score_loss, &in_place, set.rows(), &mut std::iter::empty());
        descent.update(&in_place, step, set.rows());
        assert_eq!(got.to_bits(), loss.to_bits());
        assert_eq!(contents(&in_place), contents(&compact), "step {step}");
    }
}

#[test]
fn defaults_describe_a_model_as_one_operation() {
    let graph = Squashed::new().graph();
    let names: Vec<_> = graph.iter().map(|node| node.name.as_str()).collect();
    let wanted = ["input/examples", "input/labels", "model/weight", "model/gain", "model/bias"];
    assert_eq!(names[..5], wanted);
    assert_eq!(graph[5].inputs, wanted);
    assert_eq!(Squashed::new().layer_shapes().len(), 1);
}
