//! Checkpoints: when a server is copied, and where one goes on that was restored from a copy.
//!
//! The chief asks all servers for a checkpoint and names its step. In `sync` it asks before the
//! push that makes the step, without which no server can make it: so each server takes it when
//! all of its parts have made the step and none has made the next, and all copies together are
//! the parameters of one step. Elsewhere there is no such moment. There a server is copied when it
//! is asked, its parts with the versions that they have, and the copy tells for every part and
//! slot which pushes are in it. The chief may come to the same step again at the end of a run, when
//! others have pushed to some parts since: then it is taken once more.

use super::{Outcome, Server};
use crate::part::{Part, Seat};
use crate::{Generation, Host, Level};

/// How far a slot had come on a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The sequence of its last push that is in the parameters, or was dropped; 0 for none.
    pub high: u64,
    /// The step of that push.
    pub step: u64,
}

/// How far all had come on a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartMarks {
    /// Updates made.
    pub version: u64,
    /// By slot.
    pub slots: Vec<Mark>,
}

/// Where a server goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The step of the plan that slots begin with which have pushed nothing yet.
    pub first_step: u64,
    /// One for each part.
    pub parts: Vec<PartMarks>,
    /// If the run had been asked to stop: after how many updates. Only server 0 is told.
    pub stop_at: Option<u64>,
}

impl Resume {
    /// Nobody has pushed anything, but so many updates have been made: after a checkpoint whose
    /// slots and shards were others.
    pub fn anew(version: u64, first_step: u64, parts: usize, workers: usize) -> Self {
        let marks = PartMarks { version, slots: vec![Mark::default(); workers] };
        Self { first_step, parts: vec![marks; parts], stop_at: None }
    }
}

impl Server {
    /// How far everybody has come on every part.
    ///
    /// A push that waits for others is not in the parameters, so it is not in the marks. Nor is one
    /// that came too late: who goes on from here makes another in its place.
    pub fn marks(&self) -> Vec<PartMarks> {
        let mark = |seat: &Seat| match seat.held.is_some() || seat.dropped {
            true => Mark { high: seat.high - 1, step: seat.step.saturating_sub(1) },
            false => Mark { high: seat.high, step: seat.step },
        };
        let part = |part: &Part| {
            // With backups the other parts do as part 0 did, as far as they have heard of it.
            let seats = if self.gate.part_zero_decides() { &self.parts[0] } else { part };
            PartMarks { version: part.version, slots: seats.seats.iter().map(mark).collect() }
        };
        self.parts.iter().map(part).collect()
    }

    /// After how many updates the run is to stop, as far as this server is told.
    pub fn stops_at(&self) -> Option<u64> {
        self.stop_at
    }

    /// Of the shard, how many parts there are.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// This server is in that generation of the run. To be said before anybody has connected.
    pub fn enter(&mut self, generation: Generation) {
        assert!(!self.started, "the run has started");
        self.generation = generation;
    }

    /// Somebody knows of a newer generation: what this server has done since that one's checkpoint
    /// is void.
    pub(super) fn go_back(&mut self, to: Generation, host: &mut impl Host) {
        let text = match to.base {
            Some(step) => format!("the run goes back to the checkpoint of step {step}"),
            None => "the run goes back to its beginning".to_owned(),
        };
        host.note(Level::Warning, &format!("{text}: a server was lost"));
        self.outcome = Some(Outcome::GoBack(to));
    }

    /// Goes on where a checkpoint was taken, with the parameters of it. To be said before anybody
    /// has connected.
    ///
    /// # Panics
    /// If there are other parts or slots than these.
    pub fn go_on(&mut self, resume: &Resume) {
        assert!(!self.started, "the run has started");
        assert_eq!(self.parts.len(), resume.parts.len(), "parts");
        self.first_step = resume.first_step;
        self.stop_at = self.stop_at.into_iter().chain(resume.stop_at).min();
        for (part, marks) in self.parts.iter_mut().zip(&resume.parts) {
            assert_eq!(part.seats.len(), marks.slots.len(), "slots");
            part.version = marks.version;
            for (seat, mark) in part.seats.iter_mut().zip(&marks.slots) {
                (seat.high, seat.step) = (mark.high, mark.step);
                seat.restored = mark.high;
            }
        }
    }

    /// The chief asks for a checkpoint. One that was taken is not taken again, when the chief
    /// asks once more after a lost connection: the copies of all servers would be of times that
    /// are far apart. But at the end, when all have left and the step is the last, something may
    /// have changed since; whether it has, the host sees.
    pub(super) fn ask_for_checkpoint(&mut self, step: u64, host: &mut impl Host) {
        let is_end = self.members.all_out() && self.global_step() == step;
        let is_new = match self.checkpoint_last {
            Some(last) => step > last || step == last && is_end,
            None => true,
        };
        if is_new {
            self.checkpoint_at = Some(step);
            self.take_checkpoint_if_due(host);
        }
    }

    #[inline]
    pub(super) fn take_checkpoint_if_due(&mut self, host: &mut impl Host) {
        let Some(step) = self.checkpoint_at else { return };
        // With backups the others may have gone on without the chief, past the step.
        let version = self.parts[0].version;
        let is_even = || version >= step && self.parts.iter().all(|part| part.version == version);
        if !self.is_sync() || self.members.all_out() || is_even() {
            self.checkpoint_at = None;
            if host.checkpoint(step, self) {
                self.checkpoint_last = Some(step);
            }
        }
    }
}
