//! The `paceline` program.
//!
//! It reads a job file (`paceline-job`), checks it, trains the model it describes with the engine
//! (`paceline-engine`), and leaves a run directory. It also runs sweeps, reports, the page that
//! shows runs, and benchmarks. To train from Rust code, use the library `paceline`; this crate is
//! the command line around it.
//!
//! Each command is a function of [`commands`]. This is what `paceline explain` prints:
//!
//! ```
//! let job = paceline_job::RawJob::built_in();
//! assert!(job.explain().contains("mode = \"async\""));
//! ```
//!
//! Entry points: [`cli`] is the command line, [`commands`] has one function per command,
//! [`train`] runs a plan in this process or as one task of many, and [`launch`] starts the tasks of
//! a run on this machine.

#[cfg(feature = "bench")]
pub mod bench;
#[cfg(feature = "bench")]
pub mod bench_args;
mod checkpoint_copies;
pub mod cli;
pub mod commands;
mod credentials;
pub mod data_args;
mod data_display;
pub mod deploy_args;
mod describe_model;
mod end_limit;
mod failure;
mod fetch_display;
pub mod help_text;
pub mod interrupt;
pub mod job_args;
pub mod join;
mod join_paths;
pub mod launch;
mod layer_table;
pub mod load_data;
pub mod metrics;
mod model_memory;
mod network_check;
mod placed;
pub mod predict_args;
pub mod progress;
mod run_files;
mod standard_input;
mod start_file;
mod stop_source;
pub mod sweep;
mod task;
mod task_context;
mod task_recorders;
mod test_hooks;
pub mod train;
pub mod train_options;
pub mod watch;
mod workload;

pub use failure::Failure;
