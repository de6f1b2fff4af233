//! The connection of a process to the roster of server 0.
//!
//! A process that can fill slots opens one more connection to server 0. Over it the server offers
//! slots and asks for one back. After its `Hello` the process sends only heartbeats: it fills a
//! slot by connecting for it. To leave, it closes this connection, so that it gets no more offers,
//! and then releases its slots.

use super::event::ProtocolError;
use crate::message::read_name;
use crate::{
    ControlFrame, FrameKind, Generation, Header, Hello, JobIdentity, MessageError, PeerRole,
    ProcessName, Refusal, WireFormat,
};

/// What server 0 tells a process on its roster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RosterEvent {
    /// The process is on the roster, under this name.
    Enrolled(String),
    /// The server refuses the process.
    Refused(Refusal),
    /// The process may fill a slot. It ignores the offer if it already fills the slot.
    Offer {
        /// The slot.
        slot: usize,
        /// The slot's last incarnation; the process needs a higher one.
        above_incarnation: u64,
    },
    /// The process must release one of its slots, of its choice, unless it has only one.
    Yield,
    /// The run has failed, and why.
    Abort(String),
    /// The run is over.
    Bye,
}

/// A process that enrols at server 0.
#[derive(Clone, Debug)]
pub struct Enrolment {
    /// The process. If it has no name, the server assigns one.
    pub process: ProcessName,
    /// Its index among the processes that the run began with, if it is one of them.
    pub home: Option<usize>,
    /// Identifies the job.
    pub job: JobIdentity,
    /// Identifies the layout of the parameters.
    pub layout_digest: [u8; 32],
    /// Servers in the run.
    pub servers: usize,
    /// How gradients and parameters travel.
    pub wire: WireFormat,
    /// Whether it has been on the run's roster before, and so may already fill slots.
    pub was_enrolled: bool,
}

impl Enrolment {
    /// The first frame of the connection.
    pub fn hello(&self) -> ControlFrame {
        let hello = Hello {
            wire: self.wire,
            slot: self.home.map_or(Hello::NO_SLOT, |home| home as u32),
            incarnation: self.process.id,
            job: self.job.clone(),
            layout_digest: self.layout_digest,
            servers: self.servers as u32,
            // The connections of its slots carry the generation; here it is only 0 or not.
            generation: Generation { number: u64::from(self.was_enrolled), base: None },
            process: self.process.clone(),
            ..Hello::new(PeerRole::Process)
        };
        ControlFrame::new(FrameKind::Hello, hello.encode())
    }

    /// Handles a frame of server 0, and records the name that it assigns.
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
            FrameKind::Offer => {
                let (slot, above_incarnation) = (header.chunk as usize, header.version);
                RosterEvent::Offer { slot, above_incarnation }
            }
            FrameKind::Yield => RosterEvent::Yield,
            FrameKind::Abort => RosterEvent::Abort(text()),
            FrameKind::Bye => RosterEvent::Bye,
            kind => return Err(ProtocolError::Unexpected(kind)),
        })
    }
}

/// The first frame of a process that asks what the run is. Any server answers it with
/// [`FrameKind::JoinInfo`] or refuses.
pub fn request_join_info() -> ControlFrame {
    let hello = Hello { slot: Hello::NO_SLOT, ..Hello::new(PeerRole::Newcomer) };
    ControlFrame::new(FrameKind::Hello, hello.encode())
}
