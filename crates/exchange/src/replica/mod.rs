//! A replica: one worker of a run without servers, with a full copy of the parameters.
//!
//! The first slots own a shard each, all of them unless the model is small
//! ([`ReplicaConfig::owners`]). In a step each worker sends every owner the gradient of the owner's
//! shard ([`FrameKind::GradientChunk`](crate::FrameKind::GradientChunk)). The owner
//! takes the mean in slot order, updates its shard, and sends the updated parameters to all
//! ([`FrameKind::UpdatedChunk`](crate::FrameKind::UpdatedChunk)). That is a reduce-scatter and an
//! all-gather: each worker sends 2(n - 1)/n of the parameters' bytes, which is the minimum. But the
//! frames go between all pairs and not around a ring, so a step takes two hops however many
//! workers there are, and the sum has the order, and the bits, of `sync`. The optimizer's state
//! exists once, divided among the owners.
//!
//! Two workers of a small model skip the second hop: each owns the whole model, sends the whole
//! gradient and makes the whole update. That is as many bytes in half the time.
//!
//! A run that must survive the loss of a worker works differently: the owner sends the mean, and
//! every worker makes the whole update once it has the whole mean. So a replica is always before a
//! step or after it, never in between, and any one of them has everything that a newcomer needs
//! (`regroup.rs`, `catch_up.rs`). That is as many bytes, for more memory and arithmetic.
//!
//! A step may also be made in pieces, while the gradient is still being computed, and exchange
//! factors of gradients in place of gradients (`pieces.rs`, `factors.rs`).
//!
//! Where numbers are rounded to bf16, gradients and means travel as changes (`known.rs`).
//!
//! A sparse model has a table in place of the parameters, and every worker sums everything
//! (`keyed.rs`, `entries.rs`).
//!
//! A chunk is kept until those of all peers have arrived, and is then summed while it is in the
//! cache. Frames that arrive early stay in the connection, which is the only queue.

mod catch_up;
mod chunk_plan;
mod config;
mod digest;
mod ending;
mod entries;
mod event;
mod factors;
mod greeting;
mod kept_state;
mod keyed;
mod known;
mod memory;
mod newcomer;
mod peer;
mod piece_route;
mod pieces;
mod receive;
mod regroup;
mod send;
mod state;
mod step;
mod step_piece;
mod table_replica;

pub use config::ReplicaConfig;
pub use event::{ReplicaError, ReplicaEvent};
pub use greeting::GreetError;
pub use known::KnownPart;
pub use memory::{StepMemory, WholeGradient};
pub use piece_route::{ExchangeConditions, FactorChoice, route_pieces, travels_in_pieces};
pub use pieces::{CompletedPiece, Contributor};
pub use receive::PeerTarget;
pub use send::{PeerFrame, PeerSource};
pub use state::{LentState, Replica};
pub use step_piece::StepPiece;
