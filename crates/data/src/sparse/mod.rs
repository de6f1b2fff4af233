//! Sparse rows: examples of which only the features that are not zero are written down.
//!
//! Click models have millions of features, and a row has some dozens. Such data comes as
//! LIBSVM text (`libsvm`), as TFRecords (`example`) or as Criteo's logs (`criteo`), or is
//! made up (`clicks`). Training never reads any of it: on first use everything is streamed,
//! with bounded memory, into a binary `cache` of rows, and that is mapped from then on by
//! every process that wants it.
//!
//! ```text
//! files ── lines/records ── RowBuffer ── CacheWriter ──> cache file ── map ── SparseRows
//!            (stream)         (row)        (cache)                              (rows)
//! ```

mod buffer;
mod build;
mod cache;
mod click_files;
mod clicks;
mod criteo;
mod example;
mod files;
mod format;
mod libsvm;
mod limits;
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
pub use click_files::{write_clicks, write_clicks_file};
pub use clicks::{ClickRow, Clicks, FIELDS, FIRST_TEST_ROW, MIN_FEATURES};
pub use format::SparseFormat;
pub use limits::{MAX_FEATURES, MAX_LINE_BYTES, MAX_RECORD_BYTES, MAX_ROW_ENTRIES, MAX_ROWS};
pub use open::open_sparse;
pub use row::SparseRow;
pub use rows::SparseRows;
pub use spec::{IndexBase, SparseKind, SparseSpec};
pub use stream::{ReadCounts, ReadOptions, read_rows};
