//! The figures that a task reports about itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// What only the task itself knows. Its threads set the gauges, and the sampler reads them.
#[derive(Debug, Default)]
pub struct Gauges {
    step: AtomicU64,
    peers: Vec<ByteGauge>,
    /// Traffic of peers that are not known.
    others: ByteGauge,
}

/// Bytes sent and received so far.
#[derive(Debug, Default)]
struct ByteGauge {
    sent: AtomicU64,
    received: AtomicU64,
}

/// Bytes sent and received so far, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ByteTotals {
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl ByteGauge {
    #[inline]
    fn set(&self, sent_bytes: u64, received_bytes: u64) {
        self.sent.store(sent_bytes, Ordering::Relaxed);
        self.received.store(received_bytes, Ordering::Relaxed);
    }

    fn get(&self) -> ByteTotals {
        ByteTotals {
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
        }
    }
}

impl Gauges {
    /// The gauges of a task with this number of peers.
    pub fn of_peers(peers: usize) -> Self {
        Self { peers: (0..peers).map(|_| ByteGauge::default()).collect(), ..Self::default() }
    }

    /// Sets the global step of the task.
    #[inline]
    pub fn at_step(&self, step: u64) {
        self.step.store(step, Ordering::Relaxed);
    }

    /// Sets the bytes sent to and received from a peer so far. Those of an unknown peer count only
    /// in the sum.
    #[inline]
    pub fn moved(&self, peer: usize, sent_bytes: u64, received_bytes: u64) {
        self.peers.get(peer).unwrap_or(&self.others).set(sent_bytes, received_bytes);
    }

    /// The global step of the task.
    pub(super) fn step(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }

    /// Bytes sent to and received from each peer so far.
    pub(super) fn by_peer(&self) -> Vec<ByteTotals> {
        self.peers.iter().map(ByteGauge::get).collect()
    }

    /// Bytes sent and received so far.
    pub(super) fn total(&self) -> ByteTotals {
        let all = self.peers.iter().chain([&self.others]).map(ByteGauge::get);
        all.fold(ByteTotals::default(), |sum, more| ByteTotals {
            sent: sum.sent + more.sent,
            received: sum.received + more.received,
        })
    }
}
