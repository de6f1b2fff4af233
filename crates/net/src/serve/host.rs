//! What the server's state machine can do: send, close, log, report.
//!
//! Frames are queued with their connections while the lock is held, so that each connection gets
//! them in the order in which the server sent them, whichever thread that happens on. They are
//! written after the lock is released.

use std::sync::{Arc, MutexGuard};

use paceline_exchange::{
    ConnId, FrameBody, Generation, GradientStage, Header, Host, Level, Server, ServerPhase, Stats,
    Store,
};

use super::connection::ClientConnection;
use super::observer::ServerObserver;
use super::shared::{ServerCore, ServerShared};
use super::thread_time::ThreadTime;
use super::totals::ServerTotals;

/// After how many gradients a thread publishes its totals and checks its core.
const CHECK_EVERY_GRADIENTS: u32 = 64;

/// Acts for the server on one thread, and accounts for the thread's time.
pub(super) struct ServerHost<'s, 'a> {
    shared: &'s ServerShared<'a>,
    /// The connection that this thread serves, if it serves one.
    own: Option<Arc<ClientConnection>>,
    /// Connections that frames were queued for.
    outgoing: Vec<Arc<ClientConnection>>,
    time: ThreadTime,
    gradients: u32,
    /// Notes of the server, if the caller decides which to write.
    notes: Option<Vec<ServerNote>>,
}

/// A note of the server.
pub(super) struct ServerNote {
    pub(super) level: Level,
    pub(super) text: String,
}

impl<'s, 'a> ServerHost<'s, 'a> {
    /// For the thread of a connection.
    pub(super) fn of_connection(
        shared: &'s ServerShared<'a>,
        connection: Arc<ClientConnection>,
    ) -> Self {
        let time = ThreadTime::observed_by(shared.core().observer);
        let own = Some(connection);
        Self { shared, own, outgoing: Vec::new(), time, gradients: 0, notes: None }
    }

    /// For the thread that accepts, whose time is not measured.
    pub(super) fn of_acceptor(shared: &'s ServerShared<'a>) -> Self {
        let time = ThreadTime::default();
        Self { shared, own: None, outgoing: Vec::new(), time, gradients: 0, notes: None }
    }

    /// For the thread that accepts, while the server answers a `Hello`. It keeps the server's
    /// notes.
    pub(super) fn of_greeting(shared: &'s ServerShared<'a>) -> Self {
        Self { notes: Some(Vec::new()), ..Self::of_acceptor(shared) }
    }

    /// The notes that were kept. Later ones are written at once.
    pub(super) fn take_notes(&mut self) -> Vec<ServerNote> {
        self.notes.take().unwrap_or_default()
    }

    /// Runs `work` on the server, which is locked.
    pub(super) fn with(
        &mut self,
        core: &mut ServerCore<'_>,
        work: impl FnOnce(&mut Server, &mut LockedHost<'_, 's, 'a, '_>),
    ) {
        let ServerCore { server, observer, closed, .. } = core;
        work(server, &mut LockedHost { host: self, observer: *observer, closed });
    }

    /// Releases the lock, and writes the frames that were queued under it.
    pub(super) fn deliver(&mut self, core: MutexGuard<'_, ServerCore<'_>>) {
        let is_over = core.server.outcome().is_some();
        drop(core);
        if is_over {
            self.shared.wake_acceptor();
        }
        if !self.outgoing.is_empty() {
            self.time.enter(ServerPhase::Send);
            self.outgoing.drain(..).for_each(|to| to.write());
        }
    }

    /// A gradient has arrived. Returns whether the thread must publish its totals and check its
    /// core, as it does every 64 gradients.
    #[inline]
    pub(super) fn gradient_arrived(&mut self) -> bool {
        let Self { time, own, .. } = self;
        time.begin(|| own.as_ref().map_or(0, |own| own.traffic().sent));
        self.gradients = self.gradients.wrapping_add(1);
        self.gradients.is_multiple_of(CHECK_EVERY_GRADIENTS)
    }

    pub(super) fn enter(&mut self, phase: ServerPhase) {
        self.time.enter(phase);
    }

    /// The traffic of this thread's connection, and where its time went.
    pub(super) fn totals(&self) -> ServerTotals {
        let traffic = self.own.as_ref().map(|own| own.traffic()).unwrap_or_default();
        let seconds = self.time.totals();
        ServerTotals {
            sent_bytes: traffic.sent,
            sent_before_bytes: self.time.sent_before(),
            received_bytes: traffic.received,
            seconds: seconds.total,
            phases: seconds.phases,
            run_delay_s: seconds.run_delay,
        }
    }

    fn is_own(&self, id: ConnId) -> bool {
        self.own.as_ref().is_some_and(|own| own.id() == id)
    }
}

/// A host while its thread holds the lock, and with it the observer.
pub(super) struct LockedHost<'h, 's, 'a, 'o> {
    host: &'h mut ServerHost<'s, 'a>,
    observer: &'o mut dyn ServerObserver,
    closed: &'o ServerTotals,
}

impl Host for LockedHost<'_, '_, '_, '_> {
    fn send(&mut self, to: ConnId, header: Header, body: FrameBody<'_>) {
        let own = self.host.own.as_ref().filter(|own| own.id() == to).cloned();
        let Some(to) = own.or_else(|| self.host.shared.find(to)) else { return };
        to.queue(&header.encode(), body);
        self.host.outgoing.push(to);
    }

    fn close(&mut self, conn: ConnId, _reason: &str) {
        if let Some(connection) = self.host.shared.find(conn) {
            connection.close();
        }
    }

    fn address(&self, conn: ConnId) -> Option<String> {
        Some(self.host.shared.find(conn)?.stream().peer().to_string())
    }

    fn note(&mut self, level: Level, text: &str) {
        match &mut self.host.notes {
            Some(notes) => notes.push(ServerNote { level, text: text.to_owned() }),
            None => self.observer.note(level, text),
        }
    }

    fn report(&mut self, stats: &Stats, store: &Store) -> Vec<u8> {
        let mut totals = *self.closed;
        for connection in self.host.shared.connections().iter().flatten() {
            let is_own = self.host.is_own(connection.id());
            totals.add(&if is_own { self.host.totals() } else { connection.totals() });
        }
        self.observer.report(&totals, stats, store)
    }

    fn checkpoint(&mut self, step: u64, server: &Server) {
        self.observer.checkpoint(step, server);
    }

    fn last_checkpoint(&self) -> Option<u64> {
        self.observer.last_checkpoint()
    }

    fn knows_generation(&mut self, generation: Generation) -> bool {
        self.observer.knows_generation(generation)
    }

    fn phase(&mut self, phase: ServerPhase) {
        self.host.time.enter(phase);
    }

    fn trace(&mut self, stage: GradientStage, slot: usize, step: u64) {
        self.host.time.gradient_reached(stage, slot, step);
    }
}
