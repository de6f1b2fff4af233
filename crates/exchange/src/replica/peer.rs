//! What a replica knows of its peers and of the current step.

use crate::keyed_sum::KeyedBuffer;
use crate::{Flags, Header};

/// The slot that decides when to stop, and that collects the reports.
pub(super) const COORDINATOR: usize = 0;

/// What is known of one peer. A replica's own entry is unused.
#[derive(Debug, Default)]
pub(super) struct ReplicaPeer {
    pub(super) incarnation: Option<u64>,
    pub(super) is_connected: bool,
    /// How far it was when it connected; `None` if its state was incomplete.
    pub(super) position: Option<ReplicaPosition>,
    /// What still has to be sent to it until it is as far as this replica.
    pub(super) transfer: Option<StateTransfer>,
    /// For a sparse model: the key or place from which the transfer continues.
    pub(super) cursor: usize,
    /// For a sparse model: the frame of the transfer that is being sent.
    pub(super) out: Vec<u8>,
    /// For a sparse model: the frame that is being received.
    pub(super) frame: Vec<f32>,
    /// For a sparse model: its gradient, as far as it has arrived.
    pub(super) keyed: KeyedBuffer,
    /// Whether its process has just begun, where gradients travel as changes.
    pub(super) is_fresh: bool,
    /// If it is a newcomer: the next frame with what this worker knows of gradients.
    pub(super) known_to_send: Option<usize>,
    /// If this worker is a newcomer: the next such frame from it.
    pub(super) known_awaited: Option<usize>,
    /// Its gradient of the chunk whose turn it is.
    pub(super) gradient: Vec<f32>,
    /// Changes on their way from the connection.
    pub(super) changes: Vec<u16>,
    pub(super) has_gradient: bool,
    pub(super) progress: PeerProgress,
    /// Its contribution to the current step, once the first chunk has arrived.
    pub(super) contribution: Option<Contribution>,
    pub(super) report: Option<Vec<u8>>,
    pub(super) said_bye: bool,
}

/// How far the current step has come with a peer, in chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerProgress {
    /// Of its shard: gradients sent to it.
    pub(super) gradients_sent: usize,
    /// Of this worker's shard: gradients received from the peer.
    pub(super) gradients_received: usize,
    /// Of this worker's shard: updated chunks sent to the peer.
    pub(super) updates_sent: usize,
    /// Of its shard: updated chunks received from it.
    pub(super) updates_received: usize,
    /// For a sparse model: frames of this worker's gradient sent to the peer.
    pub(super) frames_sent: usize,
    /// For a sparse model: frames of its gradient received.
    pub(super) frames_received: usize,
    /// The next frame of own factors to send to it.
    pub(super) factors_sent: FactorPosition,
    /// The next frame of its factors to receive.
    pub(super) factors_received: FactorPosition,
}

/// A frame with factors, by its place in the order in which they travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FactorPosition {
    /// Pieces with factors before this one.
    pub(super) nth: usize,
    /// The frame of the piece.
    pub(super) chunk: usize,
}

/// What a worker states with its gradient of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contribution {
    pub(super) examples: u32,
    pub(super) has_left: bool,
    pub(super) stops: bool,
    pub(super) takes_checkpoint: bool,
    pub(super) digest: u64,
}

impl Contribution {
    /// What the coordinator decides, as flags.
    pub(super) fn flags(&self) -> Flags {
        let stop = if self.stops { Flags::STOP } else { Flags::NONE };
        if self.takes_checkpoint { stop | Flags::CHECKPOINT } else { stop }
    }
}

/// A step in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentStep {
    pub(super) own: Contribution,
    /// Chunks of this worker's shard that have been reduced.
    pub(super) reduced: usize,
}

/// How far a piece of the current step is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PieceProgress {
    /// Its gradient or its factors have been handed in.
    pub(super) has_gradient: bool,
    /// Its output may be written.
    pub(super) has_output: bool,
    /// Chunks whose output is still to come.
    pub(super) outputs_left: usize,
    /// The completion has been reported.
    pub(super) is_reported: bool,
}

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReplicaPosition {
    /// Updates made.
    pub(super) step: u64,
    /// Whether there will be no more.
    pub(super) is_over: bool,
}

impl ReplicaPosition {
    /// Reads the position from the header of a greeting.
    pub(super) fn decode(header: &Header, step: u64) -> Option<Self> {
        let is_over = header.flags.contains(Flags::LEFT);
        (!header.flags.contains(Flags::PARTIAL)).then_some(Self { step, is_over })
    }
}

/// One piece of a replica's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StatePiece {
    pub(super) column: usize,
    pub(super) index: usize,
}

impl StatePiece {
    /// The piece after this one, if a column has `pieces`.
    pub(super) fn next(self, pieces: usize) -> Self {
        let Self { column, index } = self;
        if index + 1 < pieces {
            Self { column, index: index + 1 }
        } else {
            Self { column: column + 1, index: 0 }
        }
    }
}

/// The state that a peer still has to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateTransfer {
    pub(super) next: StatePiece,
    /// The column after the last one.
    pub(super) end: usize,
}

/// A replica that is behind, and the peer that sends it the missing state.
#[derive(Clone, Debug)]
pub(super) struct CatchUp {
    pub(super) donor: usize,
    /// Where the replica will be.
    pub(super) position: ReplicaPosition,
    /// The piece that comes next; `None` before the first.
    pub(super) next: Option<StatePiece>,
}
