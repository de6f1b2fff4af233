//! Observes an exchange that runs on a separate thread, beside the training loop.
//!
//! The loop's clock does not count it: the time in which gradients travel while the loop computes
//! is not the loop's. On the timeline the thread has its own track.

use std::sync::Arc;
use std::time::Instant;

use paceline_net::{ExchangePhase, LinkObserver};
use paceline_observe::trace::{APPLY, GradientEvent, Op, PULL, PUSH, SideTrack, Tracer};

use crate::link_observers::{Notify, Peers};
use crate::step_stop::StepStop;

const PUSH_OP: u32 = 0;
const PULL_OP: u32 = 1;
const APPLY_OP: u32 = 2;

/// The track of exchanges of `params` parameters, if the task is recorded.
pub(crate) fn exchange_track(tracer: Option<&Arc<Tracer>>, params: usize) -> Option<SideTrack> {
    let ops = [PUSH, PULL, APPLY].map(|name| Op::new(name, &[params]));
    tracer.map(|tracer| tracer.side_track("exchange", ops.to_vec()))
}

/// Observes one exchange.
pub(crate) struct ExchangeObserver<'a> {
    notify: Notify<'a>,
    peers: Peers,
    /// Set if the step is recorded. Its exchange may end when the next step has begun.
    track: Option<&'a SideTrack>,
    should_halt: Option<&'a (dyn Fn() -> bool + Sync)>,
    stop: Option<&'a StepStop>,
    /// What the thread does, and since when; `None` while it waits.
    current: Option<(u32, Instant)>,
}

impl<'a> ExchangeObserver<'a> {
    pub(crate) fn new(notify: Notify<'a>, peers: Peers, track: Option<&'a SideTrack>) -> Self {
        let track = track.filter(|track| track.tracer().is_on());
        Self { notify, peers, track, should_halt: None, stop: None, current: None }
    }

    /// Ends a wait when this holds.
    pub(crate) fn halted_by(self, should_halt: Option<&'a (dyn Fn() -> bool + Sync)>) -> Self {
        Self { should_halt, ..self }
    }

    /// Cuts the step, and the run, when this says so.
    pub(crate) fn cut_by(self, stop: Option<&'a StepStop>) -> Self {
        Self { stop, ..self }
    }

    /// Ends what the thread does, which was `op` if that is given.
    fn end(&mut self, op: Option<u32>) {
        let Some((current, begun)) = self.current.take() else { return };
        if let Some(track) = self.track {
            track.track().span(op.unwrap_or(current), begun, Instant::now());
        }
    }

    fn begin(&mut self, op: u32) {
        self.current = self.track.map(|_| (op, Instant::now()));
    }
}

impl LinkObserver for ExchangeObserver<'_> {
    fn enter_phase(&mut self, phase: ExchangePhase) {
        let op = match phase {
            ExchangePhase::Push => Some(PUSH_OP),
            ExchangePhase::Pull => Some(PULL_OP),
            ExchangePhase::Wait => None,
        };
        if self.current.map(|(current, _)| current) != op {
            self.end(None);
            op.into_iter().for_each(|op| self.begin(op));
        }
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

    fn was_cut_short(&mut self) {
        self.stop.into_iter().for_each(StepStop::set_cut_short);
    }

    fn sending_gradient(&mut self, step: u64) {
        if let Some(track) = self.track {
            let mut track = track.track();
            track.step = step;
            track.sends(self.peers.others(), step);
        }
    }

    fn update_arrived(&mut self, peer: usize) {
        // The arrow from the gradient's application must end at a span that begins after it.
        self.end(None);
        self.begin(PULL_OP);
        if let Some(track) = self.track {
            track.track().got(peer as u32);
        }
    }

    fn gradient_arrived(&mut self, peer: usize, step: u64) {
        if let Some(track) = self.track {
            track.track().mark(GradientEvent::Arrived, peer as u32, step);
        }
    }

    fn gradients_applied(&mut self) {
        self.end(Some(APPLY_OP));
        self.begin(PUSH_OP);
        if let Some(track) = self.track {
            track.track().applied_all(self.peers.others());
        }
    }
}

impl Drop for ExchangeObserver<'_> {
    fn drop(&mut self) {
        self.end(None);
    }
}
