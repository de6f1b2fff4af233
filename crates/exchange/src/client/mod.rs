//! A client: one worker or evaluator, connected to all servers.
//!
//! The state machine (`state.rs`) knows what has been sent to each server and what has come back
//! (`server_progress.rs`). It never holds parameters or gradients: those stay in the caller's flat
//! slices, and the client only names ranges of them. A worker says hello to every server, waits
//! for the start, pulls, and then pushes again and again. A push is complete when every chunk has
//! been answered with updated parameters (`operations.rs`, `replies.rs`; of a sparse model,
//! `sparse.rs`). If a connection is lost, the client sends what was not answered there again, with
//! the same sequence, and the server recognises what it has seen. `control_frames.rs` builds all
//! other frames, and `enrolment.rs` is the connection of a process to the roster.

mod config;
mod control_frames;
mod enrolment;
mod event;
mod operations;
mod replies;
mod server_progress;
mod sparse;
mod state;

pub use config::ClientConfig;
pub use enrolment::{Enrolment, RosterEvent, request_join_info};
pub use event::{ClientEvent, ProtocolError, ReadTarget};
pub use operations::OutgoingFrame;
pub use sparse::PullPurpose;
pub use state::Client;
