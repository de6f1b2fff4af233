//! TensorBoard event files: scalars, histograms, a model's graph and a run's hyper-parameters.

mod file;
mod graph;
mod histogram;
mod hparams;
mod values;
mod writer;

pub use histogram::Histogram;
pub use hparams::{HParam, HParamValue, SessionStatus};
pub use writer::{EventWriter, FLUSH_EVERY, Tag};
