//! A network as a picture: an operation for each layer, with its parameters beside it.

use crate::Node;
use crate::layers::{Kind, Layer, Shape};

/// The nodes of a network, from the examples to the loss and the share of hits.
pub(super) fn graph(layers: &[Layer], shapes: &[Shape]) -> Vec<Node> {
    let mut nodes = vec![
        Node::new("input/examples", "Placeholder", &[], &batched(shapes[0])),
        Node::new("input/labels", "Placeholder", &[], &[-1]),
    ];
    let mut last = "input/examples".to_owned();
    for (index, layer) in layers.iter().enumerate() {
        let name = layer.name.replace('.', "/");
        let shape = batched(shapes[index + 1]);
        let op = operation(layer.kind);
        let Some((weights, biases)) = layer.kind.tensors(shapes[index]) else {
            nodes.push(Node::new(&name, op, &[&last], &shape));
            last = name;
            continue;
        };
        let weights: Vec<i64> = weights.iter().map(|&size| size as i64).collect();
        let [weight, bias, sums, out] =
            ["weight", "bias", "sums", "add"].map(|part| format!("{name}/{part}"));
        nodes.push(Node::new(&weight, "VariableV2", &[], &weights));
        nodes.push(Node::new(&bias, "VariableV2", &[], &[biases as i64]));
        nodes.push(Node::new(&sums, op, &[&last, &weight], &shape));
        nodes.push(Node::new(&out, "BiasAdd", &[&sums, &bias], &shape));
        last = out;
    }
    nodes.extend([
        Node::new(
            "loss/cross_entropy",
            "SparseSoftmaxCrossEntropyWithLogits",
            &[&last, "input/labels"],
            &[-1],
        ),
        Node::new("loss/mean", "Mean", &["loss/cross_entropy"], &[]),
        Node::new("accuracy/class", "ArgMax", &[&last], &[-1]),
        Node::new("accuracy/hit", "Equal", &["accuracy/class", "input/labels"], &[-1]),
        Node::new("accuracy/mean", "Mean", &["accuracy/hit"], &[]),
    ]);
    nodes
}

/// TensorFlow's word for what a layer does.
fn operation(kind: Kind) -> &'static str {
    match kind {
        Kind::Conv { .. } => "Conv2D",
        Kind::MaxPool(_) => "MaxPool",
        Kind::AveragePool(_) | Kind::AdaptiveAveragePool { .. } => "AvgPool",
        Kind::Flatten => "Reshape",
        Kind::Dense { .. } => "MatMul",
        Kind::Relu => "Relu",
        Kind::Tanh => "Tanh",
        Kind::Dropout { .. } => "Dropout",
    }
}

fn batched(shape: Shape) -> Vec<i64> {
    let Shape { channels, height, width } = shape;
    if shape.is_flat() {
        vec![-1, channels as i64]
    } else {
        [channels, height, width].iter().fold(vec![-1], |mut sizes, &size| {
            sizes.push(size as i64);
            sizes
        })
    }
}
