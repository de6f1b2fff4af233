//! A model as a picture: the operations it is made of and what feeds what.

use crate::layout::Layout;

/// One operation of a model, as shown in TensorBoard's graph tab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpNode {
    /// Unique name; a slash puts the node into a box of that name.
    pub name: String,
    /// The kind of operation, in TensorFlow's vocabulary where it has a word for it.
    pub op: &'static str,
    /// Names of the nodes this one takes its inputs from.
    pub inputs: Vec<String>,
    /// Shape of what comes out; -1 stands for the batch.
    pub shape: Vec<i64>,
}

impl OpNode {
    /// A node with the given name, operation, inputs and output shape.
    pub fn new(name: &str, op: &'static str, inputs: &[&str], shape: &[i64]) -> Self {
        let inputs = inputs.iter().map(|&input| input.to_owned()).collect();
        Self { name: name.to_owned(), op, inputs, shape: shape.to_vec() }
    }
}

/// The graph of a model of which only the tensors are known.
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
