//! The `paceline` program: it turns a [job file](job) into a checked plan, gives the plan to the
//! engine, and leaves a run directory.

pub mod bench;
pub mod cli;
pub mod commands;
mod failure;
pub mod interrupt;
pub mod job;
pub mod join;
pub mod launch;
pub mod metrics;
pub mod progress;
pub mod source;
pub mod sweep;
pub mod table;
mod task;
mod task_context;
mod task_recorders;
pub mod train;
pub mod train_options;
pub mod watch;
mod workload;

pub use failure::Failure;
