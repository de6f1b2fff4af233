//! What a client reports to its caller.

use std::ops::Range;

use thiserror::Error;

use crate::{FrameKind, MessageError, Refusal, TaskReport};

/// Where the payload of a frame is read to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadTarget {
    /// Into this range of the flat parameters.
    Floats(Range<usize>),
    /// Into a buffer; then, widened from bf16, into this range of the flat parameters.
    Rounded(Range<usize>),
    /// Into this range of the gradient as the servers know it
    /// ([`GradientChanges::known_mut`](crate::GradientChanges::known_mut)).
    KnownGradient(Range<usize>),
    /// Into a buffer of this many bytes.
    Bytes(usize),
}

/// What a frame from a server means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The server has accepted the client.
    Welcome,
    /// The server is in an older generation of the run than this client. Close the connection; on
    /// a new one the server hears of the newer generation.
    ServerBehind,
    /// The run has gone back to the checkpoint of a newer generation, and the client has forgotten
    /// everything. Close all connections; on new ones it begins again.
    Rewound,
    /// The server refuses the client and closes the connection.
    Refused(Refusal),
    /// The server has seen all workers. [`crate::Client::is_started`] covers all servers.
    Started,
    /// A piece of something has arrived; more will follow.
    Progress,
    /// The current push or pull has been answered in full.
    Complete,
    /// A text for a person.
    Notice(String),
    /// The run has failed, and why.
    Abort(String),
    /// All reports of this server.
    Reports(Vec<TaskReport>),
    /// The server acknowledges the goodbye.
    Bye,
    /// The server has ended, because the run is over.
    RunOver,
}

/// What the other end did that the protocol forbids. Close the connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// A frame arrived that is not allowed in this state.
    #[error("{0:?} was not expected")]
    Unexpected(FrameKind),
    /// A chunk arrived that was not requested, or with the wrong length.
    #[error("chunk {chunk} with {len} bytes was not expected")]
    Chunk {
        /// The index of the chunk.
        chunk: u32,
        /// The length of its payload.
        len: u32,
    },
    /// Factors of a gradient arrived that are not the next ones, or of the wrong size.
    #[error(
        "{len} bytes, frame {chunk} of the factors of piece {piece} over {examples} examples, do \
         not fit this step"
    )]
    Factors {
        /// The index of the layer's piece, as the frame states it.
        piece: u64,
        /// The frame's index among those of the piece.
        chunk: u32,
        /// Examples, as the frame states them.
        examples: u32,
        /// The length of its payload.
        len: u32,
    },
    /// A list of keys cannot be decoded, or does not rise above the one before it.
    #[error("frame {chunk} with keys: {why}")]
    Keys {
        /// The frame's index in the gradient or the state.
        chunk: u32,
        /// What is wrong.
        why: String,
    },
    /// A gradient arrived that is infinite or not a number.
    #[error(
        "its gradient of step {step} is not finite, so it is not applied; if training diverges, \
         try a smaller learning rate"
    )]
    NotFinite {
        /// The step of the plan.
        step: u64,
    },
    /// The other end's shard is not the one that this client computes for it.
    #[error("the server holds {len} parameters from {start}, in chunks of {chunk_floats}")]
    Shard {
        /// The first parameter of the shard.
        start: u64,
        /// Parameters in the shard.
        len: u64,
        /// Parameters per chunk.
        chunk_floats: u32,
    },
    /// The list of reports exceeds its limit.
    #[error("the list of reports is too long")]
    ReportsTooLong,
    /// A payload cannot be decoded.
    #[error(transparent)]
    Message(#[from] MessageError),
}
