//! What a gate sees and what it decides.

use crate::chunk::{Chunk, DueReply};
use crate::members::Members;

/// What a gate may look at.
#[derive(Clone, Copy)]
pub(crate) struct GateView<'a> {
    pub(crate) chunks: &'a [Chunk],
    pub(crate) members: &'a Members,
}

/// A push that has not arrived before, without its gradient.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Push {
    pub(crate) chunk: usize,
    pub(crate) slot: usize,
    pub(crate) step: u64,
    pub(crate) sequence: u64,
}

/// What happens to a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Apply it now.
    Apply,
    /// Keep it until [`Gate::ready`], and answer it at this version or later.
    Wait { wanted_version: u64 },
    /// It is too late: drop it, but answer it, at this version or later.
    Drop { wanted_version: u64 },
    /// A client that follows the protocol would not have sent it.
    Violation(&'static str),
}

/// How the pending gradients of a chunk are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Some gradients are still missing.
    NotYet,
    /// As one update, their mean weighted by examples. Without any gradient, an empty update.
    AsMean,
    /// Each as an update of its own, in slot order.
    EachInTurn,
}

/// The rules of one mode.
pub(crate) trait Gate: Send {
    /// Decides what happens to a push.
    fn judge(&self, view: GateView<'_>, push: Push) -> Decision;

    /// Decides whether the pending gradients of a chunk are applied now.
    ///
    /// The caller must apply them if so: the gate may remember its decision.
    fn ready(&mut self, _view: GateView<'_>, _chunk: usize) -> Readiness {
        Readiness::NotYet
    }

    /// Whether a reply may be sent now.
    fn may_answer(
        &self,
        _view: GateView<'_>,
        _chunk: usize,
        _slot: usize,
        _reply: &DueReply,
    ) -> bool {
        true
    }

    /// Whether a chunk waits for this slot.
    fn awaits(&self, _view: GateView<'_>, _chunk: usize, _slot: usize) -> bool {
        false
    }

    /// Whether an update of chunk 0 may decide something for the other chunks.
    fn chunk_zero_decides(&self) -> bool {
        false
    }
}
