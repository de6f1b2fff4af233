//! How a server reports what it does, without knowing where it goes: the server's half of the
//! [`Recorder`](crate::Recorder) of a training loop.

use std::io;

use crate::recorder::{PeerTraffic, TraceEvent};
use crate::task_summary::ResourceUse;
use crate::touched_keys::TableUse;

/// Receives what happens in a server, as a [`Recorder`](crate::Recorder) receives what happens in a
/// training loop. Every method has an empty default body; `()` records nothing.
pub trait ServerRecorder: Send {
    /// All workers are there, and training starts.
    fn start(&mut self) {}

    /// The bytes exchanged with a worker so far.
    fn traffic(&mut self, _traffic: PeerTraffic) {}

    /// Called at short intervals while the server runs. `totals` returns what the server has seen
    /// of the gradients so far; it is called only if the recorder has something to write.
    fn poll(&mut self, _global_step: u64, _totals: &dyn Fn() -> GradientTotals) -> io::Result<()> {
        Ok(())
    }

    /// The timeline of this server started, stopped or is complete.
    fn trace(&mut self, _event: TraceEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// What the server and its machine used since [`start`](Self::start), if the recorder measures
    /// it.
    fn resources(&self) -> Option<ResourceUse> {
        None
    }

    /// The server ends. Called once, after everything else.
    fn finish(&mut self, _staleness: &StalenessCounts) -> io::Result<()> {
        Ok(())
    }
}

impl ServerRecorder for () {}

/// What a server has seen of the gradients so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GradientTotals {
    /// Gradients that it applied.
    pub applied: u64,
    /// Gradients that came too late and were dropped.
    pub dropped: u64,
    /// The sum of the staleness of applied gradients, in updates.
    pub staleness_sum: f64,
    /// The highest staleness of an applied gradient, in updates.
    pub staleness_max: u64,
    /// Seconds of all connections' threads in each phase.
    pub phase_seconds: Vec<(&'static str, f64)>,
    /// Seconds in which those threads were ready to run but had no core, if it is known.
    pub run_delay_seconds: Option<f64>,
    /// What it holds of a sparse model's parameters.
    pub table: Option<TableUse>,
    /// What it has seen of each worker, in the order of their slots; empty except on server 0.
    pub workers: Vec<WorkerTotals>,
}

/// What server 0 has seen of one worker so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerTotals {
    /// The name of the process that fills the slot.
    pub task: String,
    /// Gradients whose time was measured.
    pub timed: u64,
    /// The time from replies to the next gradients, in sum.
    pub gradient_ms: u64,
    /// How long its gradients waited for those of other workers, in sum.
    pub held_ms: u64,
}

/// How many gradients were applied with which staleness.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StalenessCounts {
    /// Gradients that were applied.
    pub applied: u64,
    /// The bounds of the buckets in updates, one more than there are counts.
    pub edges: Vec<f64>,
    /// The number of gradients in each bucket.
    pub counts: Vec<u64>,
}
