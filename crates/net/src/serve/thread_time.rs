//! The time of one connection's thread.

use paceline_exchange::{GradientStage, ServerPhase};
use paceline_observe::{Clock, Phases, RunDelay};

use super::observer::{ConnectionTracer, ServerObserver};
use super::totals::ThreadPhase;

/// The time of one thread, from its first gradient on.
#[derive(Default)]
pub(super) struct ThreadTime {
    /// Runs from the first gradient on.
    clock: Option<Clock<ThreadPhase, 4>>,
    /// Runs beside the clock.
    run_delay: Option<RunDelay>,
    /// Bytes the connection had sent before its first gradient.
    sent_before: u64,
    /// Records the thread's phases for a timeline.
    tracer: Option<Box<dyn ConnectionTracer>>,
    /// Whether the clock never starts, because the observer does not want phases.
    is_off: bool,
}

/// Seconds since a thread's first gradient.
#[derive(Default)]
pub(super) struct ThreadSeconds {
    pub(super) total: f64,
    pub(super) phases: [f64; 4],
    /// Ready to run but without a core; `None` if unknown.
    pub(super) run_delay: Option<f64>,
}

impl ThreadTime {
    pub(super) fn observed_by(observer: &mut dyn ServerObserver) -> Self {
        let (tracer, is_off) = (observer.trace_connection(), !observer.wants_phases());
        Self { tracer, is_off, ..Self::default() }
    }

    /// Starts the clock, at the first gradient. `sent` says how many bytes the connection has sent.
    #[inline]
    pub(super) fn begin(&mut self, sent: impl FnOnce() -> u64) {
        if self.clock.is_none() && !self.is_off {
            self.sent_before = sent();
            self.run_delay = Some(RunDelay::start());
            self.clock = Some(Clock::start(ThreadPhase(ServerPhase::Receive)));
        }
    }

    /// Bytes the connection had sent before its first gradient.
    pub(super) fn sent_before(&self) -> u64 {
        self.sent_before
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
            run_delay: self.run_delay.and_then(|delay| delay.elapsed()).map(|it| it.as_secs_f64()),
        }
    }
}
