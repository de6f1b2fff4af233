//! `sync`: one update a step, the mean of the gradients that make the quorum.
//!
//! A step is complete when `quorum` gradients for it are in, or those of all members if fewer
//! are left. With a quorum of all workers each chunk can be judged alone: whoever is missing on
//! one chunk is missing on all. With backups it cannot, or one update could mix the gradients of
//! different workers. There chunk 0 decides: the slots that deliver chunk 0 first are the ones
//! chosen for the step, on every chunk. The others are late. They are answered when every chunk
//! has made the step that chunk 0 has made, so that they never go on with parameters of two
//! different steps.

use super::{Decision, Gate, GateView, Push, Ready};
use crate::chunk::AwaitedReply;

/// The gate of `sync`.
pub(super) struct Sync {
    quorum: usize,
    /// Whether there are more workers than the quorum needs.
    backups: bool,
    /// With backups: whose gradients the last step of chunk 0 was made of.
    chosen: Vec<bool>,
}

impl Sync {
    pub(super) fn new(quorum: usize, workers: usize) -> Self {
        assert!((1..=workers).contains(&quorum));
        Self { quorum, backups: quorum < workers, chosen: vec![false; workers] }
    }

    /// Whether a chunk beyond chunk 0 must make the step that chunk 0 has already made.
    fn follows(&self, view: GateView<'_>, chunk: usize) -> bool {
        let (version, leader) = (view.chunks[chunk].version, view.chunks[0].version);
        if self.backups {
            assert!(version <= leader && leader <= version + 1, "chunk {chunk} at {version}");
        }
        self.backups && version < leader
    }

    /// With backups, chunk 0 sees a push first and all other chunks do as it did.
    fn judge_follower(&self, view: GateView<'_>, push: Push) -> Decision {
        let first = &view.chunks[0].slots[push.slot];
        if first.last_sequence != push.sequence || first.step != push.step {
            return Decision::Violation("chunk 0 of a gradient goes first");
        }
        match first.dropped {
            true => Decision::Drop { wanted_version: first.wanted_version },
            false if push.step == view.chunks[push.chunk].version => {
                Decision::Wait { wanted_version: push.step + 1 }
            }
            false => Decision::Violation("a step that is not this chunk's"),
        }
    }
}

impl Gate for Sync {
    fn judge(&self, view: GateView<'_>, push: Push) -> Decision {
        let chunk = &view.chunks[push.chunk];
        if chunk.slots[push.slot].pending.is_some() {
            return Decision::Violation("a second gradient for one step");
        }
        if push.step > chunk.version {
            return Decision::Violation("a step ahead of the parameters");
        }
        if self.backups && push.chunk > 0 {
            return self.judge_follower(view, push);
        }
        if push.step < chunk.version {
            return Decision::Drop { wanted_version: chunk.version };
        }
        if self.backups && view.chunks.iter().any(|other| other.version < push.step) {
            return Decision::Violation("a gradient of parameters of two steps");
        }
        Decision::Wait { wanted_version: push.step + 1 }
    }

    fn ready(&mut self, view: GateView<'_>, chunk: usize) -> Ready {
        let slots = &view.chunks[chunk].slots;
        if self.follows(view, chunk) {
            let mut missing = view.members.live().filter(|&slot| self.chosen[slot]);
            let complete = missing.all(|slot| slots[slot].pending.is_some());
            return if complete { Ready::AsMean } else { Ready::NotYet };
        }
        if self.backups && chunk > 0 {
            return Ready::NotYet;
        }
        let count = slots.iter().filter(|state| state.pending.is_some()).count();
        let all_in = view.members.live().all(|slot| slots[slot].pending.is_some());
        if count < self.quorum && (count == 0 || !all_in) {
            return Ready::NotYet;
        }
        if self.backups {
            assert!(count <= self.quorum, "{count} gradients for a quorum of {}", self.quorum);
            for (chosen, state) in self.chosen.iter_mut().zip(slots) {
                *chosen = state.pending.is_some();
            }
        }
        Ready::AsMean
    }

    fn may_answer(
        &self,
        view: GateView<'_>,
        chunk: usize,
        _slot: usize,
        awaiting_reply: &AwaitedReply,
    ) -> bool {
        view.chunks[chunk].version >= awaiting_reply.wanted_version
    }

    fn awaits(&self, view: GateView<'_>, chunk: usize, slot: usize) -> bool {
        view.members.is_live(slot)
            && view.chunks[chunk].slots[slot].pending.is_none()
            && (!self.follows(view, chunk) || self.chosen[slot])
    }

    fn chunk_zero_decides(&self) -> bool {
        self.backups
    }
}
