//! TFRecord files and the protobuf bytes inside them.
//!
//! Two of Paceline's rooms meet TensorFlow's formats: `observe` writes TensorBoard event
//! files, and `data` reads training examples. Both are the same two layers, and this crate
//! is those layers and nothing above them:
//!
//! - [`record`]: records of known length, each guarded by two checksums ([`crc`]);
//! - [`proto`]: the protobuf wire format, written and read field by field.
//!
//! Everything here treats its input as hostile: a length is bounded before it is believed,
//! and broken bytes are an error that says where, never a panic.

pub mod crc;
pub mod proto;
pub mod record;

pub use record::{
    RecordError, RecordErrorKind, RecordReader, SplitRecord, append_record, split_record,
    write_record,
};
