//! The model's graph, for TensorBoard's Graphs tab.
//!
//! TensorBoard draws TensorFlow's `GraphDef`: a list of nodes that name their inputs. It groups
//! nodes by the slashes in their names, and labels edges with the shapes in the attribute
//! `_output_shapes`. Paceline's models are plain functions and the graph is only a picture of
//! them, so operations may have any name.

use paceline_model::OpNode;
use paceline_tfrecord::proto::ProtoWriter;

/// TensorFlow's version number of the `GraphDef`.
const PRODUCER: u64 = 22;

/// Encodes nodes as a `GraphDef`.
pub(super) fn encode(nodes: &[OpNode]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut graph = ProtoWriter::new(&mut bytes);
    for node in nodes {
        graph.message(1, |w| encode_node(w, node));
    }
    graph.message(4, |versions| versions.uint64(1, PRODUCER));
    bytes
}

fn encode_node(w: &mut ProtoWriter<'_>, node: &OpNode) {
    w.string(1, &node.name);
    w.string(2, node.op);
    for input in &node.inputs {
        w.string(3, input);
    }
    w.message(5, |attribute| {
        attribute.string(1, "_output_shapes");
        // An attribute's value holds a list, which holds shapes: one for each output.
        attribute.message(2, |value| {
            value.message(1, |list| list.message(7, |shape| encode_shape(shape, &node.shape)));
        });
    });
}

/// Encodes a `TensorShapeProto`.
pub(super) fn encode_shape(w: &mut ProtoWriter<'_>, sizes: &[i64]) {
    for &size in sizes {
        w.message(2, |dimension| dimension.int64(1, size));
    }
}
