//! Tables for training: CSV, TSV and Parquet files, and the featuriser that turns a row into
//! numbers.
//!
//! ```
//! use paceline_data::OpenReport;
//! use paceline_table::{TableSpec, open_table};
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("people.csv");
//! std::fs::write(&path, "age,city,buys\n39,Paris,no\n50,Rome,yes\n38,Paris,yes\n").unwrap();
//! let spec = TableSpec { cache_dir: Some(dir.path().into()), ..TableSpec::at(&path) };
//! let table = open_table(&spec, &mut |_: OpenReport<'_>| std::ops::ControlFlow::Continue(()))?;
//! assert_eq!(table.featurizer.label(), Some("buys"));
//! // A missing age, the age, a missing city, another city, Paris, Rome.
//! assert_eq!((table.rows.train.len(), table.featurizer.features()), (3, 6));
//! assert_eq!(table.rows.train.row(1).keys, [1, 5]);
//! # Ok::<(), paceline_data::DataError>(())
//! ```
//!
//! A table is read in three steps. The first rows decide how its text is written and, where the
//! job does not say so, how each column is used. All training rows are then read for what that
//! needs: the scale of a number, the vocabulary of a category, the classes of the label. The result
//! is a [`Featurizer`]. With it, the rows are read once more, on all cores, into the row cache of
//! `paceline-data`. Sparse models train on these rows; dense models see the same rows as vectors
//! ([`TableExamples`]).
//!
//! ```text
//! file ── blocks ── records ── RowEncoder (Featurizer) ── TableReader ──> row cache
//!        (blocks)  (records)   (encoder)                 (table_reader)
//! ```
//!
//! Every row passes through [`RowEncoder::encode`], in training, tests and predictions alike. The
//! crate knows neither models nor jobs.

#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod blocks;
mod byte_scan;
mod column;
mod column_error;
mod column_names;
mod describe;
mod encoded_row;
mod encoder;
mod featurizer;
mod field_fault;
mod fit;
mod format_choice;
mod hash;
mod infer;
mod label;
mod list_field;
mod match_features;
mod missing;
mod number;
mod open;
#[cfg(feature = "parquet")]
mod parquet_cell;
#[cfg(feature = "parquet")]
mod parquet_lengths;
#[cfg(feature = "parquet")]
mod parquet_pages;
#[cfg(feature = "parquet")]
mod parquet_text;
mod records;
mod sample;
mod stats;
mod table_examples;
mod table_file;
mod table_reader;
mod table_text;
mod text_format;
#[cfg(feature = "parquet")]
mod thrift;
mod word_table;
mod words;

pub use column::{
    CategoryCodes, CodeChoice, Column, ColumnChoice, ColumnRole, ColumnSpec, HASH_BITS,
    NumberScale, ScaleChoice,
};
pub use column_names::column_names;
pub use describe::{describe_stream, describe_table};
pub use encoded_row::EncodedRow;
pub use encoder::RowEncoder;
pub use featurizer::{Cross, FEATURIZER_KIND, FEATURIZER_VERSION, Featurizer};
pub use field_fault::FieldFault;
pub use format_choice::FormatChoice;
pub use match_features::MatchedFeatures;
pub use number::NumberFault;
pub use open::{OpenTable, SampledLabel, TableSpec, open_table, sample_label, table_featurizer};
pub use records::{RecordEnd, RecordFields, Records, first_record_end, last_record_end};
pub use table_examples::TableExamples;
pub use table_file::{is_parquet_file, open_table_stream};
pub use text_format::TextFormat;
