//! What the machine does to the world: frames are queued with their connections while the lock is
//! held, so that each gets its own in the order in which the machine said them, whichever thread
//! says what; and they are written afterwards.

use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use paceline_exchange::{
    ConnId, FrameBody, GradientStage, Header, Host, Level, Server, ServerPhase, Stats,
};

use super::connection::Connection;
use super::{Core, Follower, Served, Shared};

/// After how many gradients a thread tells others what it has done, and looks where they come from.
const NOW_AND_THEN: u32 = 64;

/// One thread's hands: it acts for the machine, and accounts for its own time.
pub(super) struct Hands<'s, 'a> {
    shared: &'s Shared<'a>,
    /// The connection that this thread serves, if it serves one.
    own: Option<Arc<Connection>>,
    /// Connections that something was queued for.
    outgoing: Vec<Arc<Connection>>,
    clock: PhaseClock,
    gradients: u32,
}

impl<'s, 'a> Hands<'s, 'a> {
    pub(super) fn new(shared: &'s Shared<'a>, own: Option<Arc<Connection>>) -> Self {
        Self { shared, own, outgoing: Vec::new(), clock: PhaseClock::new(), gradients: 0 }
    }

    /// Has somebody follow what this thread does, or leaves its time untold.
    pub(super) fn attended_by(mut self, watcher: &mut dyn super::Watcher) -> Self {
        self.clock.follower = watcher.follow();
        self.clock.is_off = !watcher.wants_phases();
        self
    }

    /// Lets the machine work, with these hands, while the lock is held.
    pub(super) fn with(
        &mut self,
        core: &mut Core<'_>,
        work: impl FnOnce(&mut Server, &mut Acting<'_, 's, 'a, '_>),
    ) {
        let Core { machine, watcher, gone, .. } = core;
        work(machine, &mut Acting { hands: self, watcher: *watcher, gone });
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
            self.clock.enter(ServerPhase::Send);
            self.outgoing.drain(..).for_each(|to| to.write());
        }
    }

    /// A gradient has come: from the first one on this thread's time is accounted for. Says
    /// whether it is time again for what is done now and then.
    #[inline]
    pub(super) fn begin(&mut self) -> bool {
        self.clock.begin();
        self.gradients = self.gradients.wrapping_add(1);
        self.gradients.is_multiple_of(NOW_AND_THEN)
    }

    pub(super) fn enter(&mut self, phase: ServerPhase) {
        self.clock.enter(phase);
    }

    /// What this thread's connection has moved, and what its time went to.
    pub(super) fn served(&self) -> Served {
        let (sent_bytes, received_bytes) = self.own.as_ref().map_or((0, 0), |own| own.moved());
        let (seconds, phases) = self.clock.totals();
        Served { sent_bytes, received_bytes, seconds, phases }
    }
}

/// The hands at work: with the watcher, which is behind the lock.
pub(super) struct Acting<'h, 's, 'a, 'w> {
    hands: &'h mut Hands<'s, 'a>,
    watcher: &'w mut dyn super::Watcher,
    gone: &'w Served,
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
        self.watcher.note(level, text);
    }

    fn report(&mut self, stats: &Stats) -> Vec<u8> {
        let mut served = *self.gone;
        for connection in self.hands.shared.connections().iter().flatten() {
            let is_own = self.hands.own.as_ref().is_some_and(|own| own.id() == connection.id());
            served.add(&if is_own { self.hands.served() } else { connection.served() });
        }
        self.watcher.report(&served, stats)
    }

    fn checkpoint(&mut self, step: u64, server: &Server) -> bool {
        self.watcher.checkpoint(step, server)
    }

    fn phase(&mut self, phase: ServerPhase) {
        self.hands.clock.enter(phase);
    }

    fn trace(&mut self, trail: GradientStage, slot: usize, step: u64) {
        if let Some(follower) = &mut self.hands.clock.follower {
            follower.trail(trail, slot, step);
        }
    }
}

/// Where one thread's time goes, from the first gradient on.
struct PhaseClock {
    began: Option<Instant>,
    current: ServerPhase,
    since: Instant,
    spent: [Duration; 4],
    /// Who is told of every phase, if anybody is.
    follower: Option<Box<dyn Follower>>,
    /// Nobody wants to know.
    is_off: bool,
}

impl PhaseClock {
    fn new() -> Self {
        Self {
            began: None,
            current: ServerPhase::Idle,
            since: Instant::now(),
            spent: [Duration::ZERO; 4],
            follower: None,
            is_off: false,
        }
    }

    /// The first gradient is here, if this is not known yet.
    #[inline]
    fn begin(&mut self) {
        if self.began.is_none() && !self.is_off {
            let now = Instant::now();
            (self.began, self.current, self.since) = (Some(now), ServerPhase::Receive, now);
        }
    }

    /// Nothing is read where nothing changes.
    #[inline]
    fn enter(&mut self, phase: ServerPhase) {
        if self.began.is_none() || phase == self.current {
            return;
        }
        let now = Instant::now();
        if let Some(follower) = &mut self.follower {
            follower.phase(Served::index(self.current), self.since, now);
        }
        self.spent[Served::index(self.current)] += now - self.since;
        (self.current, self.since) = (phase, now);
    }

    /// Seconds since the first gradient, and what they went to.
    fn totals(&self) -> (f64, [f64; 4]) {
        let Some(began) = self.began else { return (0.0, [0.0; 4]) };
        let now = Instant::now();
        let mut spent = self.spent;
        spent[Served::index(self.current)] += now - self.since;
        ((now - began).as_secs_f64(), spent.map(|time| time.as_secs_f64()))
    }
}
