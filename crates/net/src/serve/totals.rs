//! The phases of a connection's thread, and totals over all threads.

use paceline_exchange::ServerPhase;
use paceline_observe::Phases;

/// A phase of a connection's thread, for a [`Clock`](paceline_observe::Clock).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadPhase(pub(super) ServerPhase);

impl Phases<4> for ThreadPhase {
    const NAMES: [&'static str; 4] = ["receive", "apply", "send", paceline_observe::phases::IDLE];

    fn index(self) -> usize {
        match self.0 {
            ServerPhase::Receive => 0,
            ServerPhase::Apply => 1,
            ServerPhase::Send => 2,
            ServerPhase::Idle => 3,
        }
    }
}

/// What went through a server's connections, and what their threads did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerTotals {
    /// Bytes sent to all clients.
    pub sent_bytes: u64,
    /// The part of `sent_bytes` that connections sent before their first gradient.
    pub sent_before_bytes: u64,
    /// Bytes received from all clients.
    pub received_bytes: u64,
    /// Seconds from the first gradient of a connection to its end; the longest of all connections.
    pub seconds: f64,
    /// Seconds that the connections' threads spent in each of [`PHASES`](Self::PHASES), summed
    /// over all threads.
    pub phases: [f64; 4],
    /// Seconds that the connections' threads were ready to run but had no core, summed over all
    /// threads; `None` if the system does not count them.
    pub run_delay_s: Option<f64>,
}

impl ServerTotals {
    /// The phases of a connection's thread, by name.
    pub const PHASES: [&'static str; 4] = ThreadPhase::NAMES;

    pub(super) fn add(&mut self, other: &ServerTotals) {
        self.sent_bytes += other.sent_bytes;
        self.sent_before_bytes += other.sent_before_bytes;
        self.received_bytes += other.received_bytes;
        self.seconds = self.seconds.max(other.seconds);
        self.phases.iter_mut().zip(other.phases).for_each(|(sum, more)| *sum += more);
        self.run_delay_s = match (self.run_delay_s, other.run_delay_s) {
            (Some(sum), Some(more)) => Some(sum + more),
            (sum, more) => sum.or(more),
        };
    }
}
