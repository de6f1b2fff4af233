//! The header that opens every frame, and the limits it is held to.
//!
//! A frame is 40 bytes of header and a payload whose length the header tells. The header is
//! checked before a byte of the payload is read, and before `Hello` nothing else is, so that a
//! stranger can make nobody allocate more than 64 KiB. All numbers are little-endian; parameters
//! travel as they lie in memory.

use thiserror::Error;

use crate::CHUNK_FLOATS;

/// The version of the protocol that this crate speaks. Both ends must speak the same.
pub const PROTOCOL_VERSION: u16 = 4;
/// The length of a header.
pub const HEADER_BYTES: usize = 40;
/// The longest payload of a frame that carries parameters or a gradient.
pub const CHUNK_BYTES: usize = CHUNK_FLOATS * 4;
/// The longest payload of a frame that carries sparse values or keys: 64 MiB, enough for a batch
/// that touches [`MAX_KEYS`](crate::MOST_KEYS) parameters of one server.
pub const SPARSE_BYTES: usize = 64 << 20;
/// The longest payload of any other frame.
pub const CONTROL_BYTES: usize = 64 * 1024;

const _: () = assert!(
    cfg!(target_endian = "little"),
    "parameters are sent as they lie in memory, which the protocol defines as little-endian"
);

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// Client: who I am and which job I belong to. The first frame of a connection.
    Hello = 1,
    /// Worker: one chunk of one gradient. Answered with [`FrameKind::Params`] when the gate allows.
    Push = 2,
    /// Client: send me one chunk. Answered with [`FrameKind::Params`].
    Pull = 3,
    /// Worker: I have no more to push; here is my report. Answered with [`FrameKind::Bye`].
    Leave = 4,
    /// Chief: the run shall stop; the payload says why.
    Stop = 5,
    /// Chief: send me all reports once every worker has left. Answered with [`FrameKind::Reports`].
    Collect = 6,
    /// Chief: the run is over. Answered with [`FrameKind::Bye`].
    Finish = 7,
    /// Client: I am alive.
    Heartbeat = 8,
    /// Worker of a sparse model: a gradient of the keys that it asked for, and the keys that it
    /// wants next. Answered with [`FrameKind::Values`] when the gate allows.
    PushKeys = 9,
    /// Client of a sparse model: send me the values of these keys. Answered with
    /// [`FrameKind::Values`].
    PullKeys = 10,
    /// Peer: my gradient of one chunk of your shard, for you to add up.
    GradientChunk = 11,
    /// Peer: the parameters of one chunk of my shard, after the step; where a run recovers from
    /// losses, the mean of everybody's gradient of it.
    UpdatedChunk = 12,
    /// Chief: take a checkpoint of the step that the header names.
    Checkpoint = 13,
    /// Peer: a piece of my replica, for one that is behind.
    State = 14,
    /// Worker: another process shall fill my slot from here on; here is my report. Answered with
    /// [`FrameKind::Bye`].
    Release = 15,
    /// Server: you are in, and this is the shard I hold.
    Welcome = 129,
    /// Server: you are not let in, and why. The connection is closed after it.
    Refuse = 130,
    /// Server: all workers are here, push as you like.
    Start = 131,
    /// Server: the parameters of one chunk.
    Params = 132,
    /// Server: a piece of the list of reports.
    Reports = 133,
    /// Server: a text for a person, such as whom a step waits for.
    Notice = 134,
    /// Server: the run has failed, and why.
    Abort = 135,
    /// Server: your [`FrameKind::Leave`] or [`FrameKind::Finish`] has been counted; you may hang up.
    Bye = 136,
    /// Server of a sparse model: the values of the keys that were asked for, in their order.
    Values = 137,
    /// Server, to a newcomer: what the run is. The connection is closed after it.
    JoinInfo = 138,
    /// Server 0, to a process: you are on the roster, under this name.
    Enrolled = 139,
    /// Server 0, to a process: fill this slot, with a higher incarnation than the header tells.
    Offer = 140,
    /// Server 0, to a process: release one of your slots.
    Yield = 141,
}

impl FrameKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [FrameKind; 28] = [
        FrameKind::Hello,
        FrameKind::Push,
        FrameKind::Pull,
        FrameKind::Leave,
        FrameKind::Stop,
        FrameKind::Collect,
        FrameKind::Finish,
        FrameKind::Heartbeat,
        FrameKind::PushKeys,
        FrameKind::PullKeys,
        FrameKind::GradientChunk,
        FrameKind::UpdatedChunk,
        FrameKind::Checkpoint,
        FrameKind::State,
        FrameKind::Release,
        FrameKind::Welcome,
        FrameKind::Refuse,
        FrameKind::Start,
        FrameKind::Params,
        FrameKind::Reports,
        FrameKind::Notice,
        FrameKind::Abort,
        FrameKind::Bye,
        FrameKind::Values,
        FrameKind::JoinInfo,
        FrameKind::Enrolled,
        FrameKind::Offer,
        FrameKind::Yield,
    ];

    fn from_number(number: u8) -> Option<Self> {
        FrameKind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether the payload is a run of `f32` (a gradient or parameters).
    pub fn carries_floats(self) -> bool {
        use FrameKind::{GradientChunk, Params, Push, State, UpdatedChunk, Values};
        matches!(self, Push | Params | Values | GradientChunk | UpdatedChunk | State)
    }

    /// Whether the payload begins with a gradient, so that whoever receives it may keep it.
    pub fn carries_gradient(self) -> bool {
        matches!(self, FrameKind::Push | FrameKind::PushKeys)
    }

    /// The longest payload that a frame of this kind may have.
    pub fn max_payload_bytes(self) -> usize {
        match self {
            FrameKind::Push
            | FrameKind::Params
            | FrameKind::GradientChunk
            | FrameKind::UpdatedChunk
            | FrameKind::State => CHUNK_BYTES,
            FrameKind::PushKeys | FrameKind::PullKeys | FrameKind::Values => SPARSE_BYTES,
            FrameKind::Pull
            | FrameKind::Collect
            | FrameKind::Finish
            | FrameKind::Heartbeat
            | FrameKind::Checkpoint => 0,
            FrameKind::Start | FrameKind::Bye | FrameKind::Offer | FrameKind::Yield => 0,
            _ => CONTROL_BYTES,
        }
    }

    /// The flags that a frame of this kind may carry.
    fn allowed_flags(self) -> Flags {
        match self {
            FrameKind::Params | FrameKind::Values => Flags::STOP | Flags::DROPPED,
            FrameKind::Bye => Flags::STOP,
            FrameKind::Reports => Flags::MORE,
            FrameKind::GradientChunk => Flags::STOP | Flags::LEFT | Flags::CHECKPOINT,
            FrameKind::State => Flags::MORE | Flags::CHECKPOINT,
            FrameKind::Pull => Flags::RESUME,
            FrameKind::PullKeys => Flags::RESUME | Flags::AHEAD,
            FrameKind::Welcome | FrameKind::Hello => Flags::LEFT | Flags::PARTIAL,
            _ => Flags::NONE,
        }
    }
}

/// Bits that say more about a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// None set.
    pub const NONE: Flags = Flags(0);
    /// On `Params`: the run is stopping; push no more (obeyed from server 0 only). On `GradientChunk`:
    /// this step is the last (from the chief only). On `Bye`: the whole run is over.
    pub const STOP: Flags = Flags(1);
    /// On `Params`: your gradient came too late and was dropped.
    pub const DROPPED: Flags = Flags(2);
    /// On `Reports` and `State`: more pieces follow.
    pub const MORE: Flags = Flags(4);
    /// On `Pull`: this is how I go on after taking a slot over, so answer only when the slot's
    /// last push would be answered, with the parameters that its next gradient belongs to.
    pub const RESUME: Flags = Flags(8);
    /// On `Welcome`: this slot has left already; nothing is left to do but to leave. On `GradientChunk`:
    /// I have no more examples, and add nothing to any chunk of this step. On a peer's `Hello` and
    /// `Welcome`: my replica has made the last step of the run.
    pub const LEFT: Flags = Flags(16);
    /// On `Welcome`: some chunks have the push already that the slot makes next, so it must be
    /// made even if the run is stopping. On a peer's `Hello` and `Welcome`: my replica is of no
    /// use, because I lost whoever was sending it.
    pub const PARTIAL: Flags = Flags(32);
    /// On `PullKeys`: a gradient of these keys will follow, after that of those asked for before.
    pub const AHEAD: Flags = Flags(64);
    /// On `GradientChunk`: a checkpoint is to be taken of what comes of this step (from the chief only).
    /// On `State`: one is to be taken of this.
    pub const CHECKPOINT: Flags = Flags(128);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags as the byte on the wire.
    pub fn bits(self) -> u8 {
        self.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// What stands before every payload. Fields that a kind does not use are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame says.
    pub kind: FrameKind,
    /// Bits that say more.
    pub flags: Flags,
    /// The length of the payload in bytes.
    pub len: u32,
    /// Which chunk of the shard. On `Offer`: which slot.
    pub chunk: u32,
    /// On `Push` and `GradientChunk`: how many examples the gradient is a mean over. On `State`: which
    /// column it is a piece of.
    pub count: u32,
    /// On `Push`: the step of the plan whose batch it is. On `Params`: updates applied so far. On
    /// `GradientChunk` and `UpdatedChunk`: updates made before this step. On `State`, and on a peer's `Hello`:
    /// updates made.
    pub step: u64,
    /// The version of the chunk's parameters: that the gradient was computed from, or that follow.
    /// On `GradientChunk` and on a peer's `Leave`: the digest of its replica, where one is due. On `Offer`:
    /// the incarnation that the next must be above.
    pub version: u64,
    /// The number of the push, which its answer repeats.
    pub sequence: u64,
}

impl Header {
    /// A header of a kind with a payload of `len` bytes, all else 0.
    ///
    /// # Panics
    /// If the payload is longer than the kind allows.
    pub fn new(kind: FrameKind, len: usize) -> Self {
        assert!(len <= kind.max_payload_bytes(), "{kind:?} with a payload of {len} bytes");
        let flags = Flags::NONE;
        Self { kind, flags, len: len as u32, chunk: 0, count: 0, step: 0, version: 0, sequence: 0 }
    }

    /// The header as it stands on the wire.
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

    /// Reads a header and checks all that can be checked without knowing the receiver's state.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let kind = FrameKind::from_number(bytes[0]).ok_or(FrameError::FrameKind(bytes[0]))?;
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
        if len as usize > kind.max_payload_bytes() || (kind.carries_floats() && len % 4 != 0) {
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

/// Why 40 bytes are no header.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The first byte names no kind.
    #[error("unknown kind of frame {0}")]
    FrameKind(u8),
    /// A flag is set that this kind does not know.
    #[error("{kind:?} with flags {flags:#04x}")]
    Flags {
        /// The kind.
        kind: FrameKind,
        /// The byte of flags.
        flags: u8,
    },
    /// The reserved bytes are not 0.
    #[error("reserved bytes are not 0")]
    Reserved,
    /// The payload is longer than the kind allows, or is cut within a number.
    #[error("{kind:?} with a payload of {len} bytes")]
    Length {
        /// The kind.
        kind: FrameKind,
        /// The length.
        len: u32,
    },
}

/// Parameters or a gradient as the bytes that stand on the wire.
pub fn as_bytes(floats: &[f32]) -> &[u8] {
    bytemuck::cast_slice(floats)
}

/// Room for parameters or a gradient as bytes to read into from the wire.
pub fn as_bytes_mut(floats: &mut [f32]) -> &mut [u8] {
    bytemuck::cast_slice_mut(floats)
}
