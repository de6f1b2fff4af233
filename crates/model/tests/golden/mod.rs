//! The reference file, and the parameters and examples that its networks had.

use paceline_model::{Layer, LayerKind, Model, Network, Shape, Windows};
use serde_json::Value;

/// The reference file.
pub(crate) fn golden() -> Value {
    serde_json::from_str(include_str!("layers.json")).unwrap()
}

/// Numbers from -1 to 1, by the formula of `make_layers_golden.py`.
pub(crate) fn values(count: usize, salt: usize) -> Vec<f32> {
    (0..count as u64)
        .map(|place| {
            let mut x = place.wrapping_add(salt as u64 * 1_000_003);
            x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x ^= x >> 32;
            x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
            x ^= x >> 32;
            (x >> 40) as f32 / 8_388_608.0 - 1.0
        })
        .collect()
}

/// The parameters that a network starts from.
pub(crate) fn start(model: &Network) -> Vec<f32> {
    let mut params = Vec::new();
    for (index, pair) in model.layout().tensors().chunks(2).enumerate() {
        let inputs: usize = pair[0].shape[1..].iter().product();
        let bound = (2.0 / (inputs as f64).sqrt()) as f32;
        for (tensor, salt) in pair.iter().zip(2 * index + 1..) {
            params.extend(values(tensor.range.len(), salt).iter().map(|value| value * bound));
        }
    }
    params
}

/// A batch of examples and their labels.
pub(crate) fn batch(model: &Network, count: usize, salt: usize) -> (Vec<f32>, Vec<u32>) {
    let label = |example: usize| ((example * 3 + salt) % model.classes()) as u32;
    (values(count * model.inputs(), 1000 + salt), (0..count).map(label).collect())
}

/// A network of the reference file.
pub(crate) fn network(case: &Value, block: usize, threads: usize) -> Network {
    let [channels, height, width] = list(&case["shape"]);
    let layers = case["layers"].as_array().unwrap().iter().enumerate();
    let layers = layers.map(|(i, layer)| Layer::new(&format!("layer{i}"), kind(layer))).collect();
    Network::new(Shape::image(channels, height, width), layers, block, threads).unwrap()
}

fn kind(layer: &Value) -> LayerKind {
    let outputs = || layer["outputs"].as_u64().unwrap() as usize;
    let windows = || {
        let [kernel, stride, padding] =
            ["kernel", "stride", "padding"].map(|key| list(&layer[key]));
        Windows { kernel, stride, padding }
    };
    match layer["kind"].as_str().unwrap() {
        "conv" => {
            let Windows { kernel, stride, padding } = windows();
            let groups = layer["groups"].as_u64().unwrap() as usize;
            LayerKind::Conv { outputs: outputs(), kernel, stride, padding, groups }
        }
        "max" => LayerKind::MaxPool(windows()),
        "average" => LayerKind::AveragePool(windows()),
        "adaptive" => LayerKind::AdaptiveAveragePool { to: list(&layer["to"]) },
        "dense" => LayerKind::Dense { outputs: outputs() },
        "flatten" => LayerKind::Flatten,
        "relu" => LayerKind::Relu,
        "tanh" => LayerKind::Tanh,
        other => panic!("no such layer: {other}"),
    }
}

fn list<const N: usize>(values: &Value) -> [usize; N] {
    let values = values.as_array().unwrap();
    std::array::from_fn(|i| values[i].as_u64().unwrap() as usize)
}
