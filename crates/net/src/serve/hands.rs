//! What the machine does to the world: frames are queued with their connections while the lock is
//! held, so that each gets its own in the order in which the machine said them, whichever thread
//! says what; and they are written afterwards.

use std::sync::{Arc, MutexGuard};

use paceline_exchange::{
    ConnId, FrameBody, GradientStage, Header, Host, Level, Server, ServerPhase, Stats,
};
use paceline_observe::{Clock, Phases};

use super::connection::Connection;
use super::{ConnectionTracer, Core, ServerTotals, Shared};

/// After how many gradients a thread tells others what it has done, and looks where they come from.
const NOW_AND_THEN: u32 = 64;

/// One thread's hands: it acts for the machine, and accounts for its own time.
pub(super) struct Hands<'s, 'a> {
    shared: &'s Shared<'a>,
    /// The connection that this thread serves, if it serves one.
    own: Option<Arc<Connection>>,
    /// Connections that something was queued for.
    outgoing: Vec<Arc<Connection>>,
    time: ThreadTime,
    gradients: u32,
}

impl<'s, 'a> Hands<'s, 'a> {
    pub(super) fn new(shared: &'s Shared<'a>, own: Option<Arc<Connection>>) -> Self {
        let time = ThreadTime { clock: None, tracer: None, is_off: false };
        Self { shared, own, outgoing: Vec::new(), time, gradients: 0 }
    }

    /// Has somebody follow what this thread does, or leaves its time untold.
    pub(super) fn attended_by(mut self, observer: &mut dyn super::ServerObserver) -> Self {
        self.time.tracer = observer.trace_connection();
        self.time.is_off = !observer.wants_phases();
        self
    }

    /// Lets the machine work, with these hands, while the lock is held.
    pub(super) fn with(
        &mut self,
        core: &mut Core<'_>,
        work: impl FnOnce(&mut Server, &mut Acting<'_, 's, 'a, '_>),
    ) {
        let Core { machine, observer, gone, .. } = core;
        work(machine, &mut Acting { hands: self, observer: *observer, gone });
    }

    /// Releases the lock, and writes what is to be written.
    pub(super) fn deliver(&mut self, core: MutexGuard<'_, Core<'_>>) {
        let is_over = core.machine.outcome().is_some();
        drop(core);
        if is_over {
            // If that fails, the run's end is noticed at the next tick.
            let _ = self.shared.waker.wake();
        }
        if !self.outgoing.is_empty() {
            self.time.enter(ServerPhase::Send);
            self.outgoing.drain(..).for_each(|to| to.write());
        }
    }

    /// A gradient has come: from the first one on this thread's time is accounted for. Says
    /// whether it is time again for what is done now and then.
    #[inline]
    pub(super) fn begin(&mut self) -> bool {
        self.time.begin();
        self.gradients = self.gradients.wrapping_add(1);
        self.gradients.is_multiple_of(NOW_AND_THEN)
    }

    pub(super) fn enter(&mut self, phase: ServerPhase) {
        self.time.enter(phase);
    }

    /// What this thread's connection has moved, and what its time went to.
    pub(super) fn served(&self) -> ServerTotals {
        let traffic = self.own.as_ref().map(|own| own.traffic()).unwrap_or_default();
        let (seconds, phases) = self.time.totals();
        ServerTotals { sent_bytes: traffic.sent, received_bytes: traffic.received, seconds, phases }
    }
}

/// The hands at work: with the watcher, which is behind the lock.
pub(super) struct Acting<'h, 's, 'a, 'w> {
    hands: &'h mut Hands<'s, 'a>,
    observer: &'w mut dyn super::ServerObserver,
    gone: &'w ServerTotals,
}

impl Host for Acting<'_, '_, '_, '_> {
    fn send(&mut self, to: ConnId, header: Header, body: FrameBody<'_>) {
        let own = self.hands.own.as_ref().filter(|own| own.id() == to).cloned();
        let Some(to) = own.or_else(|| self.hands.shared.find(to)) else { return };
        to.queue(&header.encode(), body.bytes());
        self.hands.outgoing.push(to);
    }

    fn close(&mut self, conn: ConnId, _reason: &str) {
        let connection = self.hands.shared.find(conn);
        if let Some(connection) = connection {
            connection.close();
        }
    }

    fn note(&mut self, level: Level, text: &str) {
        self.observer.note(level, text);
    }

    fn report(&mut self, stats: &Stats) -> Vec<u8> {
        let mut served = *self.gone;
        for connection in self.hands.shared.connections().iter().flatten() {
            let is_own = self.hands.own.as_ref().is_some_and(|own| own.id() == connection.id());
            served.add(&if is_own { self.hands.served() } else { connection.served() });
        }
        self.observer.report(&served, stats)
    }

    fn checkpoint(&mut self, step: u64, server: &Server) -> bool {
        self.observer.checkpoint(step, server)
    }

    fn phase(&mut self, phase: ServerPhase) {
        self.hands.time.enter(phase);
    }

    fn trace(&mut self, stage: GradientStage, slot: usize, step: u64) {
        if let Some(tracer) = &mut self.hands.time.tracer {
            tracer.gradient_reached(stage, slot, step);
        }
    }
}

/// A phase of a thread that serves a connection, for a [`Clock`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadPhase(ServerPhase);

impl Phases<4> for ThreadPhase {
    const NAMES: [&'static str; 4] = ["receive", "apply", "send", "idle"];

    fn index(self) -> usize {
        match self.0 {
            ServerPhase::Receive => 0,
            ServerPhase::Apply => 1,
            ServerPhase::Send => 2,
            ServerPhase::Idle => 3,
        }
    }
}

/// The time of one thread, from its first gradient on.
struct ThreadTime {
    /// Runs from the first gradient on.
    clock: Option<Clock<ThreadPhase, 4>>,
    /// Records the thread's phases, if the observer wants that.
    tracer: Option<Box<dyn ConnectionTracer>>,
    /// The observer does not want phases: the clock is never started.
    is_off: bool,
}

impl ThreadTime {
    /// Starts the clock at the first gradient.
    #[inline]
    fn begin(&mut self) {
        if self.clock.is_none() && !self.is_off {
            self.clock = Some(Clock::start(ThreadPhase(ServerPhase::Receive)));
        }
    }

    #[inline]
    fn enter(&mut self, phase: ServerPhase) {
        let Some(clock) = &mut self.clock else { return };
        if let Some(span) = clock.change_to(ThreadPhase(phase))
            && let Some(tracer) = &mut self.tracer
        {
            tracer.phase_ended(span.phase.index(), span.begun, span.ended);
        }
    }

    /// Seconds since the first gradient, in total and in each phase.
    fn totals(&self) -> (f64, [f64; 4]) {
        let Some(clock) = &self.clock else { return (0.0, [0.0; 4]) };
        let totals = clock.totals();
        (totals.elapsed().as_secs_f64(), totals.seconds().map(|(_, seconds)| seconds))
    }
}
