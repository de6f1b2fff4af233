//! One worker or evaluator, over all servers.
//!
//! The machine knows what has been sent to whom and what has come back. It never holds
//! parameters or gradients: those stay in the caller's flat slices, and the machine only names
//! the ranges. A worker's life is: say hello to every server, wait for the start, pull, and then
//! push after push, each of which is complete when every chunk has been answered with fresh
//! parameters. If a connection is lost, what was not answered there is sent again with the same
//! sequence, and the server knows what it has seen.

mod config;
mod control_frames;
mod enrolment;
mod event;
mod link;
mod sparse;

pub use config::ClientConfig;
pub use enrolment::{Enrolment, RosterEvent, request_join_info};
pub use event::{ClientEvent, ProtocolError, ReadTarget};
pub use sparse::PullPurpose;

use std::ops::Range;

use crate::{
    Flags, FrameKind, Generation, Header, MAX_REPORTS_BYTES, PeerRole, Refusal, TaskReport,
    Welcome, shard_ranges,
};
use link::Link;

/// A frame to send, and what it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingFrame {
    /// The frame's header.
    pub header: Header,
    /// Which of the gradient's values the payload begins with; none on a pull.
    pub gradient: Range<usize>,
}

/// What the client is in the middle of.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// All chunks are being pushed; each answer brings fresh parameters.
    Push { step: u64, examples: u32 },
    /// All chunks, or the values of some keys, are being pulled; `resume` on the first pull of
    /// a worker.
    Pull { resume: bool, ahead: bool },
}

/// The machine of one client. See the module's documentation for how it is driven.
pub struct Client {
    config: ClientConfig,
    links: Vec<Link>,
    operation: Option<Operation>,
    /// The number of the present or last push.
    sequence: u64,
    /// The step that the slot goes on with; known once all servers have welcomed.
    resume_step: Option<u64>,
    has_pulled: bool,
    /// The last push that any chunk of any server has of a process before this one, or of a
    /// checkpoint: up to there all must have all.
    owed_to: u64,
    stopping: bool,
    dropped: bool,
    already_left: bool,
    /// The newest generation of the run that it knows of.
    generation: Generation,
    /// How many pushes were complete before the run went back, until it is known to where.
    made_before: u64,
    lost: u64,
}

impl Client {
    /// A client that has said nothing yet.
    ///
    /// # Panics
    /// If there are no servers, or fewer parameters than servers.
    pub fn new(config: ClientConfig) -> Self {
        assert!(config.total_params >= config.servers, "fewer parameters than servers");
        Self {
            links: new_links(&config),
            config,
            operation: None,
            sequence: 0,
            resume_step: None,
            has_pulled: false,
            owed_to: 0,
            stopping: false,
            dropped: false,
            already_left: false,
            generation: Generation::default(),
            made_before: 0,
            lost: 0,
        }
    }

    /// Where the payload of a frame belongs, asked before it is read.
    pub fn read_target(&self, server: usize, header: &Header) -> Result<ReadTarget, ProtocolError> {
        match header.kind {
            FrameKind::Params | FrameKind::Values
                if (header.kind == FrameKind::Values) == self.config.is_sparse =>
            {
                self.links[server].expect_chunk(header, self.expected_sequence())
            }
            kind if kind.carries_floats() || kind.carries_gradient() => {
                Err(ProtocolError::Unexpected(header.kind))
            }
            _ => Ok(ReadTarget::Bytes(header.len as usize)),
        }
    }

    /// A frame has arrived; of `Params`, the payload already lies where [`Client::expect`] said
    /// and `bytes` is empty.
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
            FrameKind::Reports => self.reports_arrived(server, header, bytes),
            FrameKind::Notice => Ok(ClientEvent::Notice(text())),
            FrameKind::Abort => Ok(ClientEvent::Abort(text())),
            FrameKind::Bye if header.flags.contains(Flags::STOP) => Ok(ClientEvent::RunOver),
            FrameKind::Bye => Ok(ClientEvent::Bye),
            kind => Err(ProtocolError::Unexpected(kind)),
        }
    }

    fn welcomed(
        &mut self,
        server: usize,
        header: &Header,
        bytes: &[u8],
    ) -> Result<ClientEvent, ProtocolError> {
        let welcome = Welcome::decode(bytes)?;
        if self.generation.is_newer_than(welcome.generation) {
            return Ok(ClientEvent::ServerBehind);
        }
        if welcome.generation.is_newer_than(self.generation) {
            self.generation = welcome.generation;
            if self.links.iter().any(|link| link.resume().is_some()) {
                self.begin_anew();
                return Ok(ClientEvent::Rewound);
            }
        }
        self.links[server].welcome(&welcome)?;
        self.already_left |= header.flags.contains(Flags::LEFT);
        if self.resume_step.is_none() {
            let ahead = u64::from(header.flags.contains(Flags::PARTIAL));
            let has = (welcome.resume_sequence + ahead).saturating_sub(1);
            self.owed_to = self.owed_to.max(has);
            self.find_resume();
        }
        Ok(ClientEvent::Welcome)
    }

    /// Forgets everything but how many pushes have been made: the run has gone back.
    fn begin_anew(&mut self) {
        self.made_before = self.made_before.max(self.complete_pushes());
        self.links = new_links(&self.config);
        self.operation = None;
        self.sequence = 0;
        self.resume_step = None;
        self.owed_to = 0;
        (self.has_pulled, self.already_left) = (false, false);
        (self.stopping, self.dropped) = (false, false);
    }

    /// Once all servers have told how far the slot has come with them: the first push that not
    /// all of them have is the one to go on with.
    fn find_resume(&mut self) {
        let told = || self.links.iter().map(Link::resume);
        if told().any(|resume| resume.is_none()) {
            return;
        }
        let next = told().flatten().map(|(sequence, _)| sequence).min().unwrap_or(1);
        let at_next = told().flatten().filter(|(sequence, _)| *sequence == next);
        self.resume_step = at_next.map(|(_, step)| step).max();
        self.sequence = next.saturating_sub(1);
        self.lost += std::mem::take(&mut self.made_before).saturating_sub(self.sequence);
    }

    fn chunk_arrived(
        &mut self,
        server: usize,
        header: &Header,
    ) -> Result<ClientEvent, ProtocolError> {
        let sequence = self.expected_sequence();
        self.links[server].answered(header, sequence)?;
        // One server decides when to stop, or some workers could stop a step before others.
        self.stopping |= server == 0 && header.flags.contains(Flags::STOP);
        if matches!(self.operation, Some(Operation::Push { .. })) {
            self.dropped |= header.flags.contains(Flags::DROPPED);
        }
        if self.links.iter().any(|link| !link.is_complete()) {
            return Ok(ClientEvent::Progress);
        }
        let operation = self.operation.take();
        let is_for_a_batch =
            !matches!(operation, Some(Operation::Pull { resume: false, ahead: false }));
        if is_for_a_batch {
            self.links.iter_mut().for_each(Link::owe_gradient);
        }
        Ok(ClientEvent::Complete)
    }

    fn reports_arrived(
        &mut self,
        server: usize,
        header: &Header,
        bytes: &[u8],
    ) -> Result<ClientEvent, ProtocolError> {
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

    /// Begins to push a gradient: of which step of the plan, and over how many examples.
    ///
    /// # Panics
    /// If the last operation is not complete, or the client is no worker that has started.
    pub fn begin_push(&mut self, step: u64, examples: u32) {
        assert!(self.config.role == PeerRole::Worker, "only workers push");
        assert!(self.resume_step.is_some(), "no server has been asked how far the slot has come");
        self.begin(Operation::Push { step, examples });
        self.sequence += 1;
        self.dropped = false;
    }

    /// Begins to pull all parameters.
    ///
    /// A worker's first pull may wait, if its slot was another process's before and that one's
    /// last push waits.
    ///
    /// # Panics
    /// If the last operation is not complete, or some server has not welcomed the client yet.
    pub fn begin_pull(&mut self) {
        assert!(self.resume_step.is_some(), "not all servers have welcomed this client");
        // Who has left only looks.
        let is_new = !self.has_pulled && !self.already_left;
        let resume = self.config.role == PeerRole::Worker && is_new;
        self.has_pulled = true;
        self.begin(Operation::Pull { resume, ahead: false });
    }

    fn begin(&mut self, operation: Operation) {
        assert!(self.is_complete(), "one operation at a time");
        self.operation = Some(operation);
        self.links.iter_mut().for_each(Link::begin);
    }

    /// The next frame for a server; none if there is nothing to send, or if enough is
    /// unanswered. Behind the gradient that it names, a frame carries [`Client::keys`].
    ///
    /// To be asked again until it gives none, after every `begin` and every arrival.
    pub fn next_frame(&mut self, server: usize) -> Option<OutgoingFrame> {
        let operation = self.operation?;
        let sequence = self.expected_sequence();
        let link = &mut self.links[server];
        let (chunk, range, version) =
            link.next_chunk(matches!(operation, Operation::Push { .. }))?;
        let (kinds, keys) = match &link.asks {
            Some(asks) => ((FrameKind::PushKeys, FrameKind::PullKeys), asks.encoded.len()),
            None => ((FrameKind::Push, FrameKind::Pull), 0),
        };
        match operation {
            Operation::Push { step, examples } => {
                let (range, version) = match &link.asks {
                    Some(asks) => asks.pushing.clone(),
                    None => (range, version),
                };
                let mut header = Header::new(kinds.0, range.len() * 4 + keys);
                (header.chunk, header.count) = (chunk, examples);
                (header.step, header.version, header.sequence) = (step, version, sequence);
                Some(OutgoingFrame { header, gradient: range })
            }
            Operation::Pull { resume, ahead } => {
                let mut header = Header::new(kinds.1, keys);
                (header.chunk, header.sequence) = (chunk, sequence);
                if resume {
                    header.flags = Flags::RESUME;
                    header.step = self.resume_step.unwrap_or(0);
                } else if ahead {
                    header.flags = Flags::AHEAD;
                }
                Some(OutgoingFrame { header, gradient: 0..0 })
            }
        }
    }

    /// The keys that follow the gradient in what is sent to a server; none for a dense model.
    pub fn keys(&self, server: usize) -> &[u8] {
        self.links[server].asks.as_ref().map_or(&[], |asks| &asks.encoded)
    }

    /// What the answers to the present operation repeat: the number of the push, or for a pull
    /// that of the push to come.
    fn expected_sequence(&self) -> u64 {
        match self.operation {
            Some(Operation::Pull { .. }) => self.sequence + 1,
            _ => self.sequence,
        }
    }

    /// Where in the flat parameters the next answer of a server most likely belongs; none if
    /// none is awaited. Nothing of worth lies there, so an answer may be read to it before its
    /// header is known, and moved if it belongs elsewhere.
    pub fn likely_target(&self, server: usize) -> Option<Range<usize>> {
        self.links[server].likely()
    }

    /// The connection to a server was lost. After a new one is opened and welcomed, what was
    /// unanswered is sent again.
    pub fn connection_lost(&mut self, server: usize) {
        self.links[server].lost();
    }

    /// Whether the last operation has been answered in full.
    pub fn is_complete(&self) -> bool {
        self.operation.is_none()
    }

    /// Whether every server has welcomed the client on its present connection.
    pub fn is_welcome(&self) -> bool {
        self.links.iter().all(Link::is_welcome)
    }

    /// Whether a server has welcomed the client on its present connection. Until then it may be in
    /// a generation that this client has not heard of, and is told nothing but `Hello`.
    pub fn is_welcome_at(&self, server: usize) -> bool {
        self.links[server].is_welcome()
    }

    /// Whether every server has said that the run has started.
    pub fn is_started(&self) -> bool {
        self.links.iter().all(Link::is_started)
    }

    /// The step of the plan that the slot goes on with: 0, but after a take-over.
    /// Known once all servers have welcomed the client.
    pub fn resume_step(&self) -> Option<u64> {
        self.resume_step
    }

    /// Whether another process had left for this slot already, so that nothing is to be done
    /// but to leave.
    pub fn already_left(&self) -> bool {
        self.already_left
    }

    /// The generation of the run that the client is in.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// How many pushes of this process had been answered and were lost when the run went back:
    /// they are made again.
    pub fn lost_pushes(&self) -> u64 {
        self.lost
    }

    /// Updates applied, as the last answer for the first chunk told.
    pub fn global_step(&self) -> u64 {
        self.links[0].first_version()
    }

    /// Whether the run is stopping, so that nothing more shall be pushed.
    ///
    /// A process that took a slot over in the middle of a push, or from a checkpoint of servers
    /// that were some pushes apart, makes those pushes first, so that all chunks of all servers
    /// have them.
    pub fn is_stopping(&self) -> bool {
        self.stopping && !self.has_unfinished_push()
    }

    /// How many pushes of the slot have been answered in full.
    fn complete_pushes(&self) -> u64 {
        self.sequence - u64::from(matches!(self.operation, Some(Operation::Push { .. })))
    }

    /// Whether there are pushes still to be made that some chunk of some server has already.
    pub fn has_unfinished_push(&self) -> bool {
        self.complete_pushes() < self.owed_to
    }

    /// Whether the last push came too late and was dropped.
    pub fn was_dropped(&self) -> bool {
        self.dropped
    }
}

/// All servers, before any has said anything.
fn new_links(config: &ClientConfig) -> Vec<Link> {
    let shards = shard_ranges(config.total_params, config.servers);
    shards.into_iter().map(|shard| Link::new(shard, config.is_sparse)).collect()
}
