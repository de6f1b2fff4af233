//! What a server reports to its caller while it serves.

use std::time::Instant;

use paceline_exchange::{Generation, GradientStage, Level, Server, Stats, Store};

use super::totals::ServerTotals;
use crate::traffic::Traffic;

/// Observes a server: writes its log, its report and its checkpoints.
///
/// All calls are made under the lock around the server: it applies no gradient until they return.
pub trait ServerObserver: Send {
    /// A message for the log.
    fn note(&mut self, level: Level, text: &str);
    /// The server's report for the coordinator, in whatever format that expects.
    fn report(&mut self, totals: &ServerTotals, stats: &Stats, store: &Store) -> Vec<u8>;
    /// Takes a checkpoint of `step`.
    fn checkpoint(&mut self, _step: u64, _server: &Server) {}
    /// The step of the last checkpoint taken in this generation.
    fn last_checkpoint(&self) -> Option<u64> {
        None
    }
    /// Whether the run's own record has this generation, which a client states.
    fn knows_generation(&mut self, _generation: Generation) -> bool {
        true
    }
    /// Called about ten times a second. An error ends the server.
    fn tick(&mut self, server: &Server) -> Result<(), String>;
    /// Called before each tick with the bytes sent to and received from each slot so far. The last
    /// entry is for connections without a slot, such as an evaluator's.
    fn traffic(&mut self, _by_slot: &[Traffic]) {}
    /// Called before each tick with what all connections' threads together have done so far.
    /// Threads publish their times every 64 gradients and at every control frame, so the sum lags
    /// a little.
    fn totals(&mut self, _totals: &ServerTotals) {}
    /// A tracer for the thread of a new connection; `None` traces nothing.
    fn trace_connection(&mut self) -> Option<Box<dyn ConnectionTracer>> {
        None
    }
    /// Whether threads measure their phases at all; asked once for each new connection.
    fn wants_phases(&self) -> bool {
        true
    }
}

/// Traces what one connection's thread does, for a timeline.
pub trait ConnectionTracer: Send {
    /// A phase, given by its index in [`ServerTotals::PHASES`], has ended.
    fn phase_ended(&mut self, phase: usize, begun: Instant, ended: Instant);
    /// The gradient of `slot` for plan step `step` arrived, was applied or was answered.
    fn gradient_reached(&mut self, stage: GradientStage, slot: usize, step: u64);
}
