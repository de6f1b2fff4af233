//! `sync`: one update per step, the mean of a quorum of gradients.
//!
//! A step is complete when `quorum` gradients for it have arrived, or those of all members if
//! fewer are left. With a quorum of all workers each chunk can be judged alone: a worker that is
//! missing on one chunk is missing on all. With backups it cannot, or one update could mix the
//! gradients of different workers. There chunk 0 decides: the slots that deliver chunk 0 first are
//! chosen for the step, on every chunk. The others are late. They are answered when every chunk
//! has made the step that chunk 0 has made, so that they never continue with parameters of two
//! different steps.

use super::api::{Decision, Gate, GateView, Push, Readiness};
use crate::chunk::DueReply;

/// The gate of `sync`.
pub(super) struct SyncGate {
    quorum: usize,
    /// Whether there are more workers than the quorum needs.
    has_backups: bool,
    /// With backups: the slots whose gradients made the last step of chunk 0.
    chosen: Vec<bool>,
}

impl SyncGate {
    pub(super) fn new(quorum: usize, workers: usize) -> Self {
        assert!((1..=workers).contains(&quorum));
        Self { quorum, has_backups: quorum < workers, chosen: vec![false; workers] }
    }

    /// Whether a chunk beyond chunk 0 must make the step that chunk 0 has already made.
    fn follows(&self, view: GateView<'_>, chunk: usize) -> bool {
        let (version, leader) = (view.chunks[chunk].version, view.chunks[0].version);
        if self.has_backups {
            assert!(version <= leader && leader <= version + 1, "chunk {chunk} at {version}");
        }
        self.has_backups && version < leader
    }

    /// With backups, chunk 0 sees a push first and all other chunks do the same as chunk 0.
    fn judge_follower(&self, view: GateView<'_>, push: Push) -> Decision {
        let first = &view.chunks[0].slots[push.slot];
        if first.last_sequence != push.sequence || first.step != push.step {
            return Decision::Violation("chunk 0 of a gradient goes first");
        }
        if first.dropped {
            return Decision::Drop { wanted_version: first.wanted_version };
        }
        if push.step != view.chunks[push.chunk].version {
            return Decision::Violation("a step that is not this chunk's");
        }
        Decision::Wait { wanted_version: push.step + 1 }
    }
}

impl Gate for SyncGate {
    fn judge(&self, view: GateView<'_>, push: Push) -> Decision {
        let chunk = &view.chunks[push.chunk];
        if chunk.slots[push.slot].pending.is_some() {
            return Decision::Violation("a second gradient for one step");
        }
        if push.step > chunk.version {
            return Decision::Violation("a step ahead of the parameters");
        }
        if self.has_backups && push.chunk > 0 {
            return self.judge_follower(view, push);
        }
        if push.step < chunk.version {
            return Decision::Drop { wanted_version: chunk.version };
        }
        if self.has_backups && view.chunks.iter().any(|other| other.version < push.step) {
            return Decision::Violation("a gradient of parameters of two steps");
        }
        Decision::Wait { wanted_version: push.step + 1 }
    }

    fn ready(&mut self, view: GateView<'_>, chunk: usize) -> Readiness {
        let slots = &view.chunks[chunk].slots;
        if self.follows(view, chunk) {
            let mut chosen = view.members.live().filter(|&slot| self.chosen[slot]);
            let is_complete = chosen.all(|slot| slots[slot].pending.is_some());
            return if is_complete { Readiness::AsMean } else { Readiness::NotYet };
        }
        if self.has_backups && chunk > 0 {
            return Readiness::NotYet;
        }
        let count = slots.iter().filter(|state| state.pending.is_some()).count();
        let all_pending = view.members.live().all(|slot| slots[slot].pending.is_some());
        if count < self.quorum && (count == 0 || !all_pending) {
            return Readiness::NotYet;
        }
        if self.has_backups {
            assert!(count <= self.quorum, "{count} gradients for a quorum of {}", self.quorum);
            for (chosen, state) in self.chosen.iter_mut().zip(slots) {
                *chosen = state.pending.is_some();
            }
        }
        Readiness::AsMean
    }

    fn may_answer(&self, view: GateView<'_>, chunk: usize, _slot: usize, reply: &DueReply) -> bool {
        view.chunks[chunk].version >= reply.wanted_version
    }

    fn awaits(&self, view: GateView<'_>, chunk: usize, slot: usize) -> bool {
        view.members.is_live(slot)
            && view.chunks[chunk].slots[slot].pending.is_none()
            && (!self.follows(view, chunk) || self.chosen[slot])
    }

    fn chunk_zero_decides(&self) -> bool {
        self.has_backups
    }
}
