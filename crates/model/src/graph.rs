//! A model as a picture: the operations it is made of and what feeds what.

/// One operation of a model, as shown in TensorBoard's graph tab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique name; a slash puts the node into a box of that name.
    pub name: String,
    /// The kind of operation, in TensorFlow's vocabulary where it has a word for it.
    pub op: &'static str,
    /// Names of the nodes this one takes its inputs from.
    pub inputs: Vec<String>,
    /// Shape of what comes out; -1 stands for the batch.
    pub shape: Vec<i64>,
}

impl Node {
    /// A node with the given name, operation, inputs and output shape.
    pub fn new(name: &str, op: &'static str, inputs: &[&str], shape: &[i64]) -> Self {
        let inputs = inputs.iter().map(|&input| input.to_owned()).collect();
        Self { name: name.to_owned(), op, inputs, shape: shape.to_vec() }
    }
}
