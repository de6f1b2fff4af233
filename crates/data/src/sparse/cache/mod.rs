//! The cache of rows: one file with all rows of a job's files, ready to be mapped.
//!
//! ```text
//! header (128 bytes) | identity | popular keys | segment | segment | …
//! ```
//!
//! The identity is text: the kind, the options and the source files of the rows; if it differs from
//! that of the job, the cache is stale. A segment has the rows of one block of input, with their
//! keys in few bits (`segment`). Everything begins at a multiple of 64 bytes and is little endian.
//! Header, identity and segments have checksums, which are all checked before a row is used.
//! docs/formats.md has the tables.

mod header;
mod map;
mod prefix;
mod write;

pub(crate) use map::{UnusableCache, has_magic, identity_of, open};
pub(crate) use write::CacheWriter;

// Slices of the file are cast to slices of numbers.
const _: () = assert!(cfg!(target_endian = "little"), "cached rows are little endian");
