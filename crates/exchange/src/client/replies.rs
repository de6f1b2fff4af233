//! How a client handles the frames of servers.

use super::event::{ClientEvent, ProtocolError, ReadTarget};
use super::server_progress::{ExpectedAnswer, ServerProgress};
use super::state::{Client, Operation};
use crate::{
    Flags, FrameKind, Header, MAX_REPORTS_BYTES, Refusal, TaskReport, Welcome, WireFormat,
};

/// The result of handling a frame.
type Handled = Result<ClientEvent, ProtocolError>;

impl Client {
    /// Returns where the payload of a frame belongs. Call this before the payload is read.
    pub fn read_target(&self, server: usize, header: &Header) -> Result<ReadTarget, ProtocolError> {
        let values = if self.config.is_sparse { FrameKind::Values } else { FrameKind::Params };
        match header.kind {
            kind if kind == values => {
                self.links[server].expect_chunk(header, self.expected_answer())
            }
            FrameKind::KnownGradient if self.is_resuming() => {
                self.links[server].expect_known(header)
            }
            kind if kind.carries_floats() || kind.carries_gradient() => {
                Err(ProtocolError::Unexpected(header.kind))
            }
            _ => Ok(ReadTarget::Bytes(header.len as usize)),
        }
    }

    /// Where the next answer of a server most likely belongs; `None` if none is awaited. Nothing
    /// there is needed any more, so the caller may read into it before the header is known, and
    /// move the data if it belongs elsewhere.
    pub fn likely_target(&self, server: usize) -> Option<ReadTarget> {
        let range = self.links[server].likely_target()?;
        Some(match self.expected_answer().wire {
            WireFormat::F32 => ReadTarget::Floats(range),
            WireFormat::Bf16 => ReadTarget::Rounded(range),
        })
    }

    /// A frame arrived. The payload of `Params`, `Values` or `KnownGradient` already lies where
    /// [`Client::read_target`] said, and `bytes` is empty.
    pub fn frame_arrived(
        &mut self,
        server: usize,
        header: &Header,
        bytes: &[u8],
    ) -> Result<ClientEvent, ProtocolError> {
        let text = || String::from_utf8_lossy(bytes).into_owned();
        match header.kind {
            FrameKind::Welcome => self.welcomed(server, header, bytes),
            FrameKind::Refuse => Ok(ClientEvent::Refused(Refusal::decode(bytes)?)),
            FrameKind::Start => {
                self.links[server].start()?;
                Ok(ClientEvent::Started)
            }
            FrameKind::Params | FrameKind::Values => self.chunk_arrived(server, header),
            FrameKind::KnownGradient => {
                self.read_target(server, header)?;
                self.links[server].known_arrived(header);
                Ok(ClientEvent::Progress)
            }
            FrameKind::Reports => self.reports_arrived(server, header, bytes),
            FrameKind::Notice => Ok(ClientEvent::Notice(text())),
            FrameKind::Abort => Ok(ClientEvent::Abort(text())),
            FrameKind::Bye if header.flags.contains(Flags::STOP) => Ok(ClientEvent::RunOver),
            FrameKind::Bye => Ok(ClientEvent::Bye),
            kind => Err(ProtocolError::Unexpected(kind)),
        }
    }

    fn welcomed(&mut self, server: usize, header: &Header, bytes: &[u8]) -> Handled {
        let welcome = Welcome::decode(bytes)?;
        if self.generation.is_newer_than(welcome.generation) {
            return Ok(ClientEvent::ServerBehind);
        }
        if welcome.generation.is_newer_than(self.generation) {
            self.generation = welcome.generation;
            if self.links.iter().any(|link| link.resume_point().is_some()) {
                self.rewind();
                return Ok(ClientEvent::Rewound);
            }
        }
        self.links[server].welcome(&welcome)?;
        self.already_left |= header.flags.contains(Flags::LEFT);
        if self.resume_step.is_none() {
            let ahead = u64::from(header.flags.contains(Flags::PARTIAL));
            let has = (welcome.resume_sequence + ahead).saturating_sub(1);
            self.owed_until = self.owed_until.max(has);
            self.find_resume_step();
        }
        Ok(ClientEvent::Welcome)
    }

    /// Once all servers have stated how far the slot has come with them, the client continues with
    /// the first push that not all of them have.
    fn find_resume_step(&mut self) {
        let points = || self.links.iter().map(ServerProgress::resume_point);
        if points().any(|point| point.is_none()) {
            return;
        }
        let next = points().flatten().map(|point| point.sequence).min().unwrap_or(1);
        let at_next = points().flatten().filter(|point| point.sequence == next);
        self.resume_step = at_next.map(|point| point.step).max();
        self.sequence = next.saturating_sub(1);
        let pushed_before = std::mem::take(&mut self.pushed_before);
        self.lost_pushes += pushed_before.saturating_sub(self.sequence);
    }

    fn chunk_arrived(&mut self, server: usize, header: &Header) -> Handled {
        let expected = self.expected_answer();
        self.links[server].answered(header, expected)?;
        // One server decides when to stop, or some workers could stop a step before others.
        self.stopping |= server == 0 && header.flags.contains(Flags::STOP);
        if matches!(self.operation, Some(Operation::Push { .. })) {
            self.dropped |= header.flags.contains(Flags::DROPPED);
        }
        if !self.links.iter().all(ServerProgress::is_complete) {
            return Ok(ClientEvent::Progress);
        }
        let operation = self.operation.take();
        let only_reads = matches!(operation, Some(Operation::Pull { resume: false, ahead: false }));
        if !only_reads {
            self.links.iter_mut().for_each(ServerProgress::owe_gradient);
        }
        Ok(ClientEvent::Complete)
    }

    fn reports_arrived(&mut self, server: usize, header: &Header, bytes: &[u8]) -> Handled {
        let gathered = &mut self.links[server].reports;
        if gathered.len() + bytes.len() > MAX_REPORTS_BYTES {
            return Err(ProtocolError::ReportsTooLong);
        }
        gathered.extend(bytes);
        if header.flags.contains(Flags::MORE) {
            return Ok(ClientEvent::Progress);
        }
        Ok(ClientEvent::Reports(TaskReport::decode_list(&std::mem::take(gathered))?))
    }

    /// Whether the current operation is a worker's first pull.
    fn is_resuming(&self) -> bool {
        matches!(self.operation, Some(Operation::Pull { resume: true, .. }))
    }

    /// What all answers to the current operation have in common. A pull that no push follows is
    /// answered with exact parameters.
    fn expected_answer(&self) -> ExpectedAnswer {
        let is_exact = matches!(self.operation, Some(Operation::Pull { resume: false, .. }));
        let wire = if is_exact { WireFormat::F32 } else { self.config.wire };
        ExpectedAnswer { sequence: self.expected_sequence(), wire }
    }

    /// The sequence that the answers to the current operation repeat: that of the push, or for a
    /// pull that of the next push.
    pub(super) fn expected_sequence(&self) -> u64 {
        match self.operation {
            Some(Operation::Pull { .. }) => self.sequence + 1,
            _ => self.sequence,
        }
    }
}
