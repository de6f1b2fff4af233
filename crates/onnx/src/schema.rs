//! The messages of ONNX that an exported model needs, by the field numbers of `onnx.proto`.

use paceline_tfrecord::proto::ProtoWriter;

/// The version of the format: that of ONNX 1.12, which every current runtime reads.
pub(crate) const IR_VERSION: i64 = 8;
/// The version of the operators: the first in which values are added up where keys are equal.
pub(crate) const OPSET: i64 = 16;
/// The domain of operators for vocabularies, and its version.
pub(crate) const LEARNING_DOMAIN: &str = "ai.onnx.ml";
/// The operators of that domain that graphs here have.
pub(crate) const LEARNING_OPERATORS: [&str; 1] = ["LabelEncoder"];
pub(crate) const LEARNING_OPSET: i64 = 2;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementType {
    Float = 1,
    Uint8 = 2,
    Int64 = 7,
    String = 8,
}

/// One dimension of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dimension {
    Size(usize),
    /// Any size, with a name.
    Named(&'static str),
}

/// An attribute of a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Attribute {
    Int(i64),
    Ints(Vec<i64>),
    Text(String),
    Texts(Vec<String>),
}

/// Writes a `NodeProto`.
pub(crate) fn node(
    out: &mut ProtoWriter<'_>,
    operator: &str,
    inputs: &[&str],
    output: &str,
    attributes: &[(&str, Attribute)],
) {
    inputs.iter().for_each(|input| out.string(1, input));
    out.string(2, output);
    out.string(3, output);
    out.string(4, operator);
    for (name, attribute) in attributes {
        out.message(5, |message| {
            message.string(1, name);
            match attribute {
                Attribute::Int(value) => {
                    message.int64(3, *value);
                    message.uint64(20, 2);
                }
                Attribute::Ints(values) => {
                    values.iter().for_each(|value| message.int64(8, *value));
                    message.uint64(20, 7);
                }
                Attribute::Text(value) => {
                    message.string(4, value);
                    message.uint64(20, 3);
                }
                Attribute::Texts(values) => {
                    values.iter().for_each(|value| message.bytes(9, value.as_bytes()));
                    message.uint64(20, 8);
                }
            }
        });
    }
}

/// Writes a `TensorProto` whose elements are these little-endian bytes.
pub(crate) fn tensor(
    out: &mut ProtoWriter<'_>,
    name: &str,
    element: ElementType,
    shape: &[usize],
    bytes: &[u8],
) {
    shape.iter().for_each(|&size| out.int64(1, size as i64));
    out.uint64(2, element as u64);
    out.string(8, name);
    out.bytes(9, bytes);
}

/// Writes a `ValueInfoProto`: the name, type and shape of an input or output.
pub(crate) fn value_info(
    out: &mut ProtoWriter<'_>,
    name: &str,
    element: ElementType,
    shape: &[Dimension],
    about: &str,
) {
    out.string(1, name);
    out.message(2, |kind| {
        kind.message(1, |tensor| {
            tensor.uint64(1, element as u64);
            tensor.message(2, |dimensions| {
                for dimension in shape {
                    dimensions.message(1, |message| match dimension {
                        Dimension::Size(size) => message.int64(1, *size as i64),
                        Dimension::Named(name) => message.string(2, name),
                    });
                }
            });
        });
    });
    if !about.is_empty() {
        out.string(3, about);
    }
}
