//! The arithmetic of factorization machines for one row: scores and gradients.
//!
//! A key's *entry* is a run of numbers: its linear weight first, then its vectors. The entry of a
//! factorization machine has one vector of *rank* numbers ([`FmShape`]); that of a field-aware one
//! has such a vector for each field of the other key of a pair ([`FfmShape`]). What the pairs of a
//! row's keys add to its score is the product of two vectors.
//!
//! All functions take the entries of a row in place ([`RowEntries`]), so that they serve a compact
//! slice as well as entries that were copied together. They allocate nothing. The order of
//! additions depends only on the number of keys and the shape, and no multiplication is fused with
//! an addition: equal inputs give equal bits on every processor.

mod dimension_blocks;
mod embedded;
mod ffm;
mod field_sums;
mod fm;
mod row_entries;

pub(crate) use embedded::{FieldRow, RowSlopes};
pub use ffm::FfmShape;
pub use fm::FmShape;
pub use row_entries::RowEntries;

#[cfg(test)]
mod tests;
