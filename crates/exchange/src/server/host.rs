//! What a [`Server`] needs from the program around it.
//!
//! The server decides and the host acts: it owns the sockets, the log and the stopwatch. The
//! simulation is one host, the network crate another.

use super::state::Server;
use crate::{ConnId, FrameBody, Generation, Header, Stats, Store};

/// How much a note matters to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The normal course of a run.
    Info,
    /// The server closed a connection, lost one, or waits.
    Warning,
    /// The run has failed.
    Error,
}

/// What a server spends its time on. The host tells `Receive` and `Idle` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerPhase {
    /// Reading frames.
    Receive,
    /// Turning gradients into updates.
    Apply,
    /// Writing parameters.
    Send,
    /// Waiting for frames.
    Idle,
}

/// A stage in the life of a gradient at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradientStage {
    /// It has arrived.
    Arrived,
    /// It is being applied, or has just been applied.
    Applied,
    /// Its answer is about to be sent.
    Answered,
}

/// Carries out what a server decides. Every effect of a server goes through its host.
pub trait Host {
    /// Writes a frame, or copies it to write later: the body is borrowed only for this call.
    ///
    /// Frames to one connection keep their order. The host drops a frame that it cannot write any
    /// more and reports the loss with [`Server::connection_closed`].
    fn send(&mut self, to: ConnId, header: Header, body: FrameBody<'_>);

    /// Closes a connection after everything sent to it has been written.
    ///
    /// The server has already forgotten the connection: it ignores later calls about it.
    fn close(&mut self, conn: ConnId, reason: &str);

    /// The address of a connection's other end, if it is known.
    fn address(&self, _conn: ConnId) -> Option<String> {
        None
    }

    /// Writes a line to the log.
    fn note(&mut self, level: Level, text: &str);

    /// Returns the server's own report, which joins those of the workers when the coordinator
    /// collects them. `stats` says what became of the pushes, `store` has the parameters.
    fn report(&mut self, stats: &Stats, store: &Store) -> Vec<u8>;

    /// Takes the checkpoint that the coordinator requested for `step`.
    ///
    /// What the host copies out of the server during this call is consistent. The server answers
    /// no worker meanwhile.
    fn checkpoint(&mut self, _step: u64, _server: &Server) {}

    /// The step of the last checkpoint taken in this generation. One that was skipped does not
    /// count: the coordinator may request it again.
    fn last_checkpoint(&self) -> Option<u64> {
        None
    }

    /// Whether the run's own record has this generation. If not, the server does not believe the
    /// client that states it. Called only for a generation newer than the server's.
    fn knows_generation(&mut self, _generation: Generation) -> bool {
        true
    }

    /// Follows the first chunk of the gradient that `slot` computed for a step of the plan.
    fn trace(&mut self, _stage: GradientStage, _slot: usize, _step: u64) {}

    /// Starts a phase of the server's work. The host switches back after the call that caused it.
    fn phase(&mut self, phase: ServerPhase);
}
