//! From the keys of a batch to the compact slice that a sparse model sees.
//!
//! A batch of a sparse model touches a few thousand of many million parameters, the popular
//! ones many times over. Its keys are sorted and made unique once; after that the parameters
//! are read, their gradient is summed and pushed in that compact form, and each value of the
//! batch knows its place in it. The result depends on the keys alone.

mod compactor;
mod first_seen;
mod row_layout;

pub use compactor::Compactor;
pub use row_layout::RowLayout;
