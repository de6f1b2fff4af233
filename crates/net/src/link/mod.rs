//! A worker's side: all its servers, and one exchange after another.
//!
//! The link owns the worker's copy of the parameters, because answers are read straight into
//! it. An exchange sends the gradient from the caller's slice and is over when every part has
//! been answered; with large models the answers to the first parts come in while the last are
//! still on their way out, so sending, applying and receiving go on at the same time. What
//! happens when a connection breaks is in `rejoin.rs`.

mod keys;
mod peer;
mod rejoin;
mod start;

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use paceline_exchange::{Client, ClientConfig, ClientEvent, PeerRole, RefuseCode, TaskReport};

use crate::PeerState;
use crate::patience::Patience;
use crate::serve::poll_once;
use peer::Peer;
use rejoin::Said;

/// How often a wait is looked at by those who want to know of it.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Everything that a link needs to know.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Who we are.
    pub client: ClientConfig,
    /// The servers' addresses, `host:port`, in the order of their indices.
    pub servers: Vec<String>,
    /// How long the start may take.
    pub start_timeout: Duration,
    /// How long an exchange may take.
    pub stall_timeout: Duration,
    /// How long a server whose connection broke may take to come back; none is not at all.
    pub rejoin: Option<Duration>,
}

/// Why a link is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Not everybody was there in time.
    #[error("the run did not start within {seconds} s: {missing}")]
    NotStarted {
        /// How long was waited.
        seconds: u64,
        /// Who was missing, and what state each is in.
        missing: String,
    },
    /// A server, or another worker, is gone.
    #[error("lost {server} ({address}): {why}")]
    Lost {
        /// Which one.
        server: String,
        /// Where it was.
        address: String,
        /// What happened.
        why: String,
    },
    /// A newer process fills the slot.
    #[error("{0}")]
    Taken(String),
    /// The run has gone back to a checkpoint, because a server was lost: see
    /// [`Link::begin_again`].
    #[error("the run has gone back to a checkpoint")]
    Rewound,
    /// A server or another worker called the run off.
    #[error("{0}")]
    Aborted(String),
    /// Nothing came for too long.
    #[error("waited {seconds} s for {whom}")]
    Stalled {
        /// How long.
        seconds: u64,
        /// For whom.
        whom: String,
    },
    /// A batch touches more parameters than a frame holds.
    #[error("a batch touches more than {most} parameters of one server; make train.batch smaller")]
    TooManyKeys {
        /// How many one may.
        most: usize,
    },
    /// The caller gave up waiting.
    #[error("interrupted")]
    Interrupted,
    /// The system does not give what a link needs.
    #[error("the worker's sockets: {0}")]
    Io(#[from] io::Error),
}

/// What an exchange is doing, for whoever accounts for the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The gradient goes out.
    Push,
    /// Nothing can be sent or read.
    Wait,
    /// Parameters come in.
    Pull,
}

/// Somebody who is told how a link fares.
pub trait Attendant {
    /// From now on the time goes to this.
    fn moved(&mut self, to: Moved);
    /// A text for a person: whom a step waits for, or a notice from a server.
    fn note(&mut self, text: &str);
    /// Asked a few times a second during waits: whether to give up.
    fn gives_up(&mut self) -> bool;
    /// The gradient of a step of the plan is about to go to all servers or peers.
    fn sends(&mut self, _step: u64) {}
    /// The first part of what came of the last gradient is here, from this server or peer.
    fn got(&mut self, _peer: usize) {}
    /// Without servers: the first part of a peer's gradient of this step has come.
    fn arrived(&mut self, _peer: usize, _step: u64) {}
    /// Without servers: since the last change, gradients were applied. What came of them has not
    /// gone to anybody yet.
    fn applied(&mut self) {}
}

/// A worker's or evaluator's connections to all servers, and its copy of the parameters.
pub struct Link {
    client: Client,
    peers: Vec<Peer>,
    /// All parameters; of a sparse model, the values that the present operation asks for.
    params: Vec<f32>,
    poll: Poll,
    events: Events,
    config: LinkConfig,
    /// What servers said at the end: a report list of each.
    reports: Vec<Option<Vec<TaskReport>>>,
    said: Said,
    /// A server has said that the run is over.
    is_over: bool,
    /// Of a sparse model: the gradient that was pushed last, until it is answered.
    pushed: Vec<f32>,
}

impl Link {
    /// The parameters as they were last pulled; of a sparse model, those that were asked for last.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// Updates made, as far as this link knows.
    pub fn global_step(&self) -> u64 {
        self.client.global_step()
    }

    /// The plan step that this slot goes on with: 0, but after a take-over.
    pub fn resume_step(&self) -> u64 {
        self.client.resume_step().unwrap_or(0)
    }

    /// Whether the run is stopping, so that nothing more shall be pushed.
    pub fn stopping(&self) -> bool {
        self.client.is_stopping()
    }

    /// Whether the last push came too late and was dropped.
    pub fn dropped(&self) -> bool {
        self.client.was_dropped()
    }

    /// Whether another process had left for this slot already, so that nothing is to be pushed.
    pub fn already_left(&self) -> bool {
        self.client.already_left()
    }

    /// Whether a push must be made yet that the slot's last process has begun.
    pub fn owes_push(&self) -> bool {
        self.client.has_unfinished_push()
    }

    /// Bytes sent to and received from all servers.
    pub fn moved_bytes(&self) -> (u64, u64) {
        let sum = |of: fn(&Peer) -> u64| self.peers.iter().map(of).sum();
        (sum(Peer::sent_bytes), sum(Peer::received_bytes))
    }

    /// Bytes sent to and received from each server, in their order.
    pub fn moved_by_peer(&self) -> impl Iterator<Item = (u64, u64)> {
        self.peers.iter().map(|peer| (peer.sent_bytes(), peer.received_bytes()))
    }

    /// Fetches all parameters.
    pub fn pull(&mut self, attendant: &mut impl Attendant) -> Result<(), LinkError> {
        self.client.begin_pull();
        self.complete(&[], Until::Answered, attendant)
    }

    /// Hands over the gradient of the batch of plan step `step` and fetches the parameters
    /// that come of it, as the servers' gate lets them go.
    ///
    /// # Panics
    /// If the gradient is not as long as the parameters.
    pub fn exchange(
        &mut self,
        step: u64,
        examples: u32,
        grad: &[f32],
        attendant: &mut impl Attendant,
    ) -> Result<(), LinkError> {
        assert_eq!(grad.len(), self.params.len(), "gradient");
        self.client.begin_push(step, examples);
        attendant.sends(step);
        self.complete(grad, Until::Answered, attendant)
    }

    /// Sends and reads until the present operation has been sent or answered in full.
    fn complete(
        &mut self,
        grad: &[f32],
        until: Until,
        attendant: &mut impl Attendant,
    ) -> Result<(), LinkError> {
        let mut wait = None;
        loop {
            self.reconnect()?;
            attendant.moved(Moved::Push);
            let mut progress = self.send_all(grad)?;
            if self.any_readable() {
                attendant.moved(Moved::Pull);
                progress |= self.read_all(attendant)?;
            }
            if !progress && !self.has_come(until) && !self.is_over {
                attendant.moved(Moved::Wait);
                self.wait(wait.get_or_insert_with(Wait::new), attendant)?;
            }
            if self.has_come(until) {
                self.peers.iter_mut().for_each(|peer| peer.breaks = 0);
                if self.client.is_complete() {
                    self.was_answered();
                }
                return Ok(());
            }
            if self.is_over {
                return Err(LinkError::Aborted("the run is over".into()));
            }
        }
    }

    /// Whether the present operation has come as far as it is to be brought.
    fn has_come(&self, until: Until) -> bool {
        let is_sent = until == Until::Sent && self.peers.iter().all(Peer::is_sent);
        is_sent || self.client.is_complete()
    }

    /// Sends what can be sent now; says whether anything was.
    fn send_all(&mut self, grad: &[f32]) -> Result<bool, LinkError> {
        let mut progress = false;
        for server in 0..self.peers.len() {
            match self.peers[server].send_parts(server, &mut self.client, grad) {
                Ok(sent) => progress |= sent,
                Err(error) => self.heal(server, error)?,
            }
        }
        Ok(progress)
    }

    fn any_readable(&self) -> bool {
        self.peers.iter().any(|peer| peer.readable)
    }

    /// Reads what can be read now; says whether anything was.
    fn read_all(&mut self, attendant: &mut impl Attendant) -> Result<bool, LinkError> {
        let mut progress = false;
        for server in 0..self.peers.len() {
            loop {
                let peer = &mut self.peers[server];
                match peer.read_event(server, &mut self.client, &mut self.params) {
                    Ok(Some(event)) => {
                        if peer.takes_first_part() {
                            attendant.got(server);
                        }
                        self.on_event(server, event, attendant)?;
                    }
                    Ok(None) => break,
                    Err(error) => self.heal(server, error)?,
                }
                progress = true;
            }
        }
        Ok(progress)
    }

    fn on_event(
        &mut self,
        server: usize,
        event: ClientEvent,
        attendant: &mut impl Attendant,
    ) -> Result<(), LinkError> {
        let is_releasing = self.is_releasing();
        let peer = &mut self.peers[server];
        match event {
            ClientEvent::Welcome => return self.welcomed(server),
            ClientEvent::ServerBehind => self.call_again(server),
            ClientEvent::Rewound => return Err(self.rewound()),
            ClientEvent::Started => peer.state = PeerState::Started,
            // To who gives the slot back that is as good as a goodbye.
            ClientEvent::Refused(refusal) if refusal.code == RefuseCode::SlotTaken => {
                if is_releasing {
                    peer.is_rid_of_us();
                    return Ok(());
                }
                return Err(LinkError::Taken(refusal.text));
            }
            ClientEvent::Refused(refusal) => peer.refused(refusal),
            ClientEvent::Notice(text) => attendant.note(&text),
            ClientEvent::Abort(why) => return Err(LinkError::Aborted(why)),
            ClientEvent::Reports(reports) => self.reports[server] = Some(reports),
            ClientEvent::Bye => {
                peer.said_bye = true;
                peer.may_close = self.config.rejoin.is_none() || is_releasing;
            }
            ClientEvent::RunOver => {
                (peer.said_bye, peer.may_close) = (true, true);
                self.is_over = true;
            }
            ClientEvent::Progress | ClientEvent::Complete => {}
        }
        Ok(())
    }

    /// Sleeps until a socket has something, but looks a few times first. Tells whoever wants
    /// to know once a second, and gives up at the limit.
    fn wait(&mut self, wait: &mut Wait, attendant: &mut impl Attendant) -> Result<(), LinkError> {
        let mut patience = Patience::new();
        if let [server] = &mut self.peers[..]
            && patience.look_again()
        {
            // The first look is at the socket itself, as the server's is.
            server.wake();
            attendant.moved(Moved::Pull);
            if self.read_all(attendant)? {
                return Ok(());
            }
            attendant.moved(Moved::Wait);
        }
        loop {
            let sleep = if patience.look_again() { Duration::ZERO } else { self.nap() };
            poll_once(&mut self.poll, &mut self.events, sleep)?;
            for event in &self.events {
                if let Some(peer) = self.peers.get_mut(event.token().0) {
                    peer.wake();
                }
            }
            if !self.events.is_empty() {
                return Ok(());
            }
            if sleep.is_zero() {
                continue;
            }
            if attendant.gives_up() {
                return Err(LinkError::Interrupted);
            }
            let waited = wait.since.elapsed();
            if waited >= self.config.stall_timeout {
                let whom = self.unanswered();
                return Err(LinkError::Stalled { seconds: waited.as_secs(), whom });
            }
            if wait.told.elapsed() >= SECOND {
                wait.told = Instant::now();
                attendant.note(&format!(
                    "waiting for {} ({} s)",
                    self.unanswered(),
                    waited.as_secs()
                ));
            }
            return Ok(());
        }
    }

    /// The servers that have not answered everything, by name.
    fn unanswered(&self) -> String {
        let awaited = self.peers.iter().enumerate().filter(|(server, peer)| {
            let is_awaited = self.client.likely_target(*server).is_some();
            is_awaited || peer.is_down() || !peer.said_bye && self.client.is_complete()
        });
        let name = |(_, peer): (usize, &Peer)| match peer.is_down() {
            true => format!("{} to come back (lost: {})", peer.name, peer.why_down()),
            false => peer.name.clone(),
        };
        awaited.map(name).collect::<Vec<_>>().join(", ")
    }

    /// The chief's question: what did everybody do? Answered when all workers have left; a
    /// list of reports for each server.
    pub fn collect(
        &mut self,
        attendant: &mut impl Attendant,
    ) -> Result<Vec<Vec<TaskReport>>, LinkError> {
        self.say_goodbye(Client::collect(), Vec::new())?;
        self.until(attendant, |link| link.reports.iter().all(Option::is_some))?;
        Ok(self.reports.iter_mut().map(|reports| reports.take().unwrap_or_default()).collect())
    }
}

/// How far an operation is to be brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Everything is on its way.
    Sent,
    /// Everything has been answered.
    Answered,
}

/// One long wait: since when, and when somebody was last told.
pub(crate) struct Wait {
    pub(crate) since: Instant,
    pub(crate) told: Instant,
}

impl Wait {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self { since: now, told: now }
    }
}
