//! A worker's side: all its servers, and one exchange after another.
//!
//! The link owns the worker's copy of the parameters, because answers are read straight into
//! it. An exchange sends the gradient from the caller's slice and is over when every part has
//! been answered; with large models the answers to the first parts come in while the last are
//! still on their way out, so sending, applying and receiving go on at the same time.

mod keys;
mod peer;
mod start;

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use paceline_exchange::{Client, ClientConfig, ClientEvent, Header, RefuseCode, Report, Role};

use crate::PeerState;
use crate::patience::Patience;
use crate::serve::poll_once;
use peer::Peer;

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
    reports: Vec<Option<Vec<Report>>>,
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
        self.client.stopping()
    }

    /// Whether the last push came too late and was dropped.
    pub fn dropped(&self) -> bool {
        self.client.dropped()
    }

    /// Whether another process had left for this slot already, so that nothing is to be pushed.
    pub fn already_left(&self) -> bool {
        self.client.already_left()
    }

    /// Whether a push must be made yet that the slot's last process has begun.
    pub fn owes_push(&self) -> bool {
        self.client.owes_push()
    }

    /// Bytes sent to and received from all servers.
    pub fn moved_bytes(&self) -> (u64, u64) {
        let sum = |of: fn(&Peer) -> u64| self.peers.iter().map(of).sum();
        (sum(Peer::sent_bytes), sum(Peer::received_bytes))
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
            attendant.moved(Moved::Push);
            let mut progress = self.send_all(grad)?;
            if self.any_readable() {
                attendant.moved(Moved::Pull);
                progress |= self.read_all(attendant)?;
            }
            let is_sent = until == Until::Sent && self.peers.iter().all(Peer::is_sent);
            if is_sent || self.client.is_complete() {
                return Ok(());
            }
            if !progress {
                attendant.moved(Moved::Wait);
                self.wait(wait.get_or_insert_with(Wait::new), attendant)?;
            }
        }
    }

    /// Sends what can be sent now; says whether anything was.
    fn send_all(&mut self, grad: &[f32]) -> Result<bool, LinkError> {
        let mut progress = false;
        for (server, peer) in self.peers.iter_mut().enumerate() {
            progress |= peer.send_parts(server, &mut self.client, grad)?;
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
            while let Some(event) =
                self.peers[server].read_event(server, &mut self.client, &mut self.params)?
            {
                progress = true;
                self.on_event(server, event, attendant)?;
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
        let peer = &mut self.peers[server];
        match event {
            ClientEvent::Welcome => peer.state = PeerState::Ready,
            ClientEvent::Started => peer.state = PeerState::Started,
            ClientEvent::Refused(refusal) if refusal.code == RefuseCode::SlotTaken => {
                return Err(LinkError::Taken(refusal.text));
            }
            ClientEvent::Refused(refusal) => peer.refused(refusal),
            ClientEvent::Notice(text) => attendant.note(&text),
            ClientEvent::Abort(why) => return Err(LinkError::Aborted(why)),
            ClientEvent::Reports(reports) => self.reports[server] = Some(reports),
            ClientEvent::Bye => peer.said_bye = true,
            ClientEvent::Part | ClientEvent::Complete => {}
        }
        Ok(())
    }

    /// Sleeps until a socket has something, but looks a few times first. Tells whoever wants
    /// to know once a second, and gives up at the limit.
    fn wait(&mut self, wait: &mut Wait, attendant: &mut impl Attendant) -> Result<(), LinkError> {
        let mut patience = Patience::new();
        loop {
            let sleep = if patience.look_again() { Duration::ZERO } else { SECOND / 4 };
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
        let names = self.peers.iter().enumerate().filter(|(server, peer)| {
            self.client.likely(*server).is_some() || !peer.said_bye && self.client.is_complete()
        });
        names.map(|(_, peer)| peer.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Asks server 0 to end the run, and says why. Only the chief is listened to.
    pub fn stop(&mut self, reason: &str) -> Result<(), LinkError> {
        let (header, body) = Client::stop(reason);
        self.peers[0].send_control(&header, &body)
    }

    /// Asks all servers for a checkpoint of this step. Only the chief is listened to.
    pub fn checkpoint(&mut self, step: u64) -> Result<(), LinkError> {
        self.tell_all(&Client::checkpoint(step), &[])
    }

    /// Leaves the run in good order, with a report for the chief.
    pub fn leave(
        &mut self,
        report: &[u8],
        attendant: &mut impl Attendant,
    ) -> Result<(), LinkError> {
        self.say_goodbye(&Client::leave(report.to_vec()), attendant)?;
        // The chief has more to say.
        self.peers.iter_mut().for_each(|peer| peer.said_bye = false);
        Ok(())
    }

    /// Gives the slot back in good order, with a report for the chief. The last push must have been
    /// answered. A server that hangs up has given the slot to another already.
    pub fn release(
        &mut self,
        report: &[u8],
        attendant: &mut impl Attendant,
    ) -> Result<(), LinkError> {
        self.peers.iter_mut().for_each(|peer| peer.may_go = true);
        self.say_goodbye(&Client::release(report.to_vec()), attendant)
    }

    /// Says goodbye to all servers, to server 0 last, when all others have answered: it decides who
    /// fills which slot, and what it knows of one must hold everywhere.
    fn say_goodbye(
        &mut self,
        (header, body): &(Header, Vec<u8>),
        attendant: &mut impl Attendant,
    ) -> Result<(), LinkError> {
        let (first, others) = (0..1, 1..self.peers.len());
        for servers in [others, first] {
            for peer in &mut self.peers[servers.clone()] {
                match peer.send_control(header, body) {
                    Err(_) if peer.may_go => peer.said_bye = true,
                    sent => sent?,
                }
            }
            self.until(attendant, |link| {
                link.peers[servers.clone()].iter().all(|peer| peer.said_bye)
            })?;
        }
        Ok(())
    }

    /// The chief's question: what did everybody do? Answered when all workers have left; a
    /// list of reports for each server.
    pub fn collect(
        &mut self,
        attendant: &mut impl Attendant,
    ) -> Result<Vec<Vec<Report>>, LinkError> {
        self.tell_all(&Client::collect(), &[])?;
        self.until(attendant, |link| link.reports.iter().all(Option::is_some))?;
        Ok(self.reports.iter_mut().map(|reports| reports.take().unwrap_or_default()).collect())
    }

    /// The chief's last word: the run is over, and servers may go.
    pub fn finish(&mut self, attendant: &mut impl Attendant) -> Result<(), LinkError> {
        self.tell_all(&Client::finish(), &[])?;
        self.until_bye(attendant)
    }

    fn until_bye(&mut self, attendant: &mut impl Attendant) -> Result<(), LinkError> {
        self.until(attendant, |link| link.peers.iter().all(|peer| peer.said_bye))
    }

    fn tell_all(&mut self, header: &Header, body: &[u8]) -> Result<(), LinkError> {
        self.peers.iter_mut().try_for_each(|peer| peer.send_control(header, body))
    }

    fn until(
        &mut self,
        attendant: &mut impl Attendant,
        done: impl Fn(&Self) -> bool,
    ) -> Result<(), LinkError> {
        let mut wait = Wait::new();
        attendant.moved(Moved::Wait);
        while !done(self) {
            self.peers.iter_mut().try_for_each(Peer::flush)?;
            if !self.read_all(attendant)? && !done(self) {
                self.wait(&mut wait, attendant)?;
            }
        }
        Ok(())
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
