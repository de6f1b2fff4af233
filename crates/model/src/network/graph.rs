//! The graph of a network: an operation for each layer, with its parameters.

use crate::graph::OpNode;
use crate::layers::{Layer, LayerKind, LayerTensors, Shape};

/// The nodes of a network, from the examples to the loss and the accuracy.
pub(super) fn graph(layers: &[Layer], shapes: &[Shape]) -> Vec<OpNode> {
    let mut nodes = vec![
        OpNode::new("input/examples", "Placeholder", &[], &batched(shapes[0])),
        OpNode::new("input/labels", "Placeholder", &[], &[-1]),
    ];
    let mut last = "input/examples".to_owned();
    for (index, layer) in layers.iter().enumerate() {
        let name = layer.name.replace('.', "/");
        let shape = batched(shapes[index + 1]);
        let op = operation(layer.kind);
        let Some(LayerTensors { weights, biases }) = layer.kind.tensors(shapes[index]) else {
            nodes.push(OpNode::new(&name, op, &[&last], &shape));
            last = name;
            continue;
        };
        let weights: Vec<i64> = weights.iter().map(|&size| size as i64).collect();
        let [weight, bias, sums, out] =
            ["weight", "bias", "sums", "add"].map(|part| format!("{name}/{part}"));
        nodes.push(OpNode::new(&weight, "VariableV2", &[], &weights));
        nodes.push(OpNode::new(&bias, "VariableV2", &[], &[biases as i64]));
        nodes.push(OpNode::new(&sums, op, &[&last, &weight], &shape));
        nodes.push(OpNode::new(&out, "BiasAdd", &[&sums, &bias], &shape));
        last = out;
    }
    nodes.extend([
        OpNode::new(
            "loss/cross_entropy",
            "SparseSoftmaxCrossEntropyWithLogits",
            &[&last, "input/labels"],
            &[-1],
        ),
        OpNode::new("loss/mean", "Mean", &["loss/cross_entropy"], &[]),
        OpNode::new("accuracy/class", "ArgMax", &[&last], &[-1]),
        OpNode::new("accuracy/hit", "Equal", &["accuracy/class", "input/labels"], &[-1]),
        OpNode::new("accuracy/mean", "Mean", &["accuracy/hit"], &[]),
    ]);
    nodes
}

/// TensorFlow's name of what a layer does.
fn operation(kind: LayerKind) -> &'static str {
    match kind {
        LayerKind::Conv { .. } => "Conv2D",
        LayerKind::MaxPool(_) => "MaxPool",
        LayerKind::AveragePool(_) | LayerKind::AdaptiveAveragePool { .. } => "AvgPool",
        LayerKind::Flatten => "Reshape",
        LayerKind::Dense { .. } => "MatMul",
        LayerKind::Relu => "Relu",
        LayerKind::Tanh => "Tanh",
        LayerKind::Dropout { .. } => "Dropout",
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
