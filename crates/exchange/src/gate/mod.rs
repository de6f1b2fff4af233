//! The gates: when a push is applied, and when it is answered.
//!
//! This is all that differs between the modes. A gate sees the chunks and the members and answers
//! four small questions (`api.rs`); the server does the rest alike for every mode. A gate changes
//! nothing but its own memory, so each mode can be read alone.

mod api;
mod r#async;
mod bounded;
mod sync;

use crate::ModeConfig;

pub(crate) use api::{Decision, Gate, GateView, Push, Readiness};

/// The gate of a mode.
pub(crate) fn gate_for(mode: ModeConfig, workers: usize) -> Box<dyn Gate> {
    match mode {
        ModeConfig::Async => Box::new(r#async::AsyncGate),
        ModeConfig::Sync { quorum } => Box::new(sync::SyncGate::new(quorum, workers)),
        ModeConfig::Bounded { staleness } => Box::new(bounded::BoundedGate::new(staleness)),
    }
}
