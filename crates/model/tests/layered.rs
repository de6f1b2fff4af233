//! A step made layer by layer has the bits of a step made at once.

#![allow(clippy::unwrap_used, reason = "a failed assumption of a test should panic")]

use paceline_model::kernels::{add_scaled, scale};
use paceline_model::{
    AlexNet, Batch, FactorUpdate, Layer, LayerFactors, LayerKind, LayerPiece, LayerSink, Model,
    Momentum, Network, OptimizerState, OutputMode, Shape, WeightedFactors, fill_uniform, lenet,
};

/// Collects what a backward pass hands out.
struct Collector<'a> {
    pieces: &'a [LayerPiece],
    takes_factors: bool,
    params: &'a [f32],
    grad: Vec<f32>,
    factors: Vec<Option<(Vec<f32>, Vec<f32>)>>,
    calls: Vec<(&'static str, usize)>,
}

impl<'a> Collector<'a> {
    fn new(pieces: &'a [LayerPiece], params: &'a [f32], takes_factors: bool) -> Self {
        let (grad, factors) = (vec![f32::NAN; params.len()], vec![None; pieces.len()]);
        Self { pieces, takes_factors, params, grad, factors, calls: Vec::new() }
    }
}

impl LayerSink for Collector<'_> {
    fn gradient(&mut self, piece: usize) -> Option<&mut [f32]> {
        let LayerPiece { range, factors, .. } = &self.pieces[piece];
        let is_factor = self.takes_factors && factors.is_some();
        (!is_factor).then(|| &mut self.grad[range.clone()])
    }

    fn gradient_done(&mut self, piece: usize) {
        self.calls.push(("gradient", piece));
    }

    fn factors(&mut self, piece: usize, factors: LayerFactors<'_>) {
        self.calls.push(("factors", piece));
        self.factors[piece] = Some((factors.inputs.to_vec(), factors.deltas.to_vec()));
    }

    fn params(&self, piece: usize) -> &[f32] {
        &self.params[self.pieces[piece].range.clone()]
    }

    fn params_done(&mut self, piece: usize) {
        self.calls.push(("params", piece));
    }
}

fn networks(threads: usize) -> Vec<Network> {
    let small = AlexNet { classes: 7, size: 63, widths: [4, 6, 5, 3, 8], ..AlexNet::default() };
    let layers = vec![
        Layer::dense("hidden", 70),
        Layer::new("relu", LayerKind::Relu),
        Layer::new("dropout", LayerKind::Dropout { rate: 0.3 }),
        Layer::dense("scores", 5),
    ];
    vec![
        lenet(5, threads).unwrap(),
        AlexNet { hidden: 100, ..small }.network(5, threads).unwrap(),
        Network::new(Shape::flat(37), layers, 5, threads).unwrap(),
    ]
}

fn start(model: &Network) -> Vec<f32> {
    let mut params = vec![0.0; model.layout().len()];
    model.initialise(3, &mut params);
    params
}

/// Random examples, with the seed of their dropout.
struct RandomBatch {
    values: Vec<f32>,
    labels: Vec<u32>,
    draw: u64,
}

impl RandomBatch {
    fn new(model: &Network, count: usize, seed: u64) -> Self {
        let mut values = vec![0.0; count * model.inputs()];
        fill_uniform(seed, 0, 1.0, &mut values);
        let labels = (0..count).map(|i| (i * 3 + 1) as u32 % 5).collect();
        Self { values, labels, draw: seed }
    }

    fn batch(&self) -> Batch<'_> {
        Batch { draw: self.draw, ..Batch::dense(&self.values, &self.labels) }
    }
}

fn at_once(model: &mut Network, params: &[f32], examples: &RandomBatch) -> (f32, Vec<f32>) {
    let mut grad = vec![f32::NAN; params.len()];
    let share = 1.0 / examples.labels.len() as f32;
    let loss = model.gradient(params, examples.batch(), share, OutputMode::Overwrite, &mut grad);
    (loss, grad)
}

fn in_layers<'a>(
    model: &mut Network,
    examples: &RandomBatch,
    mut sink: Collector<'a>,
) -> (f32, Collector<'a>) {
    let (pieces, params, mut asked) = (sink.pieces, sink.params, Vec::new());
    let share = 1.0 / examples.labels.len() as f32;
    let layered = model.layered().unwrap();
    let mut of_piece = |piece: usize| {
        asked.push(piece);
        Some(&params[pieces[piece].range.clone()])
    };
    let loss = layered.forward_pass(examples.batch(), share, &mut of_piece, &mut |_| {}).unwrap();
    assert!(asked.into_iter().eq(0..pieces.len()), "each piece is asked for once, in order");
    layered.backward_pass(&mut sink, &mut |_| {});
    (loss, sink)
}

#[test]
fn two_passes_have_the_bits_of_one_gradient_whatever_the_threads() {
    for threads in [1, 3] {
        for mut model in networks(threads) {
            let params = start(&model);
            let pieces = model.layered().unwrap().pieces();
            let examples = RandomBatch::new(&model, 5, 11);
            let (loss, grad) = at_once(&mut model, &params, &examples);
            let sink = Collector::new(&pieces, &params, false);
            let (layered_loss, sink) = in_layers(&mut model, &examples, sink);
            assert_eq!(layered_loss.to_bits(), loss.to_bits());
            assert!(sink.grad.iter().zip(&grad).all(|(a, b)| a.to_bits() == b.to_bits()));
            let order = (0..pieces.len()).rev().flat_map(|i| [("gradient", i), ("params", i)]);
            assert!(sink.calls.into_iter().eq(order), "the last piece is handed out first");
        }
    }
}

#[test]
fn pieces_cover_the_layout_and_dense_layers_have_factors() {
    for mut model in networks(1) {
        let pieces = model.layered().unwrap().pieces();
        let ends = pieces.iter().map(|piece| piece.range.end);
        let starts = pieces.iter().map(|piece| piece.range.start).skip(1);
        assert!(ends.eq(starts.chain([model.layout().len()])), "{pieces:?}");
        assert_eq!(pieces[0].range.start, 0);
        let last = pieces.last().unwrap();
        let sizes = last.factors.unwrap();
        assert_eq!(last.range.len(), (sizes.inputs + 1) * sizes.outputs);
    }
}

#[test]
fn factors_of_all_workers_update_as_the_mean_of_their_gradients_does() {
    for threads in [1, 2] {
        for mut model in networks(threads) {
            for counts in [vec![5], vec![5, 5], vec![5, 2, 4], vec![1, 5, 5, 3]] {
                check_update(&mut model, &counts);
            }
        }
    }
}

/// Compares two updates: by factors, and by the mean of gradients.
fn check_update(model: &mut Network, counts: &[usize]) {
    let params = start(model);
    let pieces = model.layered().unwrap().pieces();
    let total: usize = counts.iter().sum();
    let weights: Vec<_> = counts.iter().map(|&n| (n as f64 / total as f64) as f32).collect();
    let (mut mean, mut collected) = (Vec::new(), Vec::new());
    for (slot, (&count, &weight)) in counts.iter().zip(&weights).enumerate() {
        let examples = RandomBatch::new(model, count, 100 + slot as u64);
        let (_, mut grad) = at_once(model, &params, &examples);
        if slot == 0 {
            scale(&mut grad, weight);
            mean = grad;
        } else {
            add_scaled(&mut mean, &grad, weight);
        }
        let sink = Collector::new(&pieces, &params, true);
        collected.push(in_layers(model, &examples, sink).1.factors);
    }
    let spec = Momentum::new(0.1, 0.9).decay(0.01);
    let mut expected = params.clone();
    let state = || OptimizerState::new(spec.clone(), model.layout(), 0..params.len());
    let (mut by_mean, mut by_factors) = (state(), state());
    by_mean.apply(4, 0, &mut expected, &mean);
    for (index, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.factors.is_some()) {
        let mut workers = Vec::new();
        for (factors, &weight) in collected.iter().zip(&weights) {
            let (inputs, deltas) = factors[index].as_ref().unwrap();
            workers.push(WeightedFactors { factors: LayerFactors { inputs, deltas }, weight });
        }
        let mut updated = params[piece.range.clone()].to_vec();
        model.layered().unwrap().apply_factors(FactorUpdate {
            piece: index,
            workers: &workers,
            params: &mut updated,
            optimizer: &mut by_factors,
            step: 4,
        });
        let same = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same(&updated, &expected[piece.range.clone()]), "{} {counts:?}", piece.name);
        for ((_, left), (_, right)) in by_mean.states().zip(by_factors.states()) {
            assert!(same(&left[piece.range.clone()], &right[piece.range.clone()]));
        }
    }
}

#[test]
fn a_forward_pass_that_gets_no_parameters_is_abandoned() {
    for mut model in networks(2) {
        let params = start(&model);
        let pieces = model.layered().unwrap().pieces();
        let examples = RandomBatch::new(&model, 3, 5);
        let layered = model.layered().unwrap();
        let mut first_only =
            |piece: usize| (piece == 0).then(|| &params[pieces[piece].range.clone()]);
        let loss = layered.forward_pass(examples.batch(), 1.0, &mut first_only, &mut |_| {});
        assert_eq!(loss, None);
        // The next step is not affected.
        let (loss, _) = at_once(&mut model, &params, &examples);
        let sink = Collector::new(&pieces, &params, false);
        assert_eq!(in_layers(&mut model, &examples, sink).0.to_bits(), loss.to_bits());
    }
}
