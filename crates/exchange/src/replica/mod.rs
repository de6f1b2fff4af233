//! One worker of a run without servers: a replica of the parameters, and its part in keeping all
//! replicas the same.
//!
//! Every slot owns a shard. In a step everybody sends everybody else the gradient of their shard
//! ([`FrameKind::GradientChunk`](crate::Kind::Share)); the owner takes the mean in the order of the slots,
//! updates its shard, and sends the fresh parameters to all ([`FrameKind::UpdatedChunk`](crate::Kind::Fresh)).
//! That is a reduce-scatter and an all-gather, so each sends 2(n - 1)/n of the parameters' bytes,
//! which is the least there is; but between all pairs and not around a ring, so that it takes two
//! hops however many workers there are, and the sum has the order, and the bits, of `sync`.
//! The optimizer and its slots are there once, cut over the owners.
//!
//! Two workers of a small model do without the second hop: each owns all of it, sends the whole
//! gradient and makes the whole update. That is as many bytes, and half the time.
//!
//! A run that is to survive the loss of a worker does otherwise: what the owner sends is the mean,
//! and everybody makes the whole update once the whole mean is there. So a replica is always
//! before a step or behind it, never in between, and any one of them is all that a newcomer needs
//! (see `regroup.rs`). That is as many bytes, for more memory and arithmetic.
//!
//! A chunk is held until those of all peers are there, then it is added up while it is in the
//! cache. What comes before its turn stays in the connection, which is the only queue.

mod config;
mod digest;
mod ending;
mod greeting;
mod receive;
mod regroup;
mod state;
mod step;
#[cfg(test)]
mod tests;

use std::ops::Range;

use paceline_model::{Layout, OptimizerSpec, OptimizerState};
use thiserror::Error;

use crate::shard::chunk_ranges_of;
use crate::{ProtocolError, TaskReport, shard_ranges};

pub use config::ReplicaConfig;
use digest::digest;
pub use greeting::GreetError;
pub use receive::PeerTarget;
use regroup::Position;
use state::{Behind, Owed};
pub use step::{PeerFrame, PeerSource};

/// The slot that decides when to stop, and that gathers the reports.
const CHIEF: usize = 0;

/// One worker of a run without servers, without its sockets.
pub struct Replica {
    config: ReplicaConfig,
    params: Vec<f32>,
    /// Of what this worker updates; see [`ReplicaConfig::updates`].
    optimizer: OptimizerState,
    /// The chunks of each slot's shard, as ranges of all parameters; at least one each, so that
    /// everybody hears from everybody in every step.
    chunks: Vec<Vec<Range<usize>>>,
    /// Everybody owns everything.
    is_whole: bool,
    peers: Vec<Peer>,
    /// The mean of a chunk; in a run that recovers, of everything.
    mean: Vec<f32>,
    /// The step that it is the mean of, if it is whole.
    mean_of: Option<u64>,
    /// Updates made.
    global_step: u64,
    /// The step in the making.
    turn: Option<Turn>,
    stop_asked: bool,
    checkpoint_asked: bool,
    /// The last step that a checkpoint was to be taken of.
    checkpoint_of: Option<u64>,
    is_over: bool,
    /// Not everybody is here (again).
    is_gathering: bool,
    /// Somebody is further, and sends what is missing here.
    behind: Option<Behind>,
    /// That was begun and not ended: the replica is of no use.
    is_torn: bool,
}

/// What is known of one peer. The replica's own place among them is not used.
#[derive(Debug, Default)]
struct Peer {
    incarnation: Option<u64>,
    is_here: bool,
    /// How far it was when it came; none if its replica is of no use.
    position: Option<Position>,
    /// What it still has to be sent to be as far as this replica.
    owed: Option<Owed>,
    /// Its share of the chunk whose turn it is.
    held: Vec<f32>,
    is_held: bool,
    progress: PeerProgress,
    /// What it said of the present step, if it has.
    said: Option<Said>,
    report: Option<Vec<u8>>,
    said_bye: bool,
}

/// How far the present step has come with a peer, in chunks.
#[derive(Clone, Copy, Debug, Default)]
struct PeerProgress {
    /// Of its shard, sent to it.
    shares_sent: usize,
    /// Of the own shard, come from it.
    shares_got: usize,
    /// Of the own shard, sent to it.
    fresh_sent: usize,
    /// Of its shard, come from it.
    fresh_got: usize,
}

/// What a peer says with its shares of a step.
#[derive(Clone, Copy, Debug)]
struct Said {
    examples: u32,
    has_left: bool,
    stops: bool,
    keeps: bool,
    digest: u64,
}

/// A step in the making.
#[derive(Clone, Copy, Debug)]
struct Turn {
    mine: Said,
    /// Chunks of the own shard that are done.
    made: usize,
}

/// What a frame from a peer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// A piece of the present step.
    Progress,
    /// The run has failed there, and why.
    Abort(String),
    /// To the chief: it has left, and is to be told goodbye.
    Left,
    /// The chief has counted our leave.
    Bye,
}

/// Why a run without servers cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReplicaError {
    /// A peer does not keep to the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// Replicas that should be the same are not.
    #[error("after step {step} the parameters of {left} and {right} differ")]
    Differ {
        /// How many updates had been made.
        step: u64,
        /// This worker.
        left: String,
        /// Whose parameters are others.
        right: String,
    },
    /// All have lost whoever was sending them theirs.
    #[error("no worker has the parameters any more")]
    NoReplicaLeft,
}

impl Replica {
    /// A replica with the parameters that all begin with.
    ///
    /// # Panics
    /// If the configuration contradicts itself, or the parameters do not fit the layout.
    pub fn new(
        config: ReplicaConfig,
        params: Vec<f32>,
        optimizer: OptimizerSpec,
        layout: &Layout,
    ) -> Self {
        let updates = config.updates(params.len());
        assert_eq!(params.len(), layout.len(), "parameters");
        Self::resume(config, params, OptimizerState::new(optimizer, layout, updates), 0)
    }

    /// A replica that goes on where a checkpoint was taken, with what was in it.
    ///
    /// # Panics
    /// If the configuration contradicts itself.
    pub fn resume(
        config: ReplicaConfig,
        params: Vec<f32>,
        optimizer: OptimizerState,
        global_step: u64,
    ) -> Self {
        let (workers, total) = (config.names.len(), params.len());
        assert!(config.slot < workers, "slot {} of {workers}", config.slot);
        assert!(config.check_every > 0, "replicas are compared now and then");
        let is_whole = config.is_whole(total);
        let shards = match is_whole {
            true => vec![0..total; workers],
            false => shard_ranges(total, workers),
        };
        let chunks = shards.iter().map(|shard| cut(shard, config.chunk_floats)).collect();
        Self {
            params,
            optimizer,
            chunks,
            is_whole,
            peers: (0..workers).map(|_| Peer::default()).collect(),
            mean: if config.recovers { vec![0.0; total] } else { Vec::new() },
            mean_of: None,
            global_step,
            turn: None,
            stop_asked: false,
            checkpoint_asked: false,
            checkpoint_of: None,
            is_over: config.stop_steps.is_some_and(|steps| global_step >= steps),
            is_gathering: true,
            behind: None,
            is_torn: false,
            config,
        }
    }

    /// The parameters.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// Updates made.
    pub fn global_step(&self) -> u64 {
        self.global_step
    }

    /// Which worker this is.
    pub fn slot(&self) -> usize {
        self.config.slot
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.peers.len()
    }

    /// What people call the worker in a slot.
    pub fn name(&self, slot: usize) -> &str {
        &self.config.names[slot]
    }

    /// Whether the last step has been made, so that nothing is left but to leave.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The other workers' slots.
    pub fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let slot = self.config.slot;
        (0..self.peers.len()).filter(move |&other| other != slot)
    }

    /// Asks everybody to stop; only the chief may. The step that is made next is the last.
    ///
    /// # Panics
    /// If this is not the chief.
    pub fn request_stop(&mut self) {
        assert_eq!(self.config.slot, CHIEF, "only the chief decides when to stop");
        self.stop_asked = true;
        // Nobody else needs to hear of it.
        self.is_over |= self.peers.len() == 1;
    }

    /// Asks everybody to take a checkpoint of what comes of the step that is made next; only the
    /// chief may.
    ///
    /// # Panics
    /// If this is not the chief.
    pub fn request_checkpoint(&mut self) {
        assert_eq!(self.config.slot, CHIEF, "only the chief decides when to take a checkpoint");
        self.checkpoint_asked = true;
    }

    /// Whether a checkpoint is to be taken of the parameters as they are now.
    pub fn is_checkpoint_due(&self) -> bool {
        self.checkpoint_of == Some(self.global_step)
    }

    /// Of the own shard, as it goes into a checkpoint: the parameters, then each slot.
    pub fn shard_columns(&self) -> impl Iterator<Item = &[f32]> {
        let shard = self.config.shard(self.params.len());
        let start = self.config.updates(self.params.len()).start;
        let inside = shard.start - start..shard.end - start;
        let slots = self.optimizer.states().map(move |(_, slot)| &slot[inside.clone()]);
        [&self.params[shard]].into_iter().chain(slots)
    }

    /// Whether the run goes on when a worker is lost and comes back.
    pub fn recovers(&self) -> bool {
        self.config.recovers
    }

    /// The reports of all other workers, by slot; to the chief, once all have left.
    pub fn reports(&self) -> Option<Vec<TaskReport>> {
        let report = |slot: usize| {
            let bytes = self.peers[slot].report.clone()?;
            Some(TaskReport { slot: Some(slot as u32), bytes })
        };
        self.others().map(report).collect()
    }
}

/// The chunks of a shard, as ranges of all parameters.
fn cut(shard: &Range<usize>, chunk_floats: usize) -> Vec<Range<usize>> {
    let mut chunks = chunk_ranges_of(shard.len(), chunk_floats);
    for chunk in &mut chunks {
        *chunk = shard.start + chunk.start..shard.start + chunk.end;
    }
    if chunks.is_empty() {
        chunks.push(shard.start..shard.start);
    }
    chunks
}
