//! `sync`: one update a step, the mean of the gradients that make the quorum.
//!
//! A step is complete when `quorum` gradients for it are in, or those of all members if fewer
//! are left. With a quorum of all workers each part can be judged alone: whoever is missing on
//! one part is missing on all. With backups it cannot, or one update could mix the gradients of
//! different workers. There part 0 decides: the slots that deliver part 0 first are the ones
//! chosen for the step, on every part. The others are late. They are answered when every part
//! has made the step that part 0 has made, so that they never go on with parameters of two
//! different steps.

use super::{Gate, Push, Ready, Verdict, View};
use crate::part::Owed;

/// The gate of `sync`.
pub(super) struct Sync {
    quorum: usize,
    /// Whether there are more workers than the quorum needs.
    backups: bool,
    /// With backups: whose gradients the last step of part 0 was made of.
    chosen: Vec<bool>,
}

impl Sync {
    pub(super) fn new(quorum: usize, workers: usize) -> Self {
        assert!((1..=workers).contains(&quorum));
        Self { quorum, backups: quorum < workers, chosen: vec![false; workers] }
    }

    /// Whether a part beyond part 0 must make the step that part 0 has already made.
    fn follows(&self, view: View<'_>, part: usize) -> bool {
        let (version, leader) = (view.parts[part].version, view.parts[0].version);
        if self.backups {
            assert!(version <= leader && leader <= version + 1, "part {part} at {version}");
        }
        self.backups && version < leader
    }

    /// With backups, part 0 sees a push first and all other parts do as it did.
    fn judge_follower(&self, view: View<'_>, push: Push) -> Verdict {
        let first = &view.parts[0].seats[push.slot];
        if first.high != push.sequence || first.step != push.step {
            return Verdict::Violation("part 0 of a gradient goes first");
        }
        match first.dropped {
            true => Verdict::Drop { wanted: first.wanted },
            false if push.step == view.parts[push.part].version => {
                Verdict::Hold { wanted: push.step + 1 }
            }
            false => Verdict::Violation("a step that is not this part's"),
        }
    }
}

impl Gate for Sync {
    fn judge(&self, view: View<'_>, push: Push) -> Verdict {
        let part = &view.parts[push.part];
        if part.seats[push.slot].held.is_some() {
            return Verdict::Violation("a second gradient for one step");
        }
        if push.step > part.version {
            return Verdict::Violation("a step ahead of the parameters");
        }
        if self.backups && push.part > 0 {
            return self.judge_follower(view, push);
        }
        if push.step < part.version {
            return Verdict::Drop { wanted: part.version };
        }
        if self.backups && view.parts.iter().any(|other| other.version < push.step) {
            return Verdict::Violation("a gradient of parameters of two steps");
        }
        Verdict::Hold { wanted: push.step + 1 }
    }

    fn ready(&mut self, view: View<'_>, part: usize) -> Ready {
        let seats = &view.parts[part].seats;
        if self.follows(view, part) {
            let mut missing = view.members.live().filter(|&slot| self.chosen[slot]);
            let complete = missing.all(|slot| seats[slot].held.is_some());
            return if complete { Ready::AsMean } else { Ready::NotYet };
        }
        if self.backups && part > 0 {
            return Ready::NotYet;
        }
        let count = seats.iter().filter(|seat| seat.held.is_some()).count();
        let all_in = view.members.live().all(|slot| seats[slot].held.is_some());
        if count < self.quorum && (count == 0 || !all_in) {
            return Ready::NotYet;
        }
        if self.backups {
            assert!(count <= self.quorum, "{count} gradients for a quorum of {}", self.quorum);
            for (chosen, seat) in self.chosen.iter_mut().zip(seats) {
                *chosen = seat.held.is_some();
            }
        }
        Ready::AsMean
    }

    fn may_answer(&self, view: View<'_>, part: usize, _slot: usize, owed: &Owed) -> bool {
        view.parts[part].version >= owed.wanted
    }

    fn awaits(&self, view: View<'_>, part: usize, slot: usize) -> bool {
        view.members.is_live(slot)
            && view.parts[part].seats[slot].held.is_none()
            && (!self.follows(view, part) || self.chosen[slot])
    }

    fn part_zero_decides(&self) -> bool {
        self.backups
    }
}
