//! The interface of readers of rows that other crates implement.

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::field_map::FieldMap;
use super::row::SparseRow;
use crate::error::DataError;

/// Reads files of rows in a format of its own. [`open_rows`](super::open_rows) caches what it
/// reads.
pub trait RowReader {
    /// The settings that the rows depend on besides the files, one a line. They name the cache.
    fn options(&self) -> String;

    /// What else the rows depend on, a line for each: a cache with another identity is stale.
    fn identity(&self) -> String;

    /// The fields of keys; empty if rows have none.
    fn fields(&self) -> FieldMap {
        FieldMap::default()
    }

    /// Opens a file. `content` is the file unpacked; it counts progress and ends early with an
    /// error when the program wants to stop.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn open<'s>(
        &'s self,
        file: &'s Path,
        content: &'s mut dyn Read,
    ) -> Result<Box<dyn RowBlocks + 's>, DataError>;
}

/// The blocks of an open file.
pub trait RowBlocks {
    /// Replaces `block` with the next one; false at the end. Where blocks end depends on the
    /// file's content alone.
    ///
    /// # Errors
    /// If the file cannot be read. What is wrong with rows is for the block's parser to say.
    fn next(&mut self, block: &mut RowBlock) -> Result<bool, DataError>;
}

/// Some rows of a file that are not parsed yet; its memory is used again from block to block.
#[derive(Default)]
pub struct RowBlock {
    /// Memory for the text.
    pub bytes: Vec<u8>,
    /// The part of the bytes that is the text.
    pub text: Range<usize>,
    /// The number of the block's first line, or row; from 1.
    pub first: u64,
    /// The bytes of the file's content up to the end of the block.
    pub end_offset: u64,
    /// Parses the text.
    pub parser: Option<Arc<dyn RowBlockParser>>,
}

/// Parses blocks, on any thread.
pub trait RowBlockParser: Send + Sync {
    /// Calls `take` with each row of a block: rising keys, finite values and a label of at most
    /// 255. Returns the number of bad rows that were skipped.
    ///
    /// # Errors
    /// If a row is bad and must not be skipped.
    fn parse(
        &self,
        block: &RowBlock,
        take: &mut dyn FnMut(SparseRow<'_>),
    ) -> Result<u64, DataError>;
}
