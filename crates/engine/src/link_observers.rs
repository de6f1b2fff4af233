//! Observers of a worker's connections: the clock and the timeline during training, and the
//! task's messages during other waits.

use paceline_net::{ExchangePhase, LinkObserver};
use paceline_observe::trace::GradientEvent;
use paceline_observe::{Phase, PhaseClock};

use crate::loop_trace::APPLY_OP;
use crate::step_stop::StepStop;

/// Receives messages about waits.
pub(crate) type Notify<'a> = &'a (dyn Fn(&str) + Sync);

/// Observes an exchange: tells the clock where the time goes.
pub(crate) struct StepObserver<'a> {
    pub(crate) clock: &'a mut PhaseClock,
    pub(crate) notify: Notify<'a>,
    pub(crate) should_halt: Option<&'a (dyn Fn() -> bool + Sync)>,
    pub(crate) peers: Peers,
    /// Cuts the step, and the run.
    pub(crate) stop: Option<&'a StepStop>,
}

/// The servers or workers that gradients travel to, by number.
#[derive(Clone, Copy)]
pub(crate) struct Peers {
    pub(crate) count: usize,
    /// The one that is this task itself.
    pub(crate) own: Option<usize>,
}

impl Peers {
    pub(crate) fn others(self) -> impl Iterator<Item = u32> {
        (0..self.count).filter(move |peer| Some(*peer) != self.own).map(|peer| peer as u32)
    }
}

impl LinkObserver for StepObserver<'_> {
    #[inline]
    fn enter_phase(&mut self, to: ExchangePhase) {
        self.clock.stay_in(match to {
            ExchangePhase::Push => Phase::Push,
            ExchangePhase::Wait => Phase::Wait,
            ExchangePhase::Pull => Phase::Pull,
        });
    }

    fn note(&mut self, text: &str) {
        (self.notify)(text);
    }

    fn should_give_up(&mut self) -> bool {
        self.should_halt.is_some_and(|should_halt| should_halt())
    }

    fn cuts_short(&mut self) -> bool {
        self.stop.is_some_and(StepStop::cuts_exchange)
    }

    #[inline]
    fn sending_gradient(&mut self, step: u64) {
        if let Some(track) = self.clock.track() {
            track.sends(self.peers.others(), step);
        }
    }

    #[inline]
    fn update_arrived(&mut self, peer: usize) {
        if let Some(track) = self.clock.track() {
            track.got(peer as u32);
        }
    }

    #[inline]
    fn gradient_arrived(&mut self, peer: usize, step: u64) {
        if let Some(track) = self.clock.track() {
            track.mark(GradientEvent::Arrived, peer as u32, step);
        }
    }

    #[inline]
    fn gradients_applied(&mut self) {
        self.clock.did(APPLY_OP);
        if let Some(track) = self.clock.track() {
            track.applied_all(self.peers.others());
        }
    }
}

/// Observes waits at the start and at the end of a run, which no clock measures.
pub(crate) struct WaitObserver<'a> {
    pub(crate) notify: Notify<'a>,
    pub(crate) should_give_up: Option<&'a dyn Fn() -> bool>,
}

impl LinkObserver for WaitObserver<'_> {
    fn enter_phase(&mut self, _: ExchangePhase) {}

    fn note(&mut self, text: &str) {
        (self.notify)(text);
    }

    fn should_give_up(&mut self) -> bool {
        self.should_give_up.is_some_and(|should_give_up| should_give_up())
    }
}
