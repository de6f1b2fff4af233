//! The gates: when a push is applied, and when it is answered.
//!
//! This is all that differs between the modes. A gate sees the chunks and the members and
//! answers four small questions; the server does the rest alike for every mode. It changes
//! nothing but its own memory, so each mode can be read alone.

mod r#async;
mod bounded;
mod sync;

use crate::ModeConfig;
use crate::chunk::{AwaitedReply, Chunk};
use crate::members::Members;

/// What a gate may look at.
#[derive(Clone, Copy)]
pub(crate) struct GateView<'a> {
    pub(crate) chunks: &'a [Chunk],
    pub(crate) members: &'a Members,
}

/// A push that has not been seen before, without its gradient.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Push {
    pub(crate) chunk: usize,
    pub(crate) slot: usize,
    pub(crate) step: u64,
    pub(crate) sequence: u64,
}

/// What is to become of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Apply it now.
    Apply,
    /// Keep it until [`Gate::ready`]; answer it at this version or later.
    Wait { wanted_version: u64 },
    /// It is too late: forget it, but answer it, at this version or later.
    Drop { wanted_version: u64 },
    /// A client that keeps to the protocol would not have sent it.
    Violation(&'static str),
}

/// How the gradients that a chunk holds are to be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Somebody is still waited for.
    NotYet,
    /// As one update, their mean weighted by examples. Without any gradient, an empty update.
    AsMean,
    /// Each as an update of its own, in the order of the slots.
    EachInTurn,
}

/// The rules of one mode.
pub(crate) trait Gate: Send {
    /// What becomes of a push.
    fn judge(&self, view: GateView<'_>, push: Push) -> Decision;

    /// Whether the gradients that a chunk holds may be applied now.
    ///
    /// Whoever is told that they may must apply them: the gate may remember its decision.
    fn ready(&mut self, _view: GateView<'_>, _part: usize) -> Ready {
        Ready::NotYet
    }

    /// Whether an answer may go out now.
    fn may_answer(
        &self,
        _view: GateView<'_>,
        _part: usize,
        _slot: usize,
        _owed: &AwaitedReply,
    ) -> bool {
        true
    }

    /// Whether a chunk waits for this slot.
    fn awaits(&self, _view: GateView<'_>, _part: usize, _slot: usize) -> bool {
        false
    }

    /// Whether an update of chunk 0 may decide something for the other chunks.
    fn chunk_zero_decides(&self) -> bool {
        false
    }
}

/// The gate of a mode.
pub(crate) fn gate_for(mode: ModeConfig, workers: usize) -> Box<dyn Gate> {
    match mode {
        ModeConfig::Async => Box::new(r#async::Async),
        ModeConfig::Sync { quorum } => Box::new(sync::Sync::new(quorum, workers)),
        ModeConfig::Bounded { staleness } => Box::new(bounded::Bounded::new(staleness)),
    }
}
