//! Timeline files: what each task recorded, and all of it on one clock.
//!
//! A task writes its tracks as a [`TaskTrace`] into its folder. Task traces know only their own
//! clocks; [`merge_traces`] aligns them with the first by the gradients and replies that the tasks
//! exchanged while they recorded, and writes a file that Perfetto and `chrome://tracing` open.

mod arrows;
mod chrome;
mod clocks;
mod merge;
mod table;
mod task_trace;

pub use merge::{MergeReport, finish_timeline, merge_traces};
pub use table::{TableRow, operation_table};
pub use task_trace::{Counter, TaskTrace, ThreadTrace};

#[cfg(test)]
mod tests;
