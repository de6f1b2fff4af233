//! The payloads that are neither gradients nor parameters.
//!
//! They are few, small and sent once, so they are written field by field. `Hello` begins with a
//! magic and the version in every version to come, so that two versions can always tell each
//! other that they differ.

use thiserror::Error;

use crate::{Generation, PROTOCOL_VERSION};

const MAGIC: [u8; 4] = *b"PACE";
/// The longest token.
pub const MAX_TOKEN_BYTES: usize = 256;
/// The longest list of reports that a client accepts.
pub const MAX_REPORTS_BYTES: usize = 64 << 20;
/// Stands for "the server itself" where a report names its slot.
const SERVER_ITSELF: u32 = u32::MAX;

/// The longest name of a process.
pub const MAX_NAME_BYTES: usize = 64;
/// Stands for "no place of its own" where a process names one.
const NO_SLOT: u32 = u32::MAX;

/// A process, as servers know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessName {
    /// Tells it from all others; of two in the same place the later has the higher number. 0 if it
    /// is on no roster.
    pub id: u64,
    /// What people call it, such as `worker:2`; empty if that is for server 0 to say.
    pub name: String,
}

/// What a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerRole {
    /// Pushes gradients and is counted; slot 0 is the chief.
    Worker,
    /// Only pulls and is never waited for.
    Evaluator,
    /// A worker that speaks to another worker, without servers. The server that its `Hello` means
    /// is that worker's slot, and servers are counted as workers.
    Peer,
    /// Somebody who wants to join the run and knows nothing of it but the token.
    Newcomer,
    /// A process that would fill slots, on its connection to server 0 for that. Its `Hello` tells
    /// its place among the workers that the run began with, if it has one.
    Process,
}

/// The first frame of a connection: who the client is and what it believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The protocol's version.
    pub version: u16,
    /// What the client is.
    pub role: PeerRole,
    /// Its place among its like.
    pub slot: u32,
    /// Which process in that place: later ones have higher numbers.
    pub incarnation: u64,
    /// The job it works for.
    pub job_digest: [u8; 32],
    /// The layout it computes with.
    pub layout_digest: [u8; 32],
    /// The server it believes to talk to.
    pub server: u32,
    /// How many servers it believes there are.
    pub servers: u32,
    /// The newest generation of the run that it knows of.
    pub generation: Generation,
    /// The secret of the run.
    pub token: Vec<u8>,
    /// The process at this end.
    pub process: ProcessName,
}

impl Hello {
    /// Where a process says that it has no place of its own.
    pub const NO_SLOT: u32 = NO_SLOT;

    /// The payload of the frame.
    ///
    /// # Panics
    /// If the token is longer than [`MAX_TOKEN_BYTES`], or the name than [`MAX_NAME_BYTES`].
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.token.len() <= MAX_TOKEN_BYTES, "the token is too long");
        assert!(self.process.name.len() <= MAX_NAME_BYTES, "the name is too long");
        let mut bytes = Vec::with_capacity(144 + self.token.len());
        bytes.extend(MAGIC);
        bytes.extend(self.version.to_le_bytes());
        bytes.push(match self.role {
            PeerRole::Worker => 0,
            PeerRole::Evaluator => 1,
            PeerRole::Peer => 2,
            PeerRole::Newcomer => 3,
            PeerRole::Process => 4,
        });
        bytes.extend(self.slot.to_le_bytes());
        bytes.extend(self.incarnation.to_le_bytes());
        bytes.extend(self.job_digest);
        bytes.extend(self.layout_digest);
        bytes.extend(self.server.to_le_bytes());
        bytes.extend(self.servers.to_le_bytes());
        bytes.extend(self.generation.encode());
        bytes.extend((self.token.len() as u16).to_le_bytes());
        bytes.extend(&self.token);
        bytes.extend(self.process.id.to_le_bytes());
        bytes.push(self.process.name.len() as u8);
        bytes.extend(self.process.name.as_bytes());
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
        let role = match fields.array()? {
            [0] => PeerRole::Worker,
            [1] => PeerRole::Evaluator,
            [2] => PeerRole::Peer,
            [3] => PeerRole::Newcomer,
            [4] => PeerRole::Process,
            _ => return Err(MessageError::Malformed),
        };
        let hello = Self {
            version,
            role,
            slot: u32::from_le_bytes(fields.array()?),
            incarnation: u64::from_le_bytes(fields.array()?),
            job_digest: fields.array()?,
            layout_digest: fields.array()?,
            server: u32::from_le_bytes(fields.array()?),
            servers: u32::from_le_bytes(fields.array()?),
            generation: Generation::decode(fields.array()?, fields.array()?),
            token: {
                let len = u16::from_le_bytes(fields.array()?) as usize;
                if len > MAX_TOKEN_BYTES {
                    return Err(MessageError::Malformed);
                }
                fields.take(len)?.to_vec()
            },
            process: ProcessName {
                id: u64::from_le_bytes(fields.array()?),
                name: {
                    let [len] = fields.array()?;
                    read_name(fields.take(usize::from(len))?)?
                },
            },
        };
        fields.end()?;
        Ok(hello)
    }

    /// What every task of a run must agree on before anything else. The token first: a stranger
    /// learns nothing more.
    pub(crate) fn agrees(
        &self,
        token: &[u8],
        job_digest: &[u8; 32],
        layout_digest: &[u8; 32],
    ) -> Result<(), (RefuseCode, String)> {
        let refuse = |code, text: &str| Err((code, text.to_owned()));
        self.knows(token)?;
        if self.job_digest != *job_digest {
            return refuse(RefuseCode::WrongJob, "it works for another job");
        }
        if self.layout_digest != *layout_digest {
            return refuse(RefuseCode::WrongLayout, "its parameters are laid out otherwise");
        }
        Ok(())
    }

    /// The least that anybody must know.
    pub(crate) fn knows(&self, token: &[u8]) -> Result<(), (RefuseCode, String)> {
        match equal_in_constant_time(&self.token, token) {
            true => Ok(()),
            false => Err((RefuseCode::WrongToken, "the token is not this run's".to_owned())),
        }
    }
}

/// A name as it came: short, and nothing that a terminal would obey.
pub(crate) fn read_name(bytes: &[u8]) -> Result<String, MessageError> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b":-_.".contains(byte);
    match bytes.len() <= MAX_NAME_BYTES && bytes.iter().all(is_plain) {
        true => Ok(String::from_utf8_lossy(bytes).into_owned()),
        false => Err(MessageError::Malformed),
    }
}

/// The server's answer to a `Hello` that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Where the server's shard starts in the flat parameters.
    pub shard_start: u64,
    /// How many parameters the shard holds.
    pub shard_len: u64,
    /// How many parameters travel in one chunk; 0 for a sparse model, whose shard is one chunk.
    pub chunk_floats: u32,
    /// The sequence that the slot's next push to this server has; 1 for a fresh slot.
    pub resume_sequence: u64,
    /// The step of the plan which that push belongs to.
    pub resume_step: u64,
    /// The generation that the server is in.
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

/// Why a client is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RefuseCode {
    /// It speaks another version of the protocol.
    WrongVersion = 1,
    /// It works for another job.
    WrongJob = 2,
    /// Its parameters are laid out differently.
    WrongLayout = 3,
    /// It does not know the token.
    WrongToken = 4,
    /// It meant another server, or counts the servers differently.
    WrongServer = 5,
    /// A newer process fills its slot.
    SlotTaken = 6,
    /// There is no such slot.
    BadSlot = 7,
    /// The run has gone on without it, is over, or is full.
    NotNow = 8,
}

impl RefuseCode {
    /// Every code, in the order of their numbers.
    pub const ALL: [RefuseCode; 8] = [
        RefuseCode::WrongVersion,
        RefuseCode::WrongJob,
        RefuseCode::WrongLayout,
        RefuseCode::WrongToken,
        RefuseCode::WrongServer,
        RefuseCode::SlotTaken,
        RefuseCode::BadSlot,
        RefuseCode::NotNow,
    ];
}

/// A refusal with its reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why, for the program.
    pub code: RefuseCode,
    /// Why, for a person.
    pub text: String,
}

impl Refusal {
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

/// What one task left behind, in a form that only the tasks understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// The worker's slot, or none for the server itself.
    pub slot: Option<u32>,
    /// The report.
    pub bytes: Vec<u8>,
}

impl TaskReport {
    /// A list of reports as one run of bytes, to be cut over frames.
    pub fn encode_list(reports: &[TaskReport]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for report in reports {
            bytes.extend(report.slot.unwrap_or(SERVER_ITSELF).to_le_bytes());
            bytes.extend((report.bytes.len() as u32).to_le_bytes());
            bytes.extend(&report.bytes);
        }
        bytes
    }

    /// Reads what [`TaskReport::encode_list`] wrote.
    pub fn decode_list(bytes: &[u8]) -> Result<Vec<TaskReport>, MessageError> {
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

/// Why a payload cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The first bytes are not those of this protocol.
    #[error("not a Paceline task")]
    Magic,
    /// The other end speaks another version.
    #[error("protocol version {0}, not {PROTOCOL_VERSION}")]
    Version(u16),
    /// A field is cut off, or out of its range, or something follows the last one.
    #[error("malformed payload")]
    Malformed,
}

/// Compares secrets without telling, by the time it takes, where they differ.
fn equal_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |sum, (l, r)| sum | (l ^ r));
    left.len() == right.len() && std::hint::black_box(differences) == 0
}

/// What is left to read of a payload.
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
