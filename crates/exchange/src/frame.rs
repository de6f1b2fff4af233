//! The header of every frame, and the limits on payloads.
//!
//! A frame is a header of 40 bytes and a payload whose length the header states. The receiver
//! checks the header before it reads a byte of the payload, and before `Hello` it accepts no other
//! frame, so a stranger can make it allocate at most 50 KiB. All numbers are little-endian;
//! parameters travel as they lie in memory.

use thiserror::Error;

use crate::CHUNK_FLOATS;

/// The version of the protocol. Both ends must have the same.
pub const PROTOCOL_VERSION: u16 = 11;
/// The length of a header.
pub const HEADER_BYTES: usize = 40;
/// The longest payload of a frame that carries parameters or a gradient.
pub const CHUNK_BYTES: usize = CHUNK_FLOATS * 4;
/// The longest payload of a frame that carries sparse values or keys: 64 MiB, enough for a batch
/// that touches [`MAX_KEYS`](crate::MAX_KEYS) parameters of one server.
pub const SPARSE_BYTES: usize = 64 << 20;
/// The longest payload of a `Hello`, with the longest list of keys.
pub const HELLO_BYTES: usize = 50 * 1024;
/// The longest payload of any other frame.
pub const CONTROL_BYTES: usize = 64 * 1024;

const _: () = assert!(
    cfg!(target_endian = "little"),
    "parameters are sent as they lie in memory, which the protocol defines as little-endian"
);

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// Client: its identity and its job. The first frame of a connection.
    Hello = 1,
    /// Worker: one chunk of a gradient. Answered with [`FrameKind::Params`] when the gate allows.
    Push = 2,
    /// Client: requests one chunk. Answered with [`FrameKind::Params`].
    Pull = 3,
    /// Worker: has no more to push; carries its report. Answered with [`FrameKind::Bye`].
    Leave = 4,
    /// Coordinator: the run must stop; the payload says why. With [`Flags::STOP`], from any worker
    /// to all servers, or from a replica to all others: the current step is abandoned.
    Stop = 5,
    /// Coordinator: requests all reports. Answered with [`FrameKind::Reports`] once every worker
    /// has left.
    Collect = 6,
    /// Coordinator: the run is over. Answered with [`FrameKind::Bye`].
    Finish = 7,
    /// Client: is alive.
    Heartbeat = 8,
    /// Worker of a sparse model: a gradient of the keys that it requested first, and the keys that
    /// it requests next. Answered with [`FrameKind::Values`] when the gate allows.
    PushKeys = 9,
    /// Client of a sparse model: requests the values of keys. Answered with
    /// [`FrameKind::Values`].
    PullKeys = 10,
    /// Replica: its gradient of one chunk of the receiver's shard, which the receiver sums.
    GradientChunk = 11,
    /// Replica: the parameters of one chunk of its own shard after the step; in a run that
    /// recovers from losses, the mean gradient of that chunk.
    UpdatedChunk = 12,
    /// Coordinator: requests a checkpoint of the step in the header.
    Checkpoint = 13,
    /// Replica: a piece of its state, for a replica that is behind.
    State = 14,
    /// Worker: gives back its slot, which another process fills from here on; carries its report.
    /// Answered with [`FrameKind::Bye`].
    Release = 15,
    /// Replica: a range of the factors of its gradient of one piece, from which the receiver
    /// computes that gradient.
    Factors = 16,
    /// Replica of a sparse model: its gradient of some keys, which the receiver sums.
    KeyedGradient = 17,
    /// Replica of a sparse model: a piece of its state, for a replica that is behind.
    Entries = 18,
    /// Server: accepts the client, and states its shard.
    Welcome = 129,
    /// Server: refuses the client, and says why. The connection is closed after it.
    Refuse = 130,
    /// Server: all workers are connected, so pushes may begin.
    Start = 131,
    /// Server: the parameters of one chunk.
    Params = 132,
    /// Server: a piece of the list of reports.
    Reports = 133,
    /// Server: a text for a person, such as the workers that a step waits for.
    Notice = 134,
    /// Server: the run has failed, and why. A worker passes it on to the other servers.
    Abort = 135,
    /// Server: acknowledges [`FrameKind::Leave`], [`FrameKind::Release`] or
    /// [`FrameKind::Finish`]; the client may disconnect.
    Bye = 136,
    /// Server of a sparse model: the values of the requested keys, in their order.
    Values = 137,
    /// Server: describes the run to a newcomer. The connection is closed after it.
    JoinInfo = 138,
    /// Server 0, to a process: it is on the roster, under this name.
    Enrolled = 139,
    /// Server 0, to a process: offers a slot, to fill with a higher incarnation than the header
    /// states.
    Offer = 140,
    /// Server 0, to a process: asks it to release one of its slots.
    Yield = 141,
    /// Server or replica: the gradient of one chunk as it knows it, to a process that takes over a
    /// slot; only where gradients travel as changes.
    KnownGradient = 142,
}

impl FrameKind {
    /// Every kind, in the order of their numbers.
    #[rustfmt::skip]
    pub(crate) const ALL: [FrameKind; 32] = {
        use FrameKind::*;
        [
            Hello, Push, Pull, Leave, Stop, Collect, Finish, Heartbeat, PushKeys, PullKeys,
            GradientChunk, UpdatedChunk, Checkpoint, State, Release, Factors, KeyedGradient,
            Entries, Welcome, Refuse, Start, Params, Reports, Notice, Abort, Bye, Values, JoinInfo,
            Enrolled, Offer, Yield, KnownGradient,
        ]
    };

    fn from_number(number: u8) -> Option<Self> {
        FrameKind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether the payload consists of numbers: a gradient or parameters.
    pub fn carries_floats(self) -> bool {
        use FrameKind::{
            Factors, GradientChunk, KnownGradient, Params, Push, State, UpdatedChunk, Values,
        };
        matches!(
            self,
            Push | Params | Values | GradientChunk | UpdatedChunk | State | KnownGradient | Factors
        )
    }

    /// The bytes of the smallest number that the payload may consist of; 1 if it has none.
    fn least_number_bytes(self) -> u32 {
        match self {
            FrameKind::Push
            | FrameKind::Params
            | FrameKind::GradientChunk
            | FrameKind::UpdatedChunk => 2,
            kind if kind.carries_floats() => 4,
            _ => 1,
        }
    }

    /// Whether the payload begins with a gradient, which the receiver may keep.
    pub fn carries_gradient(self) -> bool {
        matches!(self, FrameKind::Push | FrameKind::PushKeys)
    }

    /// The longest payload that a frame of this kind may have.
    pub fn max_payload_bytes(self) -> usize {
        use FrameKind::*;
        match self {
            Push | Params | GradientChunk | UpdatedChunk | State | KnownGradient | Factors => {
                CHUNK_BYTES
            }
            PushKeys | PullKeys | Values | KeyedGradient | Entries => SPARSE_BYTES,
            Hello => HELLO_BYTES,
            Pull | Collect | Finish | Heartbeat | Checkpoint | Start | Bye | Offer | Yield => 0,
            _ => CONTROL_BYTES,
        }
    }

    /// The flags that a frame of this kind may carry.
    fn allowed_flags(self) -> Flags {
        match self {
            FrameKind::Params | FrameKind::Values => Flags::STOP | Flags::DROPPED,
            FrameKind::Bye | FrameKind::Stop => Flags::STOP,
            FrameKind::Reports => Flags::MORE,
            FrameKind::GradientChunk | FrameKind::UpdatedChunk => {
                Flags::STOP | Flags::LEFT | Flags::CHECKPOINT
            }
            FrameKind::Factors => Flags::STOP | Flags::CHECKPOINT,
            FrameKind::KeyedGradient => Flags::STOP | Flags::CHECKPOINT | Flags::MORE,
            FrameKind::State | FrameKind::Entries => Flags::MORE | Flags::CHECKPOINT,
            FrameKind::Pull => Flags::RESUME,
            FrameKind::PullKeys => Flags::RESUME | Flags::AHEAD,
            FrameKind::Welcome | FrameKind::Hello => Flags::LEFT | Flags::PARTIAL | Flags::RESUME,
            _ => Flags::NONE,
        }
    }
}

/// The flags of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// On `Params` and `Values`: the run is stopping, so the worker must not push any more (only
    /// server 0 decides this). On `GradientChunk`: this step is the last (only from the
    /// coordinator). On `Bye`: the whole run is over. On `Stop`: at once, in the middle of a step.
    pub const STOP: Flags = Flags(1);
    /// On `Params` and `Values`: the gradient came too late and was dropped.
    pub const DROPPED: Flags = Flags(2);
    /// On `Reports`, `State`, `KeyedGradient` and `Entries`: more pieces follow.
    pub const MORE: Flags = Flags(4);
    /// On `Pull` and `PullKeys`: the first pull of a process that takes over a slot. The server
    /// answers it when the slot's last push may be answered, with the parameters that its next
    /// gradient belongs to. On a replica's `Hello` and `Welcome`, where gradients travel as
    /// changes: its process has not taken part in a step.
    pub const RESUME: Flags = Flags(8);
    /// On `Welcome`: this slot has already left, so the client can only leave too. On
    /// `GradientChunk`: the sender has no more examples and adds nothing to this step. On a
    /// replica's `Hello` and `Welcome`: it has made the last step of the run.
    pub const LEFT: Flags = Flags(16);
    /// On `Welcome`: some chunks already have the slot's next push, so the worker must make it
    /// even if the run is stopping. On a replica's `Hello` and `Welcome`: its state is incomplete,
    /// because it lost the replica that was sending it.
    pub const PARTIAL: Flags = Flags(32);
    /// On `PullKeys`: a gradient of these keys will follow, after that of the keys requested
    /// before.
    pub const AHEAD: Flags = Flags(64);
    /// On `GradientChunk`: each worker takes a checkpoint after this step (only from the
    /// coordinator). On `State`: the receiver takes a checkpoint of this state.
    pub const CHECKPOINT: Flags = Flags(128);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The header of a frame. Fields that a kind does not use are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// Its flags.
    pub flags: Flags,
    /// The length of the payload in bytes.
    pub len: u32,
    /// The index of the chunk in the shard. On `Offer`: the slot.
    pub chunk: u32,
    /// On `Push`, `PushKeys` and `GradientChunk`: examples that the gradient is a mean over. On
    /// `State`: the column that this is a piece of.
    pub count: u32,
    /// On `Push` and `PushKeys`: the step of the plan whose batch it is. On `Params` and `Values`:
    /// updates applied so far. On `GradientChunk` and `UpdatedChunk`: updates made before this
    /// step. On `State` and on a replica's `Hello`: updates made.
    pub step: u64,
    /// The version of the chunk's parameters: the one that the gradient was computed from, or that
    /// of the parameters in the payload. On `GradientChunk` and on a replica's `Leave`: the digest
    /// of its parameters, if one is due. On `Offer`: the last incarnation of the slot.
    pub version: u64,
    /// The sequence of the push, which its answer repeats. On `KeyedGradient` and `Entries`: the
    /// number of keys.
    pub sequence: u64,
}

impl Header {
    /// A header for a payload of `len` bytes, with all other fields 0.
    ///
    /// # Panics
    /// If the payload is longer than the kind allows.
    pub fn new(kind: FrameKind, len: usize) -> Self {
        assert!(len <= kind.max_payload_bytes(), "{kind:?} with a payload of {len} bytes");
        let flags = Flags::NONE;
        Self { kind, flags, len: len as u32, chunk: 0, count: 0, step: 0, version: 0, sequence: 0 }
    }

    /// The header as it is written to the wire.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[1] = self.flags.0;
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.chunk.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.step.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.version.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    /// Reads a header and checks everything that does not depend on the receiver's state.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let kind = FrameKind::from_number(bytes[0]).ok_or(FrameError::UnknownKind(bytes[0]))?;
        let flags = Flags(bytes[1]);
        if !kind.allowed_flags().contains(flags) {
            return Err(FrameError::Flags { kind, flags: flags.0 });
        }
        if bytes[2..4] != [0, 0] {
            return Err(FrameError::Reserved);
        }
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let len = u32_at(4);
        let is_whole = len.is_multiple_of(kind.least_number_bytes());
        if len as usize > kind.max_payload_bytes() || !is_whole {
            return Err(FrameError::Length { kind, len });
        }
        Ok(Header {
            kind,
            flags,
            len,
            chunk: u32_at(8),
            count: u32_at(12),
            step: u64_at(16),
            version: u64_at(24),
            sequence: u64_at(32),
        })
    }
}

/// Why 40 bytes are not a header.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The first byte names no kind.
    #[error("unknown kind of frame {0}")]
    UnknownKind(u8),
    /// A flag is set that this kind does not have.
    #[error("{kind:?} with flags {flags:#04x}")]
    Flags {
        /// The kind of the frame.
        kind: FrameKind,
        /// All flags.
        flags: u8,
    },
    /// The reserved bytes are not 0.
    #[error("reserved bytes are not 0")]
    Reserved,
    /// The payload is longer than the kind allows, or ends within a number.
    #[error("{kind:?} with a payload of {len} bytes")]
    Length {
        /// The kind of the frame.
        kind: FrameKind,
        /// The stated length of the payload.
        len: u32,
    },
}

/// Floats as the bytes that are written to the wire.
pub fn as_bytes(floats: &[f32]) -> &[u8] {
    bytemuck::cast_slice(floats)
}

/// Floats as bytes to read into from the wire.
pub fn as_bytes_mut(floats: &mut [f32]) -> &mut [u8] {
    bytemuck::cast_slice_mut(floats)
}
