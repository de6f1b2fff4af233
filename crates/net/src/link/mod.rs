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

use std::time::{Duration, Instant};

use mio::{Events, Poll};
use paceline_exchange::{Client, ClientConfig, ClientEvent, PeerRole, RefuseCode, TaskReport};

use crate::error::LinkError;
use crate::observer::{ExchangePhase, LinkObserver};
use crate::outcome::LinkOutcome;
use crate::patience::Patience;
use crate::peer::PeerState;
use crate::serve::poll_once;
use crate::traffic::Traffic;
use peer::Peer;
use rejoin::Said;

/// How often a wait is looked at by those who want to know of it.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// How a worker or an evaluator reaches the servers of its run.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    /// The identity of this worker or evaluator, and the parameters that it expects.
    pub client: ClientConfig,
    /// The servers' addresses, `host:port`, in the order of their indices.
    pub servers: Vec<String>,
    /// The time that [`ServerConnections::connect`] waits for all servers and workers.
    pub start_timeout: Duration,
    /// The longest that one operation may wait without progress.
    pub stall_timeout: Duration,
    /// The time that a lost server has to come back; `None` fails at the first lost connection.
    pub rejoin_timeout: Option<Duration>,
}

impl ConnectConfig {
    /// Waits 60 s for the start and 610 s for a server's answer, 10 s longer than a server waits
    /// for other workers, so that the worker hears the reason from the server. The first lost
    /// connection is an error.
    pub fn new(client: ClientConfig, servers: Vec<String>) -> Self {
        Self {
            client,
            servers,
            start_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(610),
            rejoin_timeout: None,
        }
    }
}

/// A worker's or evaluator's connections to all servers, and its copy of the parameters.
pub struct ServerConnections {
    client: Client,
    peers: Vec<Peer>,
    /// All parameters; of a sparse model, the values that the present operation asks for.
    params: Vec<f32>,
    poll: Poll,
    events: Events,
    config: ConnectConfig,
    /// What servers said at the end: a report list of each.
    reports: Vec<Option<Vec<TaskReport>>>,
    said: Said,
    /// A server has said that the run is over.
    is_over: bool,
    /// The run went back to a checkpoint, and `resume_after_rewind` has not been called since.
    has_rewound: bool,
    /// Of a sparse model: the gradient that was pushed last, until it is answered.
    pushed: Vec<f32>,
}

impl ServerConnections {
    /// The parameters as last pulled. For a sparse model, the values of the last operation's keys.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// Updates that the servers have made, as of their last answer.
    pub fn global_step(&self) -> u64 {
        self.client.global_step()
    }

    /// The plan step that this slot continues with; above 0 when the slot was filled before or
    /// the run resumes from a checkpoint.
    pub fn resume_step(&self) -> u64 {
        self.client.resume_step().unwrap_or(0)
    }

    /// Whether the run is stopping: the worker must push nothing more.
    pub fn is_stopping(&self) -> bool {
        self.client.is_stopping()
    }

    /// Whether the servers dropped the last push because it came too late.
    pub fn was_dropped(&self) -> bool {
        self.client.was_dropped()
    }

    /// Whether an earlier process left the run for this slot: the worker must push nothing.
    pub fn already_left(&self) -> bool {
        self.client.already_left()
    }

    /// Whether the slot's previous process began a push that this one must make again.
    pub fn has_unfinished_push(&self) -> bool {
        self.client.has_unfinished_push()
    }

    /// Bytes sent to and received from each server, in the order of their indices.
    pub fn traffic(&self) -> impl Iterator<Item = Traffic> {
        self.peers.iter().map(Peer::traffic)
    }

    /// Pulls all parameters.
    pub fn pull(&mut self, observer: &mut impl LinkObserver) -> Result<LinkOutcome, LinkError> {
        self.client.begin_pull();
        self.complete(&[], Until::Answered, observer)
    }

    /// Pushes the gradient of the batch of plan step `step`, computed from `examples` examples,
    /// and pulls the updated parameters as soon as the servers' gate releases them.
    ///
    /// # Panics
    /// If the gradient is not as long as the parameters.
    pub fn exchange(
        &mut self,
        step: u64,
        examples: u32,
        grad: &[f32],
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        assert_eq!(grad.len(), self.params.len(), "gradient");
        self.client.begin_push(step, examples);
        observer.sending_gradient(step);
        self.complete(grad, Until::Answered, observer)
    }

    /// Sends and reads until the present operation has been sent or answered in full.
    fn complete(
        &mut self,
        grad: &[f32],
        until: Until,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        let mut wait = None;
        while !self.has_rewound {
            self.reconnect()?;
            observer.enter_phase(ExchangePhase::Push);
            let mut progress = self.send_all(grad)?;
            if self.any_readable() {
                observer.enter_phase(ExchangePhase::Pull);
                progress |= self.read_all(observer)?;
            }
            if !progress && !self.has_come(until) && !self.is_over {
                observer.enter_phase(ExchangePhase::Wait);
                self.wait(wait.get_or_insert_with(Wait::new), observer)?;
            }
            if self.has_rewound {
                break;
            }
            if self.has_come(until) {
                self.peers.iter_mut().for_each(|peer| peer.breaks = 0);
                if self.client.is_complete() {
                    self.was_answered();
                }
                return Ok(LinkOutcome::Done(()));
            }
            if self.is_over {
                return Err(LinkError::Aborted("the run is over".into()));
            }
        }
        Ok(LinkOutcome::Rewound)
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
    fn read_all(&mut self, observer: &mut impl LinkObserver) -> Result<bool, LinkError> {
        let mut progress = false;
        for server in 0..self.peers.len() {
            loop {
                let peer = &mut self.peers[server];
                match peer.read_event(server, &mut self.client, &mut self.params) {
                    Ok(Some(event)) => {
                        if peer.takes_first_part() {
                            observer.update_arrived(server);
                        }
                        self.on_event(server, event, observer)?;
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
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        let is_releasing = self.is_releasing();
        let peer = &mut self.peers[server];
        match event {
            ClientEvent::Welcome => return self.welcomed(server),
            ClientEvent::ServerBehind => self.call_again(server),
            ClientEvent::Rewound => self.rewound(),
            ClientEvent::Started => peer.state = PeerState::Started,
            // To who gives the slot back that is as good as a goodbye.
            ClientEvent::Refused(refusal) if refusal.code == RefuseCode::SlotTaken => {
                if is_releasing {
                    peer.is_rid_of_us();
                    return Ok(());
                }
                return Err(LinkError::SlotTaken(refusal.text));
            }
            ClientEvent::Refused(refusal) => peer.refused(refusal),
            ClientEvent::Notice(text) => observer.note(&text),
            ClientEvent::Abort(why) => return Err(LinkError::Aborted(why)),
            ClientEvent::Reports(reports) => self.reports[server] = Some(reports),
            ClientEvent::Bye => {
                peer.said_bye = true;
                peer.may_close = self.config.rejoin_timeout.is_none() || is_releasing;
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
    fn wait(&mut self, wait: &mut Wait, observer: &mut impl LinkObserver) -> Result<(), LinkError> {
        let mut patience = Patience::new();
        if let [server] = &mut self.peers[..]
            && patience.look_again()
        {
            // The first look is at the socket itself, as the server's is.
            server.wake();
            observer.enter_phase(ExchangePhase::Pull);
            if self.read_all(observer)? {
                return Ok(());
            }
            observer.enter_phase(ExchangePhase::Wait);
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
            if observer.should_give_up() {
                return Err(LinkError::Interrupted);
            }
            let waited = wait.since.elapsed();
            if waited >= self.config.stall_timeout {
                let whom = self.unanswered();
                return Err(LinkError::Stalled { seconds: waited.as_secs(), whom });
            }
            if wait.told.elapsed() >= SECOND {
                wait.told = Instant::now();
                observer.note(&format!(
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

    /// Coordinator only: the reports of all workers and servers, a list from each server. The
    /// servers answer when all workers have left.
    pub fn collect_reports(
        &mut self,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome<Vec<Vec<TaskReport>>>, LinkError> {
        self.say_goodbye(Client::collect(), Vec::new())?;
        let has_all = |link: &Self| link.reports.iter().all(Option::is_some);
        if self.until(observer, has_all)? == LinkOutcome::Rewound {
            return Ok(LinkOutcome::Rewound);
        }
        let reports = self.reports.iter_mut().map(|reports| reports.take().unwrap_or_default());
        Ok(LinkOutcome::Done(reports.collect()))
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
