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
mod clicks;
mod criteo;
mod example;
mod fault;
mod files;
mod libsvm;
mod limits;
mod lines;
mod make;
mod number;
mod open;
mod row;
mod rows;
mod spec;
mod stream;

pub use buffer::SparseBuffer;
pub use clicks::{ClickRow, Clicks, FIELDS, MIN_FEATURES, TEST_ROWS_FROM};
pub use limits::{MAX_FEATURES, MAX_LINE_BYTES, MAX_RECORD_BYTES, MAX_ROW_ENTRIES, MAX_ROWS};
pub use make::{RowFormat, make_clicks, write_clicks};
pub use open::open_sparse;
pub use row::SparseRow;
pub use rows::{SparseRows, SparseSet};
pub use spec::{IndexBase, SparseKind, SparseSpec};
pub use stream::{ReadOptions, Tally, read_rows};
