//! What a training run leaves behind: its directory, the names of files and TensorBoard tags, the
//! summary, event files, resource samples, the timeline and the model file.
//!
//! ```
//! use paceline_observe::{Phase, PhaseClock, Recorder, RunStart, StepRecord};
//! use paceline_record::{EventLog, EventLogConfig, RunDir};
//!
//! # let scratch = tempfile::tempdir()?;
//! # let path = scratch.path().join("digits");
//! let run = RunDir::create(&path)?.with_task("worker:0")?;
//! let mut log = EventLog::create(&run.task("worker:0"), EventLogConfig::new("worker:0"))?;
//! log.start(RunStart::New)?;
//! let clock = PhaseClock::start(Phase::Compute);
//! for step in 0..100 {
//!     log.step(&StepRecord::new(step, 1.0 / (1 + step) as f32, &clock))?;
//! }
//! log.finish(true)?;
//! assert!(run.path().join("worker_0/resources.csv").is_file());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Words
//!
//! - A *run* is one training; its [`RunDir`] belongs to it alone. A run that is resumed has several
//!   *sessions*.
//! - A *task* is a process of the run, such as `worker:0` or `ps:0`. It has a folder in the run
//!   directory.
//! - An [`EventLog`] is the [`Recorder`](paceline_observe::Recorder) of a worker or an evaluator, a
//!   [`ServerEventLog`] that of a server. Both write TensorBoard event files, `resources.csv` and
//!   the task's part of the timeline.
//! - The [`Summary`] is what the coordinator writes last; a [`StoredSummary`] is one read from a
//!   file of any version.
//! - [`names`] has the names of all files, folders and tags.
//!
//! The crate does not know how training works: everything it writes is passed to it.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod events;
mod model_digest;
pub mod model_file;
pub mod names;
pub mod timeline;

mod byte_budget;
mod error;
mod event_log;
mod hex_digest;
mod layer_description;
mod library_job;
mod line_writer;
mod loss_curve;
mod merged_samples;
mod model_description;
mod model_reader;
mod phase_curves;
mod resource_curves;
mod resource_table;
mod run_dir;
mod server_event_log;
mod summary;
mod table_curves;
mod task_log;
mod telemetry;
mod tensor_curves;
mod test_curves;
mod utc_time;
mod whole_file;
mod worker_curves;

pub use error::RunFileError;
pub use event_log::{EventLog, EventLogConfig, RunDescription};
pub use events::EventWriter;
pub use layer_description::{DescribedKind, LayerDescription};
pub use library_job::LibraryJob;
pub use model_description::{
    DESCRIPTION_VERSION, InputDescription, InputKind, ModelDescription, ModelForm, RecordElements,
    RowNames,
};
pub use model_digest::check_model_digest;
pub use model_reader::{ModelReader, StoredTensor};
pub use paceline_observe::{ResourceUse, Summary, TaskSummary, WorkerTiming};
pub use resource_curves::SampleSpacing;
pub use resource_table::ResourceTable;
pub use run_dir::RunDir;
pub use server_event_log::{ServerEventLog, ServerLogConfig};
pub use summary::{StoredSummary, read_summary, write_summary};
pub use task_log::{TaskLog, flush_lines, write_line, write_line_after};
pub use telemetry::Notice;
pub use utc_time::UtcTime;
pub use whole_file::{unfinished_files, write_secret, write_whole};
