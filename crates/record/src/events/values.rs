//! The messages within an event: `Summary` values and their metadata.
//!
//! TensorBoard's plugins find their data by the metadata of a tag's first value: the name of the
//! plugin and the class of the data. Every value is a small tensor. The numbers below are the
//! fields of TensorFlow's `Event`, `Summary` and `TensorProto`.

use paceline_tfrecord::proto::ProtoWriter;

use super::graph::encode_shape;
use super::histogram::Histogram;

/// `Event.summary`, the field that holds the values.
const EVENT_SUMMARY: u32 = 5;

/// TensorFlow's numbers of element types.
const DT_FLOAT: u64 = 1;
const DT_DOUBLE: u64 = 2;

/// How TensorBoard stores the values of a tag.
enum DataClass {
    Scalar = 1,
    Tensor = 2,
}

/// A scalar's event without the time and step, which come first, and without the 4 bytes of the
/// value, which come last.
///
/// All lengths in it are fixed, so it is encoded once for a tag and then only copied.
pub(super) fn scalar_prefix(tag: &str, describe: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    value(&mut ProtoWriter::new(&mut bytes), tag, |value| {
        if describe {
            metadata(value, "scalars", tag, DataClass::Scalar, &[]);
        }
        value.message(8, |tensor| {
            tensor.uint64(1, DT_FLOAT);
            tensor.message(2, |_no_dimensions| {});
            tensor.packed_floats(5, &[0.0]);
        });
    });
    bytes.truncate(bytes.len() - size_of::<f32>());
    bytes
}

/// Encodes a histogram as a tensor with a row for each bucket: left edge, right edge, count.
pub(super) fn histogram(w: &mut ProtoWriter<'_>, tag: &str, histogram: &Histogram, describe: bool) {
    let rows: Vec<f64> = histogram.rows().flatten().collect();
    value(w, tag, |value| {
        if describe {
            metadata(value, "histograms", tag, DataClass::Tensor, &[]);
        }
        value.message(8, |tensor| {
            tensor.uint64(1, DT_DOUBLE);
            tensor.message(2, |shape| encode_shape(shape, &[rows.len() as i64 / 3, 3]));
            tensor.packed_doubles(6, &rows);
        });
    });
}

/// Encodes a message of the HParams plugin: the metadata's content, with an empty tensor.
pub(super) fn hparams(w: &mut ProtoWriter<'_>, tag: &str, content: &[u8]) {
    value(w, tag, |value| {
        metadata(value, "hparams", "", DataClass::Tensor, content);
        value.message(8, |tensor| {
            tensor.uint64(1, DT_FLOAT);
            tensor.message(2, |shape| encode_shape(shape, &[0]));
        });
    });
}

/// Encodes a summary of one value of this tag.
fn value(event: &mut ProtoWriter<'_>, tag: &str, encode: impl FnOnce(&mut ProtoWriter<'_>)) {
    event.message(EVENT_SUMMARY, |summary| {
        summary.message(1, |value| {
            value.string(1, tag);
            encode(value);
        });
    });
}

fn metadata(
    value: &mut ProtoWriter<'_>,
    plugin: &str,
    display_name: &str,
    data_class: DataClass,
    content: &[u8],
) {
    value.message(9, |metadata| {
        metadata.message(1, |plugin_data| {
            plugin_data.string(1, plugin);
            plugin_data.bytes(2, content);
        });
        metadata.string(2, display_name);
        metadata.uint64(4, data_class as u64);
    });
}
