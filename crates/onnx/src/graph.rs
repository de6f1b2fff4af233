//! Collects the nodes and tensors of a graph.

use paceline_tfrecord::proto::ProtoWriter;

use crate::schema::{
    self, Attribute, Dimension, ElementType, IR_VERSION, LEARNING_DOMAIN, LEARNING_OPERATORS,
    LEARNING_OPSET, OPSET,
};

/// An ONNX graph that grows node by node.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// The messages of nodes, tensors, inputs and outputs, as fields of a `GraphProto`.
    nodes: Vec<u8>,
    tensors: Vec<u8>,
    inputs: Vec<u8>,
    outputs: Vec<u8>,
    /// Whether a node is of [`LEARNING_DOMAIN`].
    uses_learning: bool,
}

impl Graph {
    /// Adds a node; its output has the name of the node.
    pub(crate) fn node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        attributes: &[(&str, Attribute)],
    ) -> String {
        let is_learning = LEARNING_OPERATORS.contains(&operator);
        self.uses_learning |= is_learning;
        ProtoWriter::new(&mut self.nodes).message(1, |out| {
            schema::node(out, operator, inputs, output, attributes);
            if is_learning {
                out.string(7, LEARNING_DOMAIN);
            }
        });
        output.to_owned()
    }

    /// Adds a constant tensor of floats.
    pub(crate) fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        self.tensor(name, ElementType::Float, shape, bytemuck::cast_slice(values));
    }

    /// Adds a constant list of whole numbers.
    pub(crate) fn ints(&mut self, name: &str, values: &[i64]) {
        self.tensor(name, ElementType::Int64, &[values.len()], bytemuck::cast_slice(values));
    }

    fn tensor(&mut self, name: &str, element: ElementType, shape: &[usize], bytes: &[u8]) {
        ProtoWriter::new(&mut self.tensors)
            .message(5, |out| schema::tensor(out, name, element, shape, bytes));
    }

    /// Declares an input.
    pub(crate) fn input(
        &mut self,
        name: &str,
        element: ElementType,
        shape: &[Dimension],
        about: &str,
    ) {
        ProtoWriter::new(&mut self.inputs)
            .message(11, |out| schema::value_info(out, name, element, shape, about));
    }

    /// Declares an output, which a node gives.
    pub(crate) fn output(&mut self, name: &str, element: ElementType, shape: &[Dimension]) {
        ProtoWriter::new(&mut self.outputs)
            .message(12, |out| schema::value_info(out, name, element, shape, ""));
    }

    /// The bytes of all constant tensors.
    pub(crate) fn tensor_bytes(&self) -> usize {
        self.tensors.len()
    }

    /// The whole file: a `ModelProto` of this graph with metadata.
    pub(crate) fn finish(self, name: &str, about: &str, metadata: &[(&str, String)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut model = ProtoWriter::new(&mut bytes);
        model.int64(1, IR_VERSION);
        model.string(2, "paceline");
        model.string(3, env!("CARGO_PKG_VERSION"));
        model.string(6, about);
        let mut graph = self.nodes;
        ProtoWriter::new(&mut graph).string(2, name);
        [self.tensors, self.inputs, self.outputs].iter().for_each(|part| graph.extend(part));
        model.bytes(7, &graph);
        model.message(8, |opset| {
            opset.string(1, "");
            opset.int64(2, OPSET);
        });
        if self.uses_learning {
            model.message(8, |opset| {
                opset.string(1, LEARNING_DOMAIN);
                opset.int64(2, LEARNING_OPSET);
            });
        }
        for (key, value) in metadata {
            model.message(14, |entry| {
                entry.string(1, key);
                entry.string(2, value);
            });
        }
        bytes
    }
}
