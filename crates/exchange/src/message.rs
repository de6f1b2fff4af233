//! The payloads that are neither gradients nor parameters.
//!
//! They are few, small and sent once, so they are encoded field by field. `Hello` begins with a
//! magic number and the version in every version of the protocol, so that two versions can always
//! tell that they differ.

use thiserror::Error;

use crate::job_identity::MAX_JOB_BYTES;
use crate::{Generation, HELLO_BYTES, JobIdentity, PROTOCOL_VERSION, WireFormat};

const MAGIC: [u8; 4] = *b"PACE";
/// A `Hello` has room for the longest list of keys and its other fields.
const _: () = assert!(MAX_JOB_BYTES + 1024 <= HELLO_BYTES);
/// The longest list of reports that a client accepts.
pub(crate) const MAX_REPORTS_BYTES: usize = 64 << 20;
/// Stands for the server itself in the slot of a report.
const SERVER_ITSELF: u32 = u32::MAX;
/// The longest name of a process.
const MAX_NAME_BYTES: usize = 64;

/// The identity of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessName {
    /// Unique in the run; of two processes of one task the later has the higher id. 0 if it is on
    /// no roster.
    pub id: u64,
    /// The display name, such as `worker:2`; empty if server 0 assigns one.
    pub name: String,
}

/// The role of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerRole {
    /// Pushes gradients and fills a slot; the worker in slot 0 is the coordinator.
    Worker,
    /// Only pulls; no worker waits for it.
    Evaluator,
    /// A worker of a run without servers, on its connection to another worker. Its `Hello` gives
    /// that worker's slot as the server, and the number of workers as that of servers.
    Replica,
    /// A process that wants to join the run and knows nothing of it but its secret.
    Newcomer,
    /// A process that can fill slots, on its roster connection to server 0. Its `Hello` gives its
    /// index among the processes that the run began with as the slot.
    Process,
}

impl PeerRole {
    /// Every role, in the order of their codes.
    const ALL: [PeerRole; 5] = {
        use PeerRole::{Evaluator, Newcomer, Process, Replica, Worker};
        [Worker, Evaluator, Replica, Newcomer, Process]
    };

    /// The number that stands for the role on the wire.
    pub fn code(self) -> u8 {
        match self {
            PeerRole::Worker => 0,
            PeerRole::Evaluator => 1,
            PeerRole::Replica => 2,
            PeerRole::Newcomer => 3,
            PeerRole::Process => 4,
        }
    }
}

/// The first frame of a connection: the client's identity, and what it knows of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The client's [`PROTOCOL_VERSION`].
    pub version: u16,
    /// The client's role.
    pub role: PeerRole,
    /// How it expects gradients and parameters to travel.
    pub wire: WireFormat,
    /// The worker's slot, or the index of an evaluator or a process.
    pub slot: u32,
    /// Numbers the processes that fill the slot; a later one has a higher number.
    pub incarnation: u64,
    /// Identifies the job.
    pub job: JobIdentity,
    /// Identifies the layout of the parameters.
    pub layout_digest: [u8; 32],
    /// The index of the server that it means to reach.
    pub server: u32,
    /// Servers in the run.
    pub servers: u32,
    /// The newest generation of the run that it knows of.
    pub generation: Generation,
    /// The process of this client.
    pub process: ProcessName,
}

impl Hello {
    /// The slot of a process that the run did not begin with.
    pub const NO_SLOT: u32 = u32::MAX;

    /// A `Hello` of this protocol version, with all other fields empty.
    pub(crate) fn new(role: PeerRole) -> Self {
        Self {
            version: PROTOCOL_VERSION,
            role,
            wire: WireFormat::F32,
            slot: 0,
            incarnation: 0,
            job: JobIdentity::default(),
            layout_digest: [0; 32],
            server: 0,
            servers: 0,
            generation: Generation::default(),
            process: ProcessName::default(),
        }
    }

    /// The payload of the frame.
    ///
    /// # Panics
    /// If the name is longer than 64 bytes.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.process.name.len() <= MAX_NAME_BYTES, "the name is too long");
        let mut bytes = Vec::with_capacity(256 + self.job.sent_keys().len());
        bytes.extend(MAGIC);
        bytes.extend(self.version.to_le_bytes());
        bytes.push(self.role.code());
        bytes.push(self.wire.code());
        bytes.extend(self.slot.to_le_bytes());
        bytes.extend(self.incarnation.to_le_bytes());
        bytes.extend(self.job.digest);
        bytes.extend(self.layout_digest);
        bytes.extend(self.server.to_le_bytes());
        bytes.extend(self.servers.to_le_bytes());
        bytes.extend(self.generation.encode());
        bytes.extend(self.process.id.to_le_bytes());
        bytes.push(self.process.name.len() as u8);
        bytes.extend(self.process.name.as_bytes());
        let keys = self.job.sent_keys();
        bytes.extend((keys.len() as u16).to_le_bytes());
        bytes.extend(keys.as_bytes());
        bytes
    }

    /// Reads the payload of the frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut fields = Fields(bytes);
        if fields.array()? != MAGIC {
            return Err(MessageError::Magic);
        }
        let version = u16::from_le_bytes(fields.array()?);
        if version != PROTOCOL_VERSION {
            return Err(MessageError::Version(version));
        }
        let [role, wire] = fields.array()?;
        let role = PeerRole::ALL.into_iter().find(|known| known.code() == role);
        let role = role.ok_or(MessageError::Malformed)?;
        let mut hello = Self {
            version,
            role,
            wire: WireFormat::from_code(wire).ok_or(MessageError::Malformed)?,
            slot: u32::from_le_bytes(fields.array()?),
            incarnation: u64::from_le_bytes(fields.array()?),
            job: JobIdentity::from(fields.array::<32>()?),
            layout_digest: fields.array()?,
            server: u32::from_le_bytes(fields.array()?),
            servers: u32::from_le_bytes(fields.array()?),
            generation: Generation::decode(fields.array()?, fields.array()?),
            process: ProcessName {
                id: u64::from_le_bytes(fields.array()?),
                name: {
                    let [len] = fields.array()?;
                    read_name(fields.take(usize::from(len))?)?
                },
            },
        };
        let len = u16::from_le_bytes(fields.array()?) as usize;
        if len > MAX_JOB_BYTES {
            return Err(MessageError::Malformed);
        }
        let keys = str::from_utf8(fields.take(len)?).map_err(|_| MessageError::Malformed)?;
        hello.job.keys = keys.into();
        fields.end()?;
        Ok(hello)
    }
}

/// Reads a name: short, and without characters that a terminal would interpret.
pub(crate) fn read_name(bytes: &[u8]) -> Result<String, MessageError> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b":-_.".contains(byte);
    if bytes.len() > MAX_NAME_BYTES || !bytes.iter().all(is_plain) {
        return Err(MessageError::Malformed);
    }
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// The server's answer to a `Hello` that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The first parameter of the server's shard.
    pub shard_start: u64,
    /// Parameters in the shard.
    pub shard_len: u64,
    /// Parameters per chunk; 0 for a sparse model, whose shard is one chunk.
    pub chunk_floats: u32,
    /// The sequence of the slot's next push to this server; 1 for a slot that has not pushed.
    pub resume_sequence: u64,
    /// The step of that push.
    pub resume_step: u64,
    /// The server's generation.
    pub generation: Generation,
}

impl Welcome {
    /// The payload of the frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(36 + Generation::BYTES);
        bytes.extend(self.shard_start.to_le_bytes());
        bytes.extend(self.shard_len.to_le_bytes());
        bytes.extend(self.chunk_floats.to_le_bytes());
        bytes.extend(self.resume_sequence.to_le_bytes());
        bytes.extend(self.resume_step.to_le_bytes());
        bytes.extend(self.generation.encode());
        bytes
    }

    /// Reads the payload of the frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut fields = Fields(bytes);
        let welcome = Self {
            shard_start: u64::from_le_bytes(fields.array()?),
            shard_len: u64::from_le_bytes(fields.array()?),
            chunk_floats: u32::from_le_bytes(fields.array()?),
            resume_sequence: u64::from_le_bytes(fields.array()?),
            resume_step: u64::from_le_bytes(fields.array()?),
            generation: Generation::decode(fields.array()?, fields.array()?),
        };
        fields.end()?;
        Ok(welcome)
    }
}

/// Why a server or a replica refuses a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RefuseCode {
    /// It speaks another version of the protocol.
    WrongVersion = 1,
    /// It works for another job.
    WrongJob = 2,
    /// Its parameters are laid out differently.
    WrongLayout = 3,
    /// It does not know the run's secret.
    WrongToken = 4,
    /// It expects another server, or another number of servers.
    WrongServer = 5,
    /// A newer process fills its slot.
    SlotTaken = 6,
    /// There is no such slot.
    BadSlot = 7,
    /// The run has continued without it, is over, or is full.
    NotNow = 8,
    /// Its gradients and parameters travel in another format.
    WrongWire = 9,
    /// Its certificate is that of another task, or of another run.
    WrongCertificate = 10,
}

impl RefuseCode {
    /// Every code, in the order of their numbers.
    #[rustfmt::skip]
    pub(crate) const ALL: [RefuseCode; 10] = {
        use RefuseCode::*;
        [
            WrongVersion, WrongJob, WrongLayout, WrongToken, WrongServer, SlotTaken, BadSlot,
            NotNow, WrongWire, WrongCertificate,
        ]
    };
}

/// A refusal and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason for the program.
    pub code: RefuseCode,
    /// The reason for a person.
    pub text: String,
}

impl Refusal {
    pub(crate) fn new(code: RefuseCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// Whether another attempt would be refused too: the two sides are of different runs.
    pub fn is_permanent(&self) -> bool {
        use RefuseCode::*;
        match self.code {
            WrongVersion | WrongJob | WrongLayout | WrongToken | WrongWire | WrongCertificate => {
                true
            }
            WrongServer | SlotTaken | BadSlot | NotNow => false,
        }
    }

    /// The payload of the frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.code as u8];
        bytes.extend(self.text.as_bytes());
        bytes
    }

    /// Reads the payload of the frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let (&number, text) = bytes.split_first().ok_or(MessageError::Malformed)?;
        let mut codes = RefuseCode::ALL.into_iter();
        let code = codes.find(|code| *code as u8 == number).ok_or(MessageError::Malformed)?;
        Ok(Self { code, text: String::from_utf8_lossy(text).into_owned() })
    }
}

/// The report of one task, opaque to this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// The worker's slot; `None` for the server itself.
    pub slot: Option<u32>,
    /// The report's bytes.
    pub bytes: Vec<u8>,
}

impl TaskReport {
    /// Encodes a list of reports, to be divided among frames.
    pub(crate) fn encode_list(reports: &[TaskReport]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for report in reports {
            bytes.extend(report.slot.unwrap_or(SERVER_ITSELF).to_le_bytes());
            bytes.extend((report.bytes.len() as u32).to_le_bytes());
            bytes.extend(&report.bytes);
        }
        bytes
    }

    /// Decodes what [`TaskReport::encode_list`] encoded.
    pub(crate) fn decode_list(bytes: &[u8]) -> Result<Vec<TaskReport>, MessageError> {
        let mut fields = Fields(bytes);
        let mut reports = Vec::new();
        while !fields.0.is_empty() {
            let slot = u32::from_le_bytes(fields.array()?);
            let len = u32::from_le_bytes(fields.array()?) as usize;
            let slot = (slot != SERVER_ITSELF).then_some(slot);
            reports.push(TaskReport { slot, bytes: fields.take(len)?.to_vec() });
        }
        Ok(reports)
    }
}

/// Why a payload cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The first bytes are not those of this protocol.
    #[error("not a Paceline task")]
    Magic,
    /// The other end has another version of the protocol.
    #[error("protocol version {0}, not {PROTOCOL_VERSION}")]
    Version(u16),
    /// A field is cut off or out of range, or bytes follow the last one.
    #[error("malformed payload")]
    Malformed,
}

/// The unread rest of a payload.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], MessageError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(MessageError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(MessageError::Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn end(self) -> Result<(), MessageError> {
        if self.0.is_empty() { Ok(()) } else { Err(MessageError::Malformed) }
    }
}
