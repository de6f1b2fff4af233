//! The cache of rows: one file with all rows of a job's files, ready to be mapped.
//!
//! ```text
//! header (128 bytes) | keys | values | starts | labels | identity
//! ```
//!
//! Keys have 32 bits, values are floats (absent if all are 1), starts have 64 bits (the index in
//! the keys at which each row begins, and after the last row the number of keys), and labels have
//! one byte. Every section begins at a multiple of 64 bytes, so it can be used in place. Everything
//! is little endian. The identity is text: the kind, the options and the source files of the rows;
//! if it differs from that of the job, the cache is stale. Header and sections have checksums,
//! which are all checked before a row is used. docs/formats.md has the table.

mod header;
mod map;
mod write;

pub(crate) use map::{UnusableCache, has_magic, identity_of, open};
pub(crate) use write::CacheWriter;

// Slices of the file are cast to slices of numbers.
const _: () = assert!(cfg!(target_endian = "little"), "cached rows are little endian");
