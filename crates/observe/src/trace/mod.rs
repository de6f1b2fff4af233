//! A timeline: what every thread of every task did in a few steps, on one clock.
//!
//! While the steps of a [`Window`] are made, each thread writes what it does into a [`Track`] of
//! its own, whose memory was set aside before. At the end a task's tracks are its [`Part`], a file
//! in its folder. Parts know only their own clocks; [`merge`](Merged::of) brings them onto that of
//! the first by the gradients and answers that went between the tasks while they were recorded,
//! and writes a file that Perfetto and `chrome://tracing` open.

mod chrome;
mod clocks;
mod part;
mod table;
mod track;

pub use chrome::Merged;
pub use clocks::Aligned;
pub use part::{Counter, Part, ThreadPart};
pub use table::{Row, rows};
pub use track::{Happened, Mark, Op, Span, Track, time_base_unix_ns};

/// The steps of a worker's plan that a timeline tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first.
    pub from: u64,
    /// How many.
    pub steps: u64,
}

impl Window {
    /// Whether a step is one of them.
    pub fn contains(&self, step: u64) -> bool {
        step >= self.from && !self.is_before(step)
    }

    /// Whether all of them come before a step.
    pub fn is_before(&self, step: u64) -> bool {
        step >= self.from.saturating_add(self.steps)
    }
}

/// The operations that arrows go between, by name.
pub const PUSH: &str = "push";
/// See [`PUSH`].
pub const APPLY: &str = "apply";
/// See [`PUSH`].
pub const PULL: &str = "pull";

#[cfg(test)]
mod tests;
