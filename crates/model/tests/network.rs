//! Properties of networks: finite differences, blocks, dropout, the order in
//! which the gradient is finished, errors, and no allocation in a step (`allocations`).

#![allow(clippy::unwrap_used, reason = "a failed assumption of a test should panic")]

mod allocations;
mod golden;
mod plain;
mod random;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use golden::{batch, golden, network, start};
use paceline_model::{
    AlexNet, Architecture, Batch, Descent, Initialisation, Layer, LayerKind, Model, Momentum,
    Network, NetworkError, OptimizerState, OutputMode, Sgd, Shape, StepEvent, Tally, Windows,
    fill_uniform, lenet,
};

/// Gradient and loss of one batch as one block.
fn gradient(model: &mut Network, params: &[f32], block: Batch<'_>) -> (f32, Vec<f32>) {
    let mut grad = vec![f32::NAN; params.len()];
    let loss =
        model.gradient(params, block, 1.0 / block.len() as f32, OutputMode::Overwrite, &mut grad);
    (loss, grad)
}

#[test]
fn gradients_agree_with_finite_differences() {
    for case in golden()["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut model = network(case, 2, 1);
        let params = start(&model);
        let (x, labels) = batch(&model, 2, 5);
        let (loss, grad) = gradient(&mut model, &params, Batch::dense(&x, &labels));
        let mut wide: Vec<f64> = params.iter().map(|&value| f64::from(value)).collect();
        let plain = plain::loss(&model, &wide, &x, &labels);
        assert!((f64::from(loss) - plain).abs() < 1e-5, "{name}: loss {loss}, not {plain}");
        // A few hundred parameters of each, with the first and the last.
        let step = wide.len().div_ceil(150);
        for i in (0..wide.len()).step_by(step).chain([wide.len() - 1]) {
            let slope = plain::slope(&model, &mut wide, i, &x, &labels);
            let got = f64::from(grad[i]);
            assert!((got - slope).abs() < 2e-5, "{name}: parameter {i}: {got}, not {slope}");
        }
    }
}

#[test]
fn blocks_add_up_to_the_batch_and_runs_repeat_bit_for_bit() {
    let mut model = lenet(7, 2).unwrap();
    let params = start(&model);
    let (x, labels) = batch(&model, 7, 1);
    let (loss, whole) = gradient(&mut model, &params, Batch::dense(&x, &labels));
    assert_eq!(gradient(&mut model, &params, Batch::dense(&x, &labels)), (loss, whole.clone()));

    let mut grad = vec![f32::NAN; params.len()];
    let (mut sum, mut mode) = (0.0, OutputMode::Overwrite);
    for (x, labels) in x.chunks(3 * 784).zip(labels.chunks(3)) {
        let block = Batch::dense(x, labels);
        sum += model.gradient(&params, block, 1.0 / 7.0, mode, &mut grad);
        mode = OutputMode::Add;
    }
    assert!((sum - loss).abs() < 1e-5);
    assert!(grad.iter().zip(&whole).all(|(a, b)| (a - b).abs() < 1e-5));

    assert_eq!(
        model.gradient(&params, Batch::dense(&[], &[]), 1.0, OutputMode::Overwrite, &mut grad),
        0.0
    );
    assert!(grad.iter().all(|&value| value == 0.0));

    let mut tally = Tally::default();
    model.evaluate(&params, Batch::dense(&x, &labels), &mut tally);
    assert_eq!(tally.examples, 7);
    assert!((tally.loss() - f64::from(loss)).abs() < 1e-5);
}

#[test]
fn a_step_in_place_has_the_bits_of_a_gradient_and_an_update() {
    let spec = Momentum::new(0.05, 0.9).decay(0.01);
    // Odd sizes, and a dense layer whose gradient comes in several pieces.
    let layers = || {
        let windows = Windows { kernel: [2, 2], stride: [2, 2], padding: [0, 0] };
        vec![
            Layer::conv("conv", 5, 3, 1, 1),
            Layer::new("relu", LayerKind::Relu),
            Layer::new("pool", LayerKind::MaxPool(windows)),
            Layer::new("flat", LayerKind::Flatten),
            Layer::new("drop", LayerKind::Dropout { rate: 0.3 }),
            Layer::dense("wide", 421),
            Layer::new("tanh", LayerKind::Tanh),
            Layer::dense("out", 3),
        ]
    };
    let input = Shape { channels: 2, height: 9, width: 7 };
    for threads in [1, 2] {
        let mut model = Network::new(input, layers(), 5, threads).unwrap();
        let mut params = start(&model);
        let mut optimizer = OptimizerState::new(spec.clone(), model.layout(), 0..params.len());
        let mut moved = (params.clone(), optimizer.clone());
        for step in 0..4 {
            let (x, labels) = batch(&model, 5 - step as usize, 3);
            let block = Batch { draw: step, ..Batch::dense(&x, &labels) };
            let (loss, grad) = gradient(&mut model, &params, block);
            optimizer.apply(step, 0, &mut params, &grad);
            let descent = Descent { params: &mut moved.0, optimizer: &mut moved.1, step };
            let model = model.in_place().unwrap();
            assert_eq!(model.descend(descent, block), loss, "loss of step {step}");
            assert!(moved.0 == params, "{threads} threads: parameters after step {step}");
        }
    }
}

/// 4,000 values that dropout thins out before one output sees them.
fn thinned(rate: f32) -> Network {
    let layers = vec![Layer::new("drop", LayerKind::Dropout { rate }), Layer::dense("out", 2)];
    Network::new(Shape::flat(4_000), layers, 2, 2).unwrap()
}

#[test]
fn dropout_depends_on_draw_and_example_and_is_off_in_evaluation() {
    let mut model = thinned(0.25);
    let params = vec![0.0; model.layout().len()];
    let x = vec![1.0; 8_000];
    // With equal scores the gradient of a weight is half of what its input was.
    let mut kept = |draw: u64, labels: &[u32]| {
        let block = Batch { draw, ..Batch::dense(&x[..4_000 * labels.len()], labels) };
        let grad = gradient(&mut model, &params, block).1;
        grad[..4_000].iter().map(|g| g * 2.0 * labels.len() as f32).collect::<Vec<f32>>()
    };
    let first = kept(1, &[1]);
    assert_eq!(first, kept(1, &[1]));
    assert_ne!(first, kept(2, &[1]));
    // Two examples with labels apart cancel out wherever both keep or both drop.
    let both = kept(1, &[1, 0]);
    let differ = both.iter().filter(|value| **value != 0.0).count();
    assert!((1_300..1_700).contains(&differ), "{differ} of 4,000 differ between examples");
    let dropped = first.iter().filter(|value| **value == 0.0).count();
    assert!((900..1_100).contains(&dropped), "{dropped} of 4,000 dropped at a rate of 0.25");
    assert!(first.iter().all(|&value| value == 0.0 || (value - 4.0 / 3.0).abs() < 1e-6));

    let (mut thin, mut full) = (thinned(0.5), thinned(0.0));
    let params = start(&thin);
    let (mut a, mut b) = (Tally::default(), Tally::default());
    thin.evaluate(&params, Batch::dense(&x, &[0, 1]), &mut a);
    full.evaluate(&params, Batch::dense(&x, &[0, 1]), &mut b);
    assert_eq!(a, b);
}

/// Makes a step that is asked to stop at its `looks`-th look; its loss, and how often it looked.
fn stopped_step(
    model: &mut Network,
    params: &mut [f32],
    looks: usize,
    in_place: bool,
) -> (f32, usize) {
    let looked = Arc::new(AtomicUsize::new(0));
    let count = looked.clone();
    model.stop_when(Arc::new(move || count.fetch_add(1, Ordering::Relaxed) >= looks));
    let inputs = vec![0.5; 2 * model.inputs()];
    let block = Batch::dense(&inputs, &[1, 0]);
    let loss = if in_place {
        let mut optimizer = OptimizerState::new(Sgd::new(0.1), model.layout(), 0..params.len());
        let descent = Descent { params, optimizer: &mut optimizer, step: 0 };
        model.in_place().unwrap().descend(descent, block)
    } else {
        gradient(model, params, block).0
    };
    (loss, looked.load(Ordering::Relaxed))
}

#[test]
fn a_step_that_is_stopped_returns_early_and_changes_no_parameter() {
    let mut model = lenet(2, 1).unwrap();
    let before = start(&model);
    for in_place in [true, false] {
        let mut params = before.clone();
        let (loss, looks) = stopped_step(&mut model, &mut params, usize::MAX, in_place);
        assert!(loss.is_finite() && looks > 3 && (params != before) == in_place);
        for stop_at in 0..looks {
            let mut params = before.clone();
            let (loss, looked) = stopped_step(&mut model, &mut params, stop_at, in_place);
            assert!(loss.is_nan() && params == before, "{stop_at}");
            assert!(looked <= stop_at + 2, "{stop_at}: {looked}");
        }
    }
    // A test is not a step.
    let (inputs, mut tally) = (vec![0.5; model.inputs()], Tally::default());
    model.evaluate(&before, Batch::dense(&inputs, &[1]), &mut tally);
    assert_eq!(tally.examples, 1);
}

#[test]
fn parts_of_the_gradient_become_final_from_its_end_to_its_start() {
    let mut model = lenet(2, 2).unwrap();
    let params = start(&model);
    let (x, labels) = batch(&model, 2, 0);
    let block = Batch::dense(&x, &labels);
    let (_, wanted) = gradient(&mut model, &params, block);
    let mut grad = vec![f32::NAN; params.len()];
    let (mut end, mut parts) = (params.len(), 0);
    let observe = &mut |event: StepEvent<'_>| {
        if let StepEvent::Final { range, values } = event {
            assert_eq!(range.end, end);
            assert_eq!(values, &wanted[range.clone()]);
            (end, parts) = (range.start, parts + 1);
        }
    };
    model.gradient_observed(&params, block, 0.5, OutputMode::Overwrite, &mut grad, observe);
    assert_eq!((end, parts), (0, 5));
}

#[test]
fn lenet_and_alexnet_have_their_published_sizes() {
    let model = lenet(1, 1).unwrap();
    assert_eq!(model.layout().len(), 61_706);
    assert_eq!(model.layout().tensors()[2].name, "conv2.weight");
    assert_eq!(model.layout().tensors()[2].shape, [16, 6, 5, 5]);

    let model = AlexNet::default().network(1, 1).unwrap();
    assert_eq!(model.layout().len(), 61_100_840);
    let names: Vec<&str> =
        model.layout().tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names[0], "features.0.weight");
    assert_eq!(names[15], "classifier.6.bias");
    let products = model.cost().into_iter().filter(|cost| cost.product[0] > 0);
    let flops: u64 = products.map(|cost| cost.forward).sum();
    assert_eq!(flops, 2 * 714_188_480);
}

/// The initial parameters of LeNet.
fn initial(initialisation: Initialisation, seed: u64) -> (Network, Vec<f32>) {
    let model = lenet(1, 1).unwrap().initialised(initialisation);
    let mut params = vec![f32::NAN; model.layout().len()];
    model.initialise(seed, &mut params);
    (model, params)
}

#[test]
fn initial_values_are_spread_as_selected_and_depend_on_the_seed() {
    // Inputs and outputs of LeNet's layers.
    let fans = [[25, 150], [150, 400], [400, 120], [120, 84], [84, 10]];
    for initialisation in [Initialisation::He, Initialisation::Glorot, Initialisation::PyTorch] {
        let (model, params) = initial(initialisation, 3);
        for (pair, fan) in model.layout().tensors().chunks(2).zip(fans) {
            let [inputs, outputs] = fan.map(|fan| fan as f32);
            let bound = match initialisation {
                Initialisation::He => (6.0 / inputs).sqrt(),
                Initialisation::Glorot => (6.0 / (inputs + outputs)).sqrt(),
                Initialisation::PyTorch => 1.0 / inputs.sqrt(),
            };
            let name = format!("{initialisation:?} {}", pair[0].name);
            let [weights, biases] = [0, 1].map(|tensor| &params[pair[tensor].range.clone()]);
            let greatest = weights.iter().fold(0.0, |most: f32, w| most.max(w.abs()));
            assert!((0.9 * bound..=bound).contains(&greatest), "{name}: up to {greatest}");
            let mean = weights.iter().sum::<f32>() / weights.len() as f32;
            let error = bound / (3.0 * weights.len() as f32).sqrt();
            assert!(mean.abs() < 4.0 * error, "{name}: mean {mean}");
            let square = weights.iter().map(|w| w * w).sum::<f32>() / weights.len() as f32;
            let near = (0.7..1.3).contains(&(square / (bound * bound / 3.0)));
            assert!(near, "{name}: mean square {square}");
            let most = if initialisation == Initialisation::PyTorch { bound } else { 0.0 };
            assert!(biases.iter().all(|bias| bias.abs() <= most), "{name}: biases");
        }
        assert_ne!(params, initial(initialisation, 4).1);
        assert_eq!(params, initial(initialisation, 3).1);
    }
}

/// The mean square of a network's scores for inputs of variance 1, from the loss of its first
/// step: scores without variance give the logarithm of the number of classes.
#[test]
fn he_keeps_the_variance_of_values_through_many_layers() {
    let spread = |initialisation| {
        let mut layers = Vec::new();
        for index in 0..10 {
            layers.push(Layer::dense(&format!("dense{index}"), 100));
            layers.push(Layer::new(&format!("relu{index}"), LayerKind::Relu));
        }
        layers.push(Layer::dense("scores", 10));
        let network = Network::new(Shape::flat(100), layers, 50, 1).unwrap();
        let mut network = network.initialised(initialisation);
        let mut params = vec![0.0; network.layout().len()];
        network.initialise(1, &mut params);
        let mut inputs = vec![0.0; 50 * 100];
        fill_uniform(7, 0, 3f32.sqrt(), &mut inputs);
        let mut tally = Tally::default();
        network.evaluate(&params, Batch::dense(&inputs, &[0; 50]), &mut tally);
        (tally.score().loss - 10f64.ln()).abs()
    };
    assert!(spread(Initialisation::He) > 0.1);
    assert!(spread(Initialisation::PyTorch) < 0.1, "{}", spread(Initialisation::PyTorch));
}

#[test]
fn errors_name_the_layer_and_the_shapes() {
    let wrong = |layers: Vec<Layer>| {
        Network::new(Shape::image(3, 8, 8), layers, 1, 1).err().unwrap().to_string()
    };
    assert_eq!(
        wrong(vec![Layer::conv("big", 4, 9, 1, 0)]),
        "layer 0 (big, convolution), given 3x8x8: has a kernel of 9x9, larger than the image of \
         8x8 with its padding of 0x0; use a kernel of at most 8x8, or let the layers before it \
         shrink the image less"
    );
    assert_eq!(
        wrong(vec![Layer::dense("out", 10)]),
        "layer 0 (out, dense), given 3x8x8: takes a flat row: put a flatten layer before it"
    );
    assert_eq!(
        wrong(vec![Layer::conv("a", 4, 3, 1, 0)]),
        "the network ends in 4x6x6, not in a flat row of scores: add a flatten and a dense layer"
    );
    let padded = Windows { kernel: [2; 2], stride: [2; 2], padding: [2; 2] };
    assert_eq!(
        wrong(vec![Layer::new("p", LayerKind::MaxPool(padded))]),
        "layer 0 (p, max pooling), given 3x8x8: pads by 2x2, more than half of its windows of \
         2x2; pad by less"
    );
    let twice = vec![Layer::new("a", LayerKind::Flatten), Layer::dense("a", 2)];
    let name = "a".to_owned();
    assert_eq!(wrong(twice), NetworkError::DuplicateName { name, first: 0, index: 1 }.to_string());
    let rate = vec![Layer::new("d", LayerKind::Dropout { rate: 1.0 })];
    assert!(wrong(rate).contains("layer 0 (d, dropout), given 3x8x8: has the rate 1"));
}

#[test]
fn groups_and_paddings_that_do_not_fit_are_named_with_their_sizes() {
    let conv = |outputs, padding, groups| {
        let (kernel, stride, padding) = ([3; 2], [1; 2], [padding; 2]);
        let kind = LayerKind::Conv { outputs, kernel, stride, padding, groups };
        let layers = vec![Layer::new("0", kind)];
        Architecture::new(Shape::image(4, 8, 8), layers).unwrap_err().to_string()
    };
    let start = "layer 0 (convolution), given 4x8x8: ";
    let groups = "has 3 groups, which do not divide its 4 input channels; use a number that \
                  divides 4 and 6";
    assert_eq!(conv(6, 1, 3), format!("{start}{groups}"));
    assert!(conv(6, 1, 4).contains("has 4 groups, which do not divide its 6 output channels"));
    assert!(conv(6, 1, 0).contains("has 0 groups"));
    assert!(
        conv(6, 3, 1).contains("pads by 3x3, so that windows of its kernel of 3x3 see nothing")
    );
}

#[test]
fn huge_sizes_are_refused_with_the_sum_of_memory_and_no_allocation() {
    let huge = usize::MAX / 2;
    let wrong = |layers: Vec<Layer>| {
        Architecture::new(Shape::image(1, 28, 28), layers).unwrap_err().to_string()
    };
    let flat = || Layer::new("flat", LayerKind::Flatten);
    let two = vec![flat(), Layer::dense("a", 1 << 20), Layer::dense("b", 1 << 25)];
    assert_eq!(
        wrong(two),
        "layer 2 (b, dense), given 1048576: is too large: up to this layer the network needs 141 \
         TB for its parameters and 138 MB for each example; use smaller sizes"
    );
    for kind in [
        LayerKind::Dense { outputs: huge },
        LayerKind::AdaptiveAveragePool { to: [huge; 2] },
        LayerKind::Conv {
            outputs: huge,
            kernel: [huge; 2],
            stride: [1; 2],
            padding: [huge - 1; 2],
            groups: 1,
        },
    ] {
        assert!(wrong(vec![flat(), Layer::new("x", kind)]).contains("is too large"), "{kind:?}");
    }
}

#[test]
fn the_graph_leads_from_the_examples_to_the_loss() {
    let model = lenet(1, 1).unwrap();
    let graph = model.graph();
    for (index, node) in graph.iter().enumerate() {
        for input in &node.inputs {
            assert!(graph[..index].iter().any(|other| other.name == *input), "{input}");
        }
    }
    let node = |name: &str| graph.iter().find(|node| node.name == name).unwrap();
    assert_eq!(node("conv2/sums").inputs, ["pool1", "conv2/weight"]);
    assert_eq!(node("conv2/add").shape, [-1, 16, 10, 10]);
    assert_eq!(node("loss/cross_entropy").inputs, ["fc3/add", "input/labels"]);
}
