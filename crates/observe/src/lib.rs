//! What a run leaves to look at, and what it costs to look.
//!
//! Paceline's users ask three things: does it train, how fast, and what holds it back. The
//! answers come from here, and must not slow the training they speak of:
//!
//! - [`events`]: TensorBoard event files: scalars, [histograms](histogram), the model's
//!   [graph] and the run's [hyperparameters](hparams);
//! - [`phases`]: where a task's time went, to the nanosecond and without gaps;
//! - [`process`]: the processor time and memory of this process;
//! - [`sampler`]: what the task and its machine use, second by second (see [`resources`]);
//! - [`pace`]: who is slow;
//! - [`trace`]: a timeline of a few steps;
//! - [`verdict()`]: what holds the run back.
//!
//! ```no_run
//! use paceline_observe::{EventWriter, Phase, PhaseClock};
//!
//! let mut events = EventWriter::create("runs/digits/worker_0".as_ref())?;
//! let loss = events.tag("train/loss");
//! let mut clock = PhaseClock::start(Phase::Input);
//! for step in 0..1000 {
//!     clock.enter(Phase::Input);
//!     // … read a batch …
//!     clock.enter(Phase::Compute);
//!     // … take a step …
//!     events.scalar(&loss, step, 0.5)?;
//! }
//! println!("{:?}", clock.totals());
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod container;
pub mod events;
pub mod graph;
pub mod histogram;
pub mod hparams;
pub mod machine;
pub mod pace;
pub mod phases;
pub mod process;
pub mod resources;
pub mod sampler;
pub mod trace;
pub mod verdict;

mod event_file;
mod summary;

pub use events::{EventWriter, Tag};
pub use graph::GraphNode;
pub use histogram::Histogram;
pub use hparams::{Experiment, HParam, HParamDomain, HParamValue, Metric, SessionStatus};
pub use pace::{Pace, Rank, ranking};
pub use phases::{Clock, Phase, PhaseClock, PhaseTotals, Phases, Totals};
pub use resources::{COLUMNS, Gauges, Sample, Usage, columns};
pub use sampler::Sampler;
pub use verdict::{Facts, ServerFacts, Shares, Verdict, VerdictKind, WorkerFacts, verdict};
