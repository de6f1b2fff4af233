//! `bounded`: each worker runs at its own pace, but never too far ahead.
//!
//! A slot's clock on a chunk is the number of pushes it has made there. A push is applied when it
//! arrives; its answer waits while the slot's clock is more than `staleness` ahead of the slowest
//! member's. A slot whose answer waits cannot push, so clocks never differ by more than
//! `staleness + 1`. Workers that have left do not count, and the bound holds at the end too: a
//! worker that resumed from a checkpoint may then still owe pushes that another server has.
//!
//! With a staleness of 0 all workers are in step anyway. Gradients then wait until all have
//! arrived and are applied in slot order, which gives the same bits whatever the order of arrival.

use super::api::{Decision, Gate, GateView, Push, Readiness};
use crate::chunk::DueReply;

/// The gate of `bounded`.
pub(super) struct BoundedGate {
    staleness: u64,
}

impl BoundedGate {
    pub(super) fn new(staleness: u64) -> Self {
        Self { staleness }
    }

    /// Whether the slot is so far ahead of the slowest that it must wait.
    fn is_ahead(&self, view: GateView<'_>, chunk: usize, slot: usize) -> bool {
        let clock = view.chunks[chunk].slots[slot].last_sequence;
        let slowest = slowest_clock(view, chunk);
        slowest.is_some_and(|slowest| clock > slowest.saturating_add(self.staleness))
    }
}

fn slowest_clock(view: GateView<'_>, chunk: usize) -> Option<u64> {
    let slots = &view.chunks[chunk].slots;
    view.members.live().map(|member| slots[member].last_sequence).min()
}

impl Gate for BoundedGate {
    fn judge(&self, view: GateView<'_>, push: Push) -> Decision {
        let state = &view.chunks[push.chunk].slots[push.slot];
        if state.pending.is_some() || self.is_ahead(view, push.chunk, push.slot) {
            return Decision::Violation("too far ahead of the slowest");
        }
        if self.staleness == 0 { Decision::Wait { wanted_version: 0 } } else { Decision::Apply }
    }

    fn ready(&mut self, view: GateView<'_>, chunk: usize) -> Readiness {
        let slots = &view.chunks[chunk].slots;
        let is_pending = |slot: usize| slots[slot].pending.is_some();
        let any_pending = self.staleness == 0 && (0..slots.len()).any(is_pending);
        if any_pending && view.members.live().all(is_pending) {
            Readiness::EachInTurn
        } else {
            Readiness::NotYet
        }
    }

    fn may_answer(&self, view: GateView<'_>, chunk: usize, slot: usize, reply: &DueReply) -> bool {
        if !reply.gated {
            return true;
        }
        let is_pending = view.chunks[chunk].slots[slot].pending.is_some();
        !is_pending && !self.is_ahead(view, chunk, slot)
    }

    fn awaits(&self, view: GateView<'_>, chunk: usize, slot: usize) -> bool {
        let state = &view.chunks[chunk].slots[slot];
        view.members.is_live(slot)
            && state.pending.is_none()
            && slowest_clock(view, chunk) == Some(state.last_sequence)
    }
}
