//! The interface of readers of rows that other crates implement.

use std::io::Read;
use std::path::Path;

use super::row::SparseRow;
use super::stream::ReadCounts;
use crate::error::DataError;

/// Reads files of rows in a format of its own. [`open_rows`](super::open_rows) caches what it
/// reads.
pub trait RowReader {
    /// The settings that the rows depend on beside the files, a line for each. They name the cache.
    fn options(&self) -> String;

    /// What else the rows depend on, a line for each: a cache with another identity is stale.
    fn identity(&self) -> String;

    /// Reads a file to its end and calls `take` with each row: rising keys, finite values and a
    /// label of at most 255. `content` is the file unpacked; it counts progress and ends early with
    /// an error when the program wants to stop.
    ///
    /// # Errors
    /// If the file or a row cannot be read, or `take` fails.
    fn read(
        &self,
        file: &Path,
        content: &mut dyn Read,
        take: &mut dyn FnMut(SparseRow<'_>) -> Result<(), DataError>,
    ) -> Result<ReadCounts, DataError>;
}
