//! What a [`crate::Server`] needs from the program around it.
//!
//! The machine decides, the host does: it owns the sockets, the log and the stopwatch. The
//! simulation is one host, the network crate another.

use crate::{Header, Server, Stats};

/// The host's name for a connection. Never used again after the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// The payload of a frame that arrived.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Of every kind but `Push` and `PushKeys`.
    Bytes(&'a [u8]),
    /// Of a `Push`: exactly as many floats as the frame carried. Of a `PushKeys`: the whole
    /// payload, of which only the first part are floats, with up to three bytes of padding.
    ///
    /// When the machine must keep a gradient for later it takes this vector and leaves a spare
    /// one, of any length, in its place; so nothing is copied, and after the first steps
    /// nothing is allocated.
    Floats(&'a mut Vec<f32>),
}

/// The payload of a frame to send.
#[derive(Clone, Copy, Debug)]
pub enum FrameBody<'a> {
    /// Of every kind but `Params` and `Values`.
    Bytes(&'a [u8]),
    /// Of `Params` and `Values`: borrowed straight from the parameters.
    Floats(&'a [f32]),
}

impl<'a> FrameBody<'a> {
    /// The payload as it stands on the wire.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            FrameBody::Bytes(bytes) => bytes,
            FrameBody::Floats(floats) => crate::as_bytes(floats),
        }
    }
}

/// How much a note matters to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The usual course of a run.
    Info,
    /// Somebody was shut out, or somebody is waited for.
    Warning,
    /// The run has failed.
    Error,
}

/// What a server's time goes to. `Receive` and `Idle` are for the host to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerPhase {
    /// Reading frames.
    Receive,
    /// Turning gradients into updates.
    Apply,
    /// Writing parameters.
    Send,
    /// Nothing to do.
    Idle,
}

/// What becomes of a gradient at a server, for whoever follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradientStage {
    /// It has come.
    Arrived,
    /// It is being applied, or just was.
    Applied,
    /// What came of it is about to be sent.
    Answered,
}

/// The hands of a server: everything it does to the world goes through here.
pub trait Host {
    /// Writes a frame, or copies it to write later: the body is borrowed only for this call.
    ///
    /// Frames to one connection keep their order. What cannot be written any more is forgotten;
    /// the loss is then told with [`crate::Server::closed`].
    fn send(&mut self, to: ConnId, header: Header, body: FrameBody<'_>);

    /// Closes a connection after what has been sent to it is written.
    ///
    /// The machine has forgotten the connection already: frames and the end of it that are
    /// still handed in are ignored.
    fn close(&mut self, conn: ConnId, reason: &str);

    /// Something for the log.
    fn note(&mut self, level: Level, text: &str);

    /// The server's own report, with what became of the pushes, asked for when the chief
    /// collects all of them.
    fn report(&mut self, stats: &Stats) -> Vec<u8>;

    /// The chief has asked for a checkpoint of this step, and now is the moment: what is copied
    /// out of the server before this returns is of one piece. Nobody can be answered meanwhile.
    /// Says whether it was taken; if not, it may be asked for again.
    fn checkpoint(&mut self, _step: u64, _server: &Server) -> bool {
        true
    }

    /// Something has become of the first chunk of the gradient that a slot made for a step of the
    /// plan.
    fn trace(&mut self, _stage: GradientStage, _slot: usize, _step: u64) {}

    /// From now on the server's time goes to this. The host switches back after the call.
    fn phase(&mut self, phase: ServerPhase);
}
