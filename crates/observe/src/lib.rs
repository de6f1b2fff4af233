//! Measures where a training run spends its time, in memory and without slowing it.
//!
//! Users ask three things of a run: does it train, how fast, and what limits it. This crate
//! measures the answers; the crate `paceline-record` writes them into files.
//!
//! - [`phases`]: a clock that attributes every nanosecond of a task to one phase;
//! - [`process`], [`machine`], [`container`]: what this process and its machine use now;
//! - [`run_delay`]: how long a thread was ready to run but had no core;
//! - [`sampler`]: a thread that samples all of these (see [`resources`]);
//! - [`pace`]: which workers are slow;
//! - [`DivergenceCheck`]: whether the loss rises far above where it started;
//! - [`trace`]: a timeline of a few steps;
//! - [`verdict()`]: what limits the run, and [`judge`], which gathers the facts at its end;
//! - [`recorder`]: the trait through which a training loop reports all of this.
//!
//! ```
//! use paceline_observe::{Phase, PhaseClock};
//!
//! let mut clock = PhaseClock::start(Phase::Input);
//! for _step in 0..1000 {
//!     clock.enter(Phase::Input);
//!     // … read a batch …
//!     clock.enter(Phase::Compute);
//!     // … compute a gradient …
//! }
//! let totals = clock.totals();
//! assert_eq!(totals.of(Phase::Input) + totals.of(Phase::Compute), totals.elapsed());
//! ```
//!
//! # Words
//!
//! - A *task* is a process of a run: a worker, a server or an evaluator. Worker 0 is also the
//!   *coordinator*: it tests, stops the run and writes the summary.
//! - A *phase* is what a task does at a moment; a task is in exactly one.
//! - A *sample* is what a task and its machine used over one interval.
//! - A worker is *behind* if its time to a gradient exceeds the median of the others by
//!   [`pace::BEHIND`].
//! - The *staleness* of a gradient is the number of updates between the parameters that it was
//!   computed with and those that it is applied to.
//! - The *run delay* of a thread is the time in which it is ready to run but has no core.
//! - The *verdict* names what limits a run: compute, input, network, server, stragglers, evaluation
//!   or cores; of a run of less than a second it says that it is too short to judge.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod container;
pub mod machine;
pub mod metrics;
pub mod pace;
pub mod phases;
pub mod process;
pub mod recorder;
pub mod resources;
pub mod role;
pub mod run_delay;
pub mod run_summary;
pub mod run_verdict;
pub mod sampler;
pub mod server_recorder;
pub mod task_summary;
pub mod trace;
pub mod verdict;

mod best_settings;
mod bit_rate;
mod compute_delay;
mod divergence;
mod global_batch;
mod look_pacer;
mod mode_kind;
mod phase_color;
mod stop_reason;
mod tensor_record;
mod test_pacer;
mod touched_keys;
mod wall_clock;

pub use best_settings::{BestSettings, Patience, TestMetric};
pub use bit_rate::parse_bit_rate;
pub use compute_delay::ComputeDelay;
pub use divergence::{Divergence, DivergenceCheck};
pub use global_batch::{BatchSize, JobBatches, examples_per_step};
pub use look_pacer::LookPacer;
pub use mode_kind::ModeKind;
pub use pace::{GradientTime, Pace, Rank, SlotGradients, ranking};
pub use phase_color::{PHASE_COLORS, PhaseColor, phase_color};
pub use phases::{Clock, Phase, PhaseClock, PhaseTotals, Phases, Totals};
pub use recorder::{
    PeerTraffic, ProgressReport, Recorder, RunPosition, RunStart, StepRecord, TestRecord,
    TraceEvent, VisitTraffic, no_table, no_traffic,
};
pub use resources::{COLUMNS, Gauges, Sample, Usage, column, columns};
pub use run_delay::RunDelay;
pub use run_summary::{BestTest, StopTest, Summary};
pub use run_verdict::{RunVerdict, judge};
pub use sampler::Sampler;
pub use server_recorder::{GradientTotals, ServerRecorder, StalenessCounts, WorkerTotals};
pub use stop_reason::StopReason;
pub use task_summary::{ResourceUse, TaskSummary, WorkerTiming, merge_reports};
pub use tensor_record::{TensorKind, TensorRecord, TensorValues};
pub use test_pacer::{LoopProgress, TestLoad, TestPacer, pause_after};
pub use touched_keys::{TableUse, TouchedKeys};
pub use verdict::{Facts, ServerFacts, Shares, Verdict, VerdictKind, WorkerFacts, verdict};
pub use wall_clock::{short_seconds, unix_seconds};
