//! What many runs say together.
//!
//! Training leaves run directories. This crate reads them and turns them into reports that people
//! can read and cite, and into a page that shows runs while they train. Training does not need it.
//! It reads only the files of the run directories and the [plan](sweep_plan) of a sweep.
//!
//! [`ReportData::read`] gathers the runs of a directory into [cells](Cell), and [`report`] writes
//! them as HTML, CSV and Markdown. Everything after reading is a pure function of the data.
//! [`RunPage`] answers the requests of the page.

mod advice;
mod cell;
mod charts;
mod curve;
mod events;
mod figure;
mod finding;
mod finding_check;
mod link_prediction;
mod machine_info;
pub mod report;
mod report_data;
mod resources;
mod run;
mod stats;
mod summary;
mod svg;
pub mod sweep_plan;
mod watch;

pub use advice::advice;
pub use cell::Cell;
pub use curve::Curve;
pub use figure::{FIGURES, Figure, figure_names, is_figure};
pub use finding::{CellSettings, Finding, FindingCheck, Trend};
pub use finding_check::{CheckResult, check_finding, check_findings};
pub use link_prediction::LinkPrediction;
pub use machine_info::MachineInfo;
pub use report_data::{ReportData, RunFailure};
pub use run::Run;
pub use stats::Spread;
pub use summary::{Summary, TaskSummary};
pub use watch::RunPage;
