//! The time of one connection's thread.

use paceline_exchange::{GradientStage, ServerPhase};
use paceline_observe::{Clock, Phases};

use super::observer::{ConnectionTracer, ServerObserver};
use super::totals::ThreadPhase;

/// The time of one thread, from its first gradient on.
#[derive(Default)]
pub(super) struct ThreadTime {
    /// Runs from the first gradient on.
    clock: Option<Clock<ThreadPhase, 4>>,
    /// Records the thread's phases for a timeline.
    tracer: Option<Box<dyn ConnectionTracer>>,
    /// The observer does not want phases: the clock never starts.
    is_off: bool,
}

/// Seconds since a thread's first gradient.
#[derive(Default)]
pub(super) struct ThreadSeconds {
    pub(super) total: f64,
    pub(super) phases: [f64; 4],
}

impl ThreadTime {
    pub(super) fn observed_by(observer: &mut dyn ServerObserver) -> Self {
        Self { clock: None, tracer: observer.trace_connection(), is_off: !observer.wants_phases() }
    }

    /// Starts the clock, at the first gradient.
    #[inline]
    pub(super) fn begin(&mut self) {
        if self.clock.is_none() && !self.is_off {
            self.clock = Some(Clock::start(ThreadPhase(ServerPhase::Receive)));
        }
    }

    #[inline]
    pub(super) fn enter(&mut self, phase: ServerPhase) {
        let Some(clock) = &mut self.clock else { return };
        if let Some(span) = clock.change_to(ThreadPhase(phase))
            && let Some(tracer) = &mut self.tracer
        {
            tracer.phase_ended(span.phase.index(), span.begun, span.ended);
        }
    }

    pub(super) fn gradient_reached(&mut self, stage: GradientStage, slot: usize, step: u64) {
        if let Some(tracer) = &mut self.tracer {
            tracer.gradient_reached(stage, slot, step);
        }
    }

    pub(super) fn totals(&self) -> ThreadSeconds {
        let Some(clock) = &self.clock else { return ThreadSeconds::default() };
        let totals = clock.totals();
        ThreadSeconds {
            total: totals.elapsed().as_secs_f64(),
            phases: totals.seconds().map(|(_, seconds)| seconds),
        }
    }
}
