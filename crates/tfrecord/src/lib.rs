//! TFRecord files and the protobuf wire format inside them.
//!
//! TensorFlow stores training examples and TensorBoard events as protobuf messages in TFRecord
//! files. This crate reads and writes both layers without a schema compiler and without a runtime:
//!
//! ```
//! use paceline_tfrecord::proto::{ProtoFields, ProtoWriter};
//! use paceline_tfrecord::{RecordReader, append_record};
//!
//! // A file with one record: an event of step 300 with the file version in field 3.
//! let mut file = Vec::new();
//! append_record(&mut file, |record| {
//!     let mut event = ProtoWriter::new(record);
//!     event.uint64(2, 300);
//!     event.string(3, "brain.Event:2");
//! });
//!
//! // Read it back, field by field.
//! let (mut reader, mut record) = (RecordReader::new(&file[..]), Vec::new());
//! assert!(reader.next(&mut record)?);
//! let mut fields = ProtoFields::new(&record);
//! let (number, step) = fields.next().unwrap()?;
//! assert_eq!((number, step.as_uint64()), (2, Some(300)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`record`]: a *record* is a length and that many bytes, each guarded by a checksum ([`crc`]).
//! - [`proto`]: a *message* is a list of *fields*, each a number and a value.
//!
//! All input is treated as hostile: a length is checked against a limit before memory is taken for
//! it, and damaged bytes are an error that says where, never a panic. The crate does not know what
//! records mean.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod crc;
pub mod proto;
pub mod record;

pub use record::{
    RecordError, RecordErrorKind, RecordReader, SplitRecord, append_record, record_len,
    split_record, write_record,
};
