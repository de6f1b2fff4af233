//! A server: one shard of the parameters, and the rules for changing it.
//!
//! `state.rs` holds the server's state and `inputs.rs` its inputs: a connection opened, a frame
//! arrived, a connection closed, time passed. Behind them are the handshake (`handshake.rs`), the
//! hot path from a push to its answer (`push.rs`, `apply.rs`, `answer.rs`), pulls (`pull.rs`) and
//! what only sparse models need (`sparse.rs`), the waits and their limits (`waits.rs`),
//! checkpoints (`checkpoint.rs`), the assignment of slots to processes (`roster.rs`,
//! `assign.rs`) and the end of a run (`ending.rs`).
//!
//! A client that breaks the protocol loses its connection and nothing else happens. If it was a
//! worker, the server treats it like any other lost worker.

mod answer;
mod apply;
mod assign;
mod checkpoint;
mod connections;
mod ending;
mod handshake;
mod host;
mod inputs;
#[cfg(test)]
mod inspect;
mod marks;
mod payload_limits;
mod pull;
mod push;
mod roster;
mod sparse;
mod state;
mod violation;
mod waits;

pub use host::{GradientStage, Host, Level, ServerPhase};
pub use marks::{ChunkMarks, ResumeState, SlotMark};
pub use payload_limits::PayloadLimits;
pub use state::{Outcome, Server};
