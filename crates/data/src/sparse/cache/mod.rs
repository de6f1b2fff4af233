//! The cache of rows: one file that holds everything a job's files say, ready to be mapped.
//!
//! ```text
//! header (128 bytes) | keys | values | starts | labels | identity
//! ```
//!
//! Keys are 32 bits each, values floats (none at all if every one is 1), starts 64 bits (where
//! each row begins in the keys, and at last where they end), labels a byte. Every section
//! begins at a multiple of 64 bytes, so that it can be used where it is mapped. All is little
//! endian. The identity is text: the kind, the options and the sources that the rows came
//! from; if that is not what is asked for now, the cache is stale. Header and sections have
//! checksums, all of which are checked before a row is believed. docs/formats.md has the table.

mod header;
mod map;
mod write;

pub(crate) use map::{UnusableCache, open};
pub(crate) use write::CacheWriter;

// Slices of the file are used as slices of numbers.
const _: () = assert!(cfg!(target_endian = "little"), "cached rows are little endian");
