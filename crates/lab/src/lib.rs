//! What many runs say together.
//!
//! Training leaves run directories; this crate reads them again and makes of them what a person
//! can read and cite. It is not needed for training, and knows nothing of how it is done: all it
//! has is `summary.json`, `job.toml` and the TensorBoard events of each run, and the [plan] of
//! the sweep that they belong to, if they do.
//!
//! From a directory to a page: [`Findings::read`] gathers the runs into [cells](cell),
//! [`charts`] and [`advice`] look at them, and [`report`] writes it down as HTML, CSV and
//! Markdown. Everything after reading is a pure function of the findings.

pub mod advice;
pub mod cell;
pub mod charts;
pub mod claim;
mod events;
mod figure;
mod findings;
mod links;
mod machine;
pub mod plan;
pub mod report;
mod resources;
mod run;
mod stats;
mod summary;
pub mod svg;
pub mod watch;

pub use figure::{FIGURES, Figure, figure_names, is_figure};
pub use findings::Findings;
pub use links::Prediction;
pub use machine::Machine;
pub use run::{Curve, Run};
pub use stats::Spread;
pub use summary::{Summary, Task};
pub use watch::Watch;
