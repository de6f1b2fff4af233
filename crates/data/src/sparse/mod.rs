//! Sparse rows: examples that store only the features that are not zero.
//!
//! Click models have millions of features, and a row has a few dozen. Such data comes as LIBSVM
//! text (`libsvm`), LIBFFM text (`libffm`), TFRecords (`example`), Criteo's logs (`criteo`) or from
//! a generator ([`Clicks`]). [`open_sparse`] streams it once, with bounded memory, into a binary
//! cache file, which every process maps from then on. Training reads only the cache. Rows that a
//! program has already go into memory with [`SparseRows::from_rows`].
//!
//! ```text
//! files ── blocks ── rows ── segments ── CacheWriter ──> cache file ── map ── SparseRows
//!        (blocks)  (stream) (segment)     (cache)                  (row_store, rows)
//!                  on several threads: (pipeline)
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

mod blocks;
mod buffer;
mod build;
mod cache;
mod class_rows;
mod clean;
mod click_files;
mod collected_rows;
mod criteo;
mod dense_rows;
mod example;
mod field_map;
mod files;
mod format;
mod held_rows;
mod key_order;
mod label_rule;
mod libffm;
mod libsvm;
mod limits;
mod line_parser;
mod number;
mod open;
mod pipeline;
mod row;
mod row_blocks;
mod row_classes;
mod row_fault;
mod row_reader;
mod row_store;
mod rows;
mod segment;
mod spec;
mod stream;

pub use buffer::SparseBuffer;
pub use clean::{CacheRemoval, CachedRows};
pub use click_files::{write_clicks, write_clicks_file};
pub use dense_rows::{DenseRows, MAX_DENSE_FEATURES};
pub use example::FeatureNames;
pub use field_map::FieldMap;
pub use files::{expand as source_files, identity as files_identity};
pub use format::SparseFormat;
pub use key_order::KeyOrder;
pub use label_rule::LabelRule;
pub use limits::{
    MAX_FEATURES, MAX_LINE_BYTES, MAX_RECORD_BYTES, MAX_ROW_ENTRIES, MAX_ROWS, MAX_SKIPPED_BYTES,
    endless_line,
};
pub use line_parser::{LineParser, ParsedRow};
pub use number::{float as parse_float, put_decimal};
pub use open::{open_row_cache, open_rows, open_sparse, row_cache_dir, row_cache_path};
pub use paceline_generate::{
    CLICK_FIELDS, ClickBounds, ClickRow, Clicks, FIRST_TEST_ROW, MIN_FEATURES,
};
pub use row::{SparseRow, StoredRow};
pub use row_reader::{RowBlock, RowBlockParser, RowBlocks, RowReader};
pub use rows::SparseRows;
pub use segment::KeyBuffer;
pub use spec::{IndexBase, SparseKind, SparseSpec};
pub use stream::{ReadCounts, ReadOptions, read_rows};
