//! The graph of a model: its operations and what feeds what.

use crate::layout::Layout;

/// One operation of a model, as TensorBoard's graph tab shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpNode {
    /// A unique name. A slash puts the node into a box with the name before it.
    pub name: String,
    /// The operation, in TensorFlow's vocabulary where it has a name for it.
    pub op: &'static str,
    /// The names of the nodes that feed this one.
    pub inputs: Vec<String>,
    /// The shape of the output; -1 stands for the batch.
    pub shape: Vec<i64>,
}

impl OpNode {
    /// A node with the given name, operation, inputs and output shape.
    pub fn new(name: &str, op: &'static str, inputs: &[&str], shape: &[i64]) -> Self {
        let inputs = inputs.iter().map(|&input| input.to_owned()).collect();
        Self { name: name.to_owned(), op, inputs, shape: shape.to_vec() }
    }
}

/// The graph of softmax regression up to the mean loss. `product` multiplies the examples by
/// weights of the shape `weight`, one number for each input and class.
pub fn softmax_graph(
    inputs: usize,
    classes: usize,
    product: &'static str,
    weight: &[usize; 2],
) -> Vec<OpNode> {
    let (inputs, classes) = (inputs as i64, classes as i64);
    vec![
        OpNode::new("input/examples", "Placeholder", &[], &[-1, inputs]),
        OpNode::new("input/labels", "Placeholder", &[], &[-1]),
        OpNode::new("softmax/weight", "VariableV2", &[], &weight.map(|size| size as i64)),
        OpNode::new("softmax/bias", "VariableV2", &[], &[classes]),
        OpNode::new(
            "softmax/scores",
            product,
            &["input/examples", "softmax/weight"],
            &[-1, classes],
        ),
        OpNode::new("softmax/add", "BiasAdd", &["softmax/scores", "softmax/bias"], &[-1, classes]),
        OpNode::new(
            "loss/cross_entropy",
            "SparseSoftmaxCrossEntropyWithLogits",
            &["softmax/add", "input/labels"],
            &[-1],
        ),
        OpNode::new("loss/mean", "Mean", &["loss/cross_entropy"], &[]),
    ]
}

/// The graph of a model that says nothing of its operations: its tensors alone.
pub(crate) fn plain_graph(layout: &Layout, inputs: usize) -> Vec<OpNode> {
    let mut nodes = vec![
        OpNode::new("input/examples", "Placeholder", &[], &[-1, inputs as i64]),
        OpNode::new("input/labels", "Placeholder", &[], &[-1]),
    ];
    for tensor in layout.tensors() {
        let shape: Vec<i64> = tensor.shape.iter().map(|&size| size as i64).collect();
        let name = format!("model/{}", tensor.name.replace('.', "/"));
        nodes.push(OpNode::new(&name, "VariableV2", &[], &shape));
    }
    let names: Vec<_> = nodes.iter().map(|node| node.name.as_str()).collect();
    let loss = OpNode::new("model/loss", "Model", &names, &[-1]);
    nodes.extend([loss, OpNode::new("loss/mean", "Mean", &["model/loss"], &[])]);
    nodes
}
