//! `bounded`: everybody at their own pace, but nobody too far ahead.
//!
//! A slot's clock on a part is the number of pushes it has made there. A push is applied when
//! it arrives; its answer waits while the slot's clock is more than `staleness` ahead of the
//! slowest member's. A slot whose answer waits can push nothing more, so clocks never differ
//! by more than `staleness + 1`. That holds at the end too, when who has left is not waited for:
//! a worker that is back from a checkpoint may owe pushes then that another server has.
//!
//! With a staleness of 0 everybody is in step anyway, so gradients are held until all are in
//! and then applied in the order of the slots: the same bits whatever the order of arrival.

use super::{Gate, Push, Ready, Verdict, View};
use crate::part::Owed;

/// The gate of `bounded`.
pub(super) struct Bounded {
    staleness: u64,
}

impl Bounded {
    pub(super) fn new(staleness: u64) -> Self {
        Self { staleness }
    }

    /// Whether the slot is so far ahead of the slowest that it must wait.
    fn is_ahead(&self, view: View<'_>, part: usize, slot: usize) -> bool {
        let seats = &view.parts[part].seats;
        let slowest = view.members.live().map(|member| seats[member].high).min();
        slowest.is_some_and(|clock| seats[slot].high > clock.saturating_add(self.staleness))
    }
}

impl Gate for Bounded {
    fn judge(&self, view: View<'_>, push: Push) -> Verdict {
        let seat = &view.parts[push.part].seats[push.slot];
        let must_wait = seat.held.is_some() || self.is_ahead(view, push.part, push.slot);
        match self.staleness {
            _ if must_wait => Verdict::Violation("too far ahead of the slowest"),
            0 => Verdict::Hold { wanted: 0 },
            _ => Verdict::Apply,
        }
    }

    fn ready(&mut self, view: View<'_>, part: usize) -> Ready {
        let seats = &view.parts[part].seats;
        let any_in = self.staleness == 0 && seats.iter().any(|seat| seat.held.is_some());
        match any_in && view.members.live().all(|slot| seats[slot].held.is_some()) {
            true => Ready::EachInTurn,
            false => Ready::NotYet,
        }
    }

    fn may_answer(&self, view: View<'_>, part: usize, slot: usize, owed: &Owed) -> bool {
        if !owed.gated {
            return true;
        }
        let held = view.parts[part].seats[slot].held.is_some();
        !held && !self.is_ahead(view, part, slot)
    }

    fn awaits(&self, view: View<'_>, part: usize, slot: usize) -> bool {
        let seats = &view.parts[part].seats;
        let slowest = view.members.live().map(|member| seats[member].high).min();
        view.members.is_live(slot)
            && seats[slot].held.is_none()
            && slowest == Some(seats[slot].high)
    }
}
