//! `bounded`: everybody at their own pace, but nobody too far ahead.
//!
//! A slot's clock on a chunk is the number of pushes it has made there. A push is applied when
//! it arrives; its answer waits while the slot's clock is more than `staleness` ahead of the
//! slowest member's. A slot whose answer waits can push nothing more, so clocks never differ
//! by more than `staleness + 1`. That holds at the end too, when who has left is not waited for:
//! a worker that is back from a checkpoint may owe pushes then that another server has.
//!
//! With a staleness of 0 everybody is in step anyway, so gradients are held until all are in
//! and then applied in the order of the slots: the same bits whatever the order of arrival.

use super::{Decision, Gate, GateView, Push, Ready};
use crate::chunk::AwaitedReply;

/// The gate of `bounded`.
pub(super) struct Bounded {
    staleness: u64,
}

impl Bounded {
    pub(super) fn new(staleness: u64) -> Self {
        Self { staleness }
    }

    /// Whether the slot is so far ahead of the slowest that it must wait.
    fn is_ahead(&self, view: GateView<'_>, chunk: usize, slot: usize) -> bool {
        let slots = &view.chunks[chunk].slots;
        let slowest = view.members.live().map(|member| slots[member].last_sequence).min();
        slowest
            .is_some_and(|clock| slots[slot].last_sequence > clock.saturating_add(self.staleness))
    }
}

impl Gate for Bounded {
    fn judge(&self, view: GateView<'_>, push: Push) -> Decision {
        let state = &view.chunks[push.chunk].slots[push.slot];
        let must_wait = state.pending.is_some() || self.is_ahead(view, push.chunk, push.slot);
        match self.staleness {
            _ if must_wait => Decision::Violation("too far ahead of the slowest"),
            0 => Decision::Wait { wanted_version: 0 },
            _ => Decision::Apply,
        }
    }

    fn ready(&mut self, view: GateView<'_>, chunk: usize) -> Ready {
        let slots = &view.chunks[chunk].slots;
        let any_in = self.staleness == 0 && slots.iter().any(|state| state.pending.is_some());
        match any_in && view.members.live().all(|slot| slots[slot].pending.is_some()) {
            true => Ready::EachInTurn,
            false => Ready::NotYet,
        }
    }

    fn may_answer(
        &self,
        view: GateView<'_>,
        chunk: usize,
        slot: usize,
        awaiting_reply: &AwaitedReply,
    ) -> bool {
        if !awaiting_reply.gated {
            return true;
        }
        let pending = view.chunks[chunk].slots[slot].pending.is_some();
        !pending && !self.is_ahead(view, chunk, slot)
    }

    fn awaits(&self, view: GateView<'_>, chunk: usize, slot: usize) -> bool {
        let slots = &view.chunks[chunk].slots;
        let slowest = view.members.live().map(|member| slots[member].last_sequence).min();
        view.members.is_live(slot)
            && slots[slot].pending.is_none()
            && slowest == Some(slots[slot].last_sequence)
    }
}
