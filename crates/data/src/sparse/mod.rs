//! Sparse rows: examples that store only the features that are not zero.
//!
//! Click models have millions of features, and a row has a few dozen. Such data comes as LIBSVM
//! text (`libsvm`), TFRecords (`example`), Criteo's logs (`criteo`) or from a generator
//! ([`Clicks`]). [`open_sparse`] streams it once, with bounded memory, into a binary cache file,
//! which every process maps from then on. Training reads only the cache. Rows that a program has
//! already go into memory with [`SparseRows::from_rows`].
//!
//! ```text
//! files ── lines, records ── RowBuffer ── CacheWriter ──> cache file ── map ── SparseRows
//!             (stream)         (row)        (cache)                    (row_store, rows)
//! ```
//!
//! ```
//! use paceline_data::{SparseBuffer, SparseRows};
//!
//! let rows = SparseRows::from_rows(100, [([3, 7], [0.5, 2.0], 1), ([1, 2], [1.0, 1.0], 0)])?;
//! let mut batch = SparseBuffer::default();
//! batch.fill(&rows, [1, 0].into_iter());
//! assert_eq!(batch.labels, [0, 1]);
//! assert_eq!((&batch.starts[..], &batch.keys[..]), (&[0, 2, 4][..], &[1, 2, 3, 7][..]));
//! # Ok::<(), paceline_data::DataError>(())
//! ```

mod buffer;
mod build;
mod cache;
mod clean;
mod click_files;
mod clicks;
mod criteo;
mod example;
mod files;
mod format;
mod held_rows;
mod libsvm;
mod limits;
mod line_parser;
mod lines;
mod number;
mod open;
mod row;
mod row_fault;
mod row_store;
mod rows;
mod spec;
mod stream;

pub use buffer::SparseBuffer;
pub use clean::{CacheRemoval, CachedRows};
pub use click_files::{write_clicks, write_clicks_file};
pub use clicks::{ClickRow, Clicks, FIELDS, FIRST_TEST_ROW, MIN_FEATURES};
pub use files::expand as expand_path;
pub use format::SparseFormat;
pub use limits::{MAX_FEATURES, MAX_LINE_BYTES, MAX_RECORD_BYTES, MAX_ROW_ENTRIES, MAX_ROWS};
pub use line_parser::{LineParser, ParsedRow};
pub use open::{is_row_cache, open_row_cache, open_sparse, row_cache_dir};
pub use row::SparseRow;
pub use rows::SparseRows;
pub use spec::{IndexBase, SparseKind, SparseSpec};
pub use stream::{ReadCounts, ReadOptions, read_rows};
