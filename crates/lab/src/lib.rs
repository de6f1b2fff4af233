//! Compares many training runs: sweeps, reports, and a page that shows runs live.
//!
//! ```
//! use std::fs;
//!
//! use paceline_lab::{ReportData, report};
//!
//! // Two run directories, as training leaves them.
//! let dir = tempfile::tempdir()?;
//! for (batch, seconds) in [(10, 9.0), (60, 3.0)] {
//!     let run = dir.path().join(format!("batch-{batch}"));
//!     fs::create_dir(&run)?;
//!     fs::write(run.join("job.toml"), format!("[train]\nbatch = {batch}\n"))?;
//!     let summary = format!(
//!         r#"{{"mode": "single", "batch": {batch}, "seconds": {seconds},
//!              "stop_reason": "test_loss"}}"#
//!     );
//!     fs::write(run.join("summary.json"), summary)?;
//! }
//!
//! let data = ReportData::read(dir.path())?;
//! assert_eq!(data.cells[1].label, "batch 60");
//! assert_eq!(data.cells[1].mean("seconds"), Some(3.0));
//! let text = report::markdown(&data);
//! assert!(text.contains("Fastest to the target is batch 60 with 3.00 s"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Training does not need this crate. It reads only the files of run directories, whose names and
//! contents `paceline-record` defines, and the [plan](sweep_plan) of a sweep.
//!
//! - A *sweep* makes many runs of one job with different settings. [`sweep_plan`] is its directory.
//! - A *cell* is a combination of settings; its runs differ only in their seeds ([`Cell`]).
//! - A *figure* is a number of a run that tables show and compare ([`Figure`]).
//! - A *finding* is a published conclusion to check against the runs ([`Finding`]).
//!
//! [`ReportData::read`] gathers the runs of a directory into cells. [`report`] writes them as HTML,
//! CSV and Markdown, and [`advice`] draws conclusions; both are pure functions of the data.
//! [`RunPage`] answers the requests of the page, which `paceline-http` serves.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod advice;
mod cell;
mod cell_line;
mod charts;
pub mod closing_table;
mod curve;
mod event_file;
mod event_folders;
mod figure;
mod finding;
mod finding_check;
mod job_keys;
mod link_prediction;
mod machine_info;
mod palette;
mod regular_file;
pub mod report;
mod report_data;
mod resources;
mod run;
mod sparse_curves;
mod stats;
mod svg;
pub mod sweep_plan;
mod watch;
mod workload;

pub use advice::advice;
pub use cell::{Cell, in_table_order};
pub use curve::Curve;
pub use figure::{FIGURES, Figure, figure_names, is_figure};
pub use finding::{CellSettings, Finding, FindingCheck, Trend};
pub use finding_check::{CheckResult, CheckedFinding, check_finding, check_findings};
pub use link_prediction::LinkPrediction;
pub use machine_info::MachineInfo;
pub use report_data::{ReportData, RunFailure};
pub use resources::ResourceCurve;
pub use run::Run;
pub use stats::Spread;
pub use watch::RunPage;
