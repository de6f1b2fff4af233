//! What a task and its machine use, as samples: the figures of one interval each.
//!
//! The columns are those of dstat, followed by the task's own. Every sample has its figures in the
//! order of [`columns`], so the table on disk, the means and peaks, and TensorBoard's curves have
//! the same names.

mod columns;
mod gauges;
mod meter;
mod usage;

pub use columns::{COLUMNS, column, columns};
pub use gauges::Gauges;
pub use meter::Sample;
pub(crate) use meter::{Meter, TimedSample};
pub use usage::Usage;
