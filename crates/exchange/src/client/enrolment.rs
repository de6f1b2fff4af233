//! A process that would fill slots, and what server 0 calls it to do.
//!
//! A process says `Hello` to server 0 once more, on a connection of its own, and is told there
//! which slots to fill and when to give one back. It has nothing to say itself: it fills a slot by
//! connecting for it, and who wants to leave closes this connection, so that nothing more is
//! offered, and then releases its slots.

use super::control_frames::control;
use super::event::ProtocolError;
use crate::message::{MessageError, read_name};
use crate::{
    FrameKind, Generation, Header, Hello, PROTOCOL_VERSION, PeerRole, ProcessName, Refusal,
};

/// What server 0 says to a process on its roster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RosterEvent {
    /// It is on the roster, under this name.
    Enrolled(String),
    /// It is not let in.
    Refused(Refusal),
    /// It shall fill a slot. Who fills it already may forget it.
    Offer {
        /// Which one.
        slot: usize,
        /// Its incarnation must be higher than this.
        above_incarnation: u64,
    },
    /// It shall release one of its slots, whichever it likes, unless it has only one.
    Yield,
    /// The run has failed.
    Abort(String),
    /// The run is over.
    Bye,
}

/// Everything that a process tells of itself.
#[derive(Clone, Debug)]
pub struct Enrolment {
    /// The process. Without a name it is given one.
    pub process: ProcessName,
    /// Its place among the workers that the run began with, if it has one.
    pub home: Option<usize>,
    /// Identifies the job.
    pub job_digest: [u8; 32],
    /// Identifies the layout of the parameters.
    pub layout_digest: [u8; 32],
    /// The secret of the run; empty for none.
    pub token: Vec<u8>,
    /// How many servers there are.
    pub servers: usize,
    /// Whether it has been on the run's roster before, and so may fill slots already.
    pub was_enrolled: bool,
}

impl Enrolment {
    /// The first frame of the connection, which is to server 0.
    pub fn hello(&self) -> (Header, Vec<u8>) {
        let hello = Hello {
            version: PROTOCOL_VERSION,
            role: PeerRole::Process,
            slot: self.home.map_or(Hello::NO_SLOT, |home| home as u32),
            incarnation: self.process.id,
            job_digest: self.job_digest,
            layout_digest: self.layout_digest,
            server: 0,
            servers: self.servers as u32,
            // Which one it is, the connections of its slots tell; there is one at the least.
            generation: Generation { number: u64::from(self.was_enrolled), base: None },
            token: self.token.clone(),
            process: self.process.clone(),
        };
        control(FrameKind::Hello, hello.encode())
    }

    /// Reads a frame of server 0, and takes note of the name, and that it has been here.
    pub fn frame_arrived(
        &mut self,
        header: &Header,
        bytes: &[u8],
    ) -> Result<RosterEvent, ProtocolError> {
        let text = || String::from_utf8_lossy(bytes).into_owned();
        Ok(match header.kind {
            FrameKind::Enrolled => {
                let name = read_name(bytes)?;
                if name.is_empty() {
                    return Err(MessageError::Malformed.into());
                }
                self.process.name.clone_from(&name);
                self.was_enrolled = true;
                RosterEvent::Enrolled(name)
            }
            FrameKind::Refuse => RosterEvent::Refused(Refusal::decode(bytes)?),
            FrameKind::Offer => RosterEvent::Offer {
                slot: header.chunk as usize,
                above_incarnation: header.version,
            },
            FrameKind::Yield => RosterEvent::Yield,
            FrameKind::Abort => RosterEvent::Abort(text()),
            FrameKind::Bye => RosterEvent::Bye,
            kind => return Err(ProtocolError::Unexpected(kind)),
        })
    }
}

/// The first frame of somebody who asks what the run is. Any server answers with
/// [`FrameKind::JoinInfo`] or refuses.
pub fn request_join_info(token: Vec<u8>) -> (Header, Vec<u8>) {
    let hello = Hello {
        version: PROTOCOL_VERSION,
        role: PeerRole::Newcomer,
        slot: Hello::NO_SLOT,
        incarnation: 0,
        job_digest: [0; 32],
        layout_digest: [0; 32],
        server: 0,
        servers: 0,
        generation: Generation::default(),
        token,
        process: ProcessName::default(),
    };
    control(FrameKind::Hello, hello.encode())
}
