//! Who is told how a worker's connections fare: its clock and its timeline while it trains, and
//! whoever waits for others.

use paceline_net::{Attendant, Moved};
use paceline_observe::trace::GradientEvent;
use paceline_observe::{Phase, PhaseClock};

use crate::trace::APPLY_OP;

/// What a task tells of its waits, and to whom.
pub(crate) type Say<'a> = &'a dyn Fn(&str);

/// Attends to an exchange: the clock is told where the time goes.
pub(super) struct Timed<'a> {
    pub(super) clock: &'a mut PhaseClock,
    pub(super) say: Say<'a>,
    pub(super) halted: Option<&'a dyn Fn() -> bool>,
    pub(super) peers: Peers,
}

/// The servers or workers that gradients go to, by number.
#[derive(Clone, Copy)]
pub(super) struct Peers {
    /// How many there are.
    pub(super) all: usize,
    /// The one that is this task itself.
    pub(super) own: Option<usize>,
}

impl Peers {
    fn others(self) -> impl Iterator<Item = u32> {
        (0..self.all).filter(move |peer| Some(*peer) != self.own).map(|peer| peer as u32)
    }
}

impl Attendant for Timed<'_> {
    #[inline]
    fn moved(&mut self, to: Moved) {
        self.clock.stay_in(match to {
            Moved::Push => Phase::Push,
            Moved::Wait => Phase::Wait,
            Moved::Pull => Phase::Pull,
        });
    }

    fn note(&mut self, text: &str) {
        (self.say)(text);
    }

    fn gives_up(&mut self) -> bool {
        self.halted.is_some_and(|halted| halted())
    }

    #[inline]
    fn sends(&mut self, step: u64) {
        if let Some(track) = self.clock.track() {
            track.sends(self.peers.others(), step);
        }
    }

    #[inline]
    fn got(&mut self, peer: usize) {
        if let Some(track) = self.clock.track() {
            track.got(peer as u32);
        }
    }

    #[inline]
    fn arrived(&mut self, peer: usize, step: u64) {
        if let Some(track) = self.clock.track() {
            track.mark(GradientEvent::Arrived, peer as u32, step);
        }
    }

    #[inline]
    fn applied(&mut self) {
        self.clock.did(APPLY_OP);
        if let Some(track) = self.clock.track() {
            track.applied_all(self.peers.others());
        }
    }
}

/// Attends to the beginning and the end of a run, which no clock measures.
pub(super) struct Waiter<'a> {
    pub(super) say: Say<'a>,
    pub(super) gives_up: Option<&'a dyn Fn() -> bool>,
}

impl Attendant for Waiter<'_> {
    fn moved(&mut self, _: Moved) {}

    fn note(&mut self, text: &str) {
        (self.say)(text);
    }

    fn gives_up(&mut self) -> bool {
        self.gives_up.is_some_and(|gives_up| gives_up())
    }
}
