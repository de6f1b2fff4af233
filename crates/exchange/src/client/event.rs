//! What a client tells its caller.

use std::ops::Range;

use thiserror::Error;

use crate::{FrameKind, MessageError, Refusal, TaskReport};

/// Where the payload of a frame is to be read to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadTarget {
    /// Into this range of the flat parameters.
    Floats(Range<usize>),
    /// Into a buffer of this many bytes.
    Bytes(usize),
}

/// What a frame from a server means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The server has let the client in.
    Welcome,
    /// The server is in an older generation of the run than this client. The connection is of no
    /// more use; on a new one it hears of the newer generation.
    ServerBehind,
    /// The run has gone back to the checkpoint of a newer generation, and this client has
    /// forgotten everything: no connection is of any more use, and on new ones it begins anew.
    Rewound,
    /// The server does not let the client in, and closes the connection.
    Refused(Refusal),
    /// The server has seen all workers; see [`crate::Client::is_started`] for all servers.
    Started,
    /// A piece of something has arrived; more is to come.
    Progress,
    /// The present push or pull has been answered in full.
    Complete,
    /// A text for a person.
    Notice(String),
    /// The run has failed.
    Abort(String),
    /// All reports of this server.
    Reports(Vec<TaskReport>),
    /// The server has counted the leave.
    Bye,
    /// The server has ended, because the run is over.
    RunOver,
}

/// What a server that keeps to the protocol would not do. The connection is of no more use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// A frame that has no place here.
    #[error("{0:?} was not expected")]
    Unexpected(FrameKind),
    /// Parameters of a chunk that was not asked for, or not of its length.
    #[error("chunk {chunk} with {len} bytes was not expected")]
    Chunk {
        /// The chunk.
        chunk: u32,
        /// The length of its payload.
        len: u32,
    },
    /// The server's shard is not the one that this client reckons it has.
    #[error("the server holds {len} parameters from {start}, in chunks of {chunk_floats}")]
    Shard {
        /// Where it starts.
        start: u64,
        /// How long it is.
        len: u64,
        /// How many parameters travel in one chunk.
        chunk_floats: u32,
    },
    /// The list of reports exceeds its limit.
    #[error("the list of reports is too long")]
    ReportsTooLong,
    /// A payload that cannot be read.
    #[error(transparent)]
    Message(#[from] MessageError),
}
