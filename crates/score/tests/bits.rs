//! Scores have the bits that a test while training judges, for every model: whatever the threads
//! and the blocks of the trainer, and if examples are scored one by one.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::path::Path;

use paceline_data::{Digits, Images, Patches};
use paceline_model::{
    AlexNet, Batch, Compactor, Layer, LayerKind, Logistic, Model, Network, Rows, Shape,
    SharedPatches, Softmax, SparseModel, Tally, Windows, fill_uniform, lenet_layers,
};
use paceline_record::model_file::ModelWriter;
use paceline_record::{InputDescription, InputKind, LayerDescription, ModelDescription, ModelForm};
use paceline_score::TrainedModel;

/// Saves a model with drawn parameters, and loads it again.
fn saved(form: ModelForm, kind: InputKind, model: &dyn Model, classes: usize) -> TrainedModel {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let names = (0..classes).map(|class| class.to_string()).collect();
    let description = ModelDescription { input: InputDescription::new(kind, names), form };
    let mut params = vec![0.0; model.layout().len()];
    fill_uniform(3, 1, 0.1, &mut params);
    write(&path, model, &params, &description);
    TrainedModel::load(&path).unwrap()
}

fn write(path: &Path, model: &dyn Model, params: &[f32], description: &ModelDescription) {
    let mut file = ModelWriter::create(path, model.layout(), 1, Some(description)).unwrap();
    file.write(params).unwrap();
    file.finish().unwrap();
}

/// The scores that the trainer's test judges, in its blocks.
fn judged(model: &mut dyn Model, params: &[f32], inputs: &[f32]) -> Vec<f32> {
    let (width, most) = (model.inputs(), model.max_block());
    let mut tally = Tally::keeping_scores();
    for block in inputs.chunks(width * most) {
        let labels = vec![0; block.len() / width];
        model.evaluate(params, Batch::dense(block, &labels), &mut tally);
    }
    tally.scores().to_vec()
}

/// Checks a dense model on drawn examples.
fn check_dense(trained: &TrainedModel, model: &mut dyn Model, examples: usize, what: &str) {
    let width = model.inputs();
    let mut inputs = vec![0.0; examples * width];
    fill_uniform(5, 2, 1.0, &mut inputs);
    let expected = judged(model, trained.params(), &inputs);
    let mut scorer = trained.scorer().unwrap();
    assert_eq!(scorer.score_values(&inputs), expected, "{what}, all at once");
    let outputs = scorer.outputs();
    for (example, expected) in inputs.chunks(width).zip(expected.chunks(outputs)) {
        assert_eq!(scorer.score_values(example), expected, "{what}, one by one");
    }
}

fn check_network(name: &str, input: [usize; 3], layers: Vec<Layer>, examples: usize) {
    let [channels, height, width] = input;
    let shape = Shape::image(channels, height, width);
    let described = layers.iter().map(LayerDescription::from).collect();
    let form = ModelForm::Network { name: name.into(), input, layers: described };
    let kind = InputKind::Digits { rows: height, columns: width };
    for (block, threads) in [(128, 2), (64, 1), (7, 1)] {
        let mut network = Network::new(shape, layers.clone(), block, threads).unwrap();
        let classes = network.classes();
        let trained = saved(form.clone(), kind.clone(), &network, classes);
        check_dense(&trained, &mut network, examples, &format!("{name}, blocks of {block}"));
    }
}

#[test]
fn lenet() {
    check_network("lenet", [1, 28, 28], lenet_layers(), 150);
}

#[test]
fn alexnet() {
    let small = AlexNet { size: 63, widths: [4, 6, 8, 6, 4], hidden: 16, classes: 5, dropout: 0.5 };
    check_network("alexnet", [3, 63, 63], small.layers(), 9);
}

#[test]
fn a_network_of_the_job_file() {
    let layers = vec![
        Layer::conv("0", 20, 5, 1, 2),
        Layer::new("1", LayerKind::Tanh),
        Layer::new("2", LayerKind::MaxPool(Windows::square(3, 2))),
        Layer::new("3", LayerKind::AdaptiveAveragePool { to: [3, 3] }),
        Layer::new("4", LayerKind::Flatten),
        Layer::dense("5", 33),
        Layer::new("6", LayerKind::Relu),
        Layer::dense("7", 10),
    ];
    check_network("network", [1, 28, 28], layers, 130);
}

#[test]
fn softmax_on_dense_examples() {
    let mut model = Softmax::new(784, 10);
    let form = ModelForm::Softmax { inputs: 784, classes: 10 };
    let kind = InputKind::Digits { rows: 28, columns: 28 };
    let trained = saved(form, kind, &model, 10);
    check_dense(&trained, &mut model, 150, "softmax");
}

#[test]
fn softmax_on_images_in_patches() {
    let images: Images = Digits::generate(2_300, 4).train;
    let patches = Patches::of(&images).unwrap();
    let form = ModelForm::Softmax { inputs: 784, classes: 10 };
    let kind = InputKind::Digits { rows: 28, columns: 28 };
    let which: Vec<u32> = (0..images.len() as u32).collect();
    for threads in [1, 2] {
        let mut model = Softmax::for_patches(784, 10, threads).unwrap();
        let trained = saved(form.clone(), kind.clone(), &model, 10);
        let mut tally = Tally::keeping_scores();
        for which in which.chunks(model.max_block()) {
            let (words, starts) = (patches.words(), patches.starts());
            let labels = vec![0; which.len()];
            let block = Batch::patches(SharedPatches { words, starts, which }, &labels);
            model.evaluate(trained.params(), block, &mut tally);
        }
        let mut scorer = trained.scorer().unwrap();
        assert_eq!(scorer.score_patches(&patches, &which), tally.scores(), "{threads} threads");
        for (&one, expected) in which.iter().zip(tally.scores().chunks(10)) {
            assert_eq!(scorer.score_patches(&patches, &[one]), expected, "image {one}");
        }
    }
}

#[test]
fn logistic_regression_whose_test_sees_a_compact_slice() {
    const FEATURES: usize = 5_000;
    let mut model = Logistic::new(FEATURES);
    let form = ModelForm::Logistic { features: FEATURES };
    let trained = saved(form, InputKind::Libsvm { features: FEATURES, first_index: 1 }, &model, 2);
    let (mut keys, mut values, mut starts) = (Vec::new(), Vec::new(), vec![0]);
    for row in 0..1_000u32 {
        let len = row % 43;
        keys.extend((0..len).map(|at| (row * 31 + at * 113) % FEATURES as u32));
        values.extend((0..len).map(|at| 0.5 + at as f32));
        starts.push(keys.len() as u32);
    }
    for values in [&values[..], &[]] {
        let mut compactor = Compactor::new();
        compactor.compact(&keys, model.shared_keys());
        let slice: Vec<f32> =
            compactor.keys().iter().map(|&key| trained.params()[key as usize]).collect();
        let mut tally = Tally::keeping_scores();
        let labels = vec![0; 1_000];
        let rows = Rows { starts: &starts, places: compactor.places(), values };
        model.evaluate(&slice, Batch::sparse(rows, &labels), &mut tally);
        let mut scorer = trained.scorer().unwrap();
        let rows = Rows { starts: &starts, places: &keys, values };
        assert_eq!(scorer.score_rows(rows, &[]), tally.scores());
        for (row, expected) in starts.windows(2).zip(tally.scores()) {
            let range = row[0] as usize..row[1] as usize;
            let own = if values.is_empty() { values } else { &values[range.clone()] };
            let alone = [0, row[1] - row[0]];
            let one = Rows { starts: &alone, places: &keys[range], values: own };
            assert_eq!(scorer.score_rows(one, &[]), [*expected]);
        }
    }
}
