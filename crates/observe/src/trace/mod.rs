//! A timeline in memory: what every thread of a task does in a few steps.
//!
//! While a worker makes the steps of a [`TraceWindow`], each thread of the task writes its
//! operations into a [`Track`] of its own, whose memory is allocated beforehand. A [`Tracer`] owns
//! the tracks of a task. The crate `paceline-record` writes them into a file and merges the files
//! of all tasks onto one clock.

mod tracer;
mod track;
mod window;

pub use tracer::{SideTrack, Tracer};
pub use track::{GradientEvent, Op, TraceMark, TraceSpan, Track, time_base_unix_ns};
pub use window::TraceWindow;

/// The name of the operation that sends a gradient. Arrows of a timeline begin there.
pub const PUSH: &str = "push";
/// The name of the operation that applies a gradient. Arrows of a timeline pass through it.
pub const APPLY: &str = "apply";
/// The name of the operation that gets parameters. Arrows of a timeline end there.
pub const PULL: &str = "pull";
