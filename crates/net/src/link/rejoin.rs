//! What a worker does when a connection breaks: it calls again, and says again what was not heard.
//!
//! A broken connection may mean that a cable was pulled or that a server died; from here they look
//! the same. The worker calls again, at once and then ever less often, and the server's `Welcome`
//! tells which it was. If the server is in the generation that it was in, what is unanswered is
//! sent again and the exchange goes on. If it is in a newer one, the run has gone back to a
//! checkpoint: everybody is called anew, and whoever trains has to begin at the step that the
//! servers tell ([`LinkOutcome::Rewound`]).

use std::time::{Duration, Instant};

use paceline_exchange::{Client, FrameKind, Header};

use super::{Peer, ServerConnections, Wait};
use crate::error::LinkError;
use crate::observer::{ExchangePhase, LinkObserver};
use crate::outcome::LinkOutcome;
use crate::peer::PeerState;

/// How long a chief tries to tell a server that the run is over, when the server may be gone.
const FAREWELL: Duration = Duration::from_secs(5);
/// How often a connection may break during one exchange: more often is a fault, not an accident.
const MOST_BREAKS: u32 = 100;

/// What has been said and holds until it is taken back: on a new connection it is said again.
#[derive(Default)]
pub(super) struct Said {
    stop: Option<String>,
    /// The step of the checkpoint that was asked for, and whether an operation was under way then.
    checkpoint: Option<(u64, bool)>,
    /// The present goodbye, until each server has answered it.
    goodbye: Option<(Header, Vec<u8>)>,
    /// Server 0 is to hear the goodbye last, when all others have answered it.
    is_first_last: bool,
}

impl ServerConnections {
    /// Takes an error of a server's connection for what it is: the end of this link, or of that
    /// connection only.
    pub(super) fn heal(&mut self, server: usize, error: LinkError) -> Result<(), LinkError> {
        let LinkError::Lost { why, .. } = &error else { return Err(error) };
        let peer = &mut self.peers[server];
        peer.breaks += 1;
        if self.config.rejoin_timeout.is_none() || peer.breaks > MOST_BREAKS {
            return Err(error);
        }
        peer.broke(why);
        self.client.connection_lost(server);
        Ok(())
    }

    /// Calls the servers again whose connections are broken, when it is time to.
    pub(super) fn reconnect(&mut self) -> Result<(), LinkError> {
        for server in 0..self.peers.len() {
            let peer = &self.peers[server];
            let Some(limit) = self.config.rejoin_timeout.filter(|_| peer.is_down()) else {
                continue;
            };
            if self.is_over {
                match self.is_finishing() {
                    // Each server must hear it from the chief.
                    true if !peer.said_bye => {}
                    true => continue,
                    false => return Err(peer.lost("the run is over")),
                }
            }
            if let PeerState::Denied(refusal) = &peer.state {
                return Err(peer.lost(&refusal.text));
            }
            if peer.down_for().is_some_and(|time| time >= limit) {
                return Err(peer.lost(format!("{}; it has not come back", peer.why_down())));
            }
            if peer.stream.is_none() && Instant::now() >= peer.next_try {
                let tried = self.dial_server(server);
                self.peers[server].tried(tried);
            }
        }
        Ok(())
    }

    /// How long a wait may sleep at a time.
    pub(super) fn nap(&self) -> Duration {
        let next_try = |peer: &Peer| peer.next_try.saturating_duration_since(Instant::now());
        let tries = self.peers.iter().filter(|peer| peer.stream.is_none()).map(next_try);
        let longest = super::SECOND / 4;
        tries.min().map_or(longest, |time| time.clamp(Duration::from_millis(1), longest))
    }

    /// A server has let us in, once more or for the first time.
    pub(super) fn welcomed(&mut self, server: usize) -> Result<(), LinkError> {
        self.peers[server].welcomed();
        if let Some(reason) = self.said.stop.clone().filter(|_| server == 0) {
            let (header, body) = Client::stop(&reason);
            self.tell(server, &header, &body)?;
        }
        if let Some((step, _)) = self.said.checkpoint {
            self.tell(server, &Client::checkpoint(step), &[])?;
        }
        let is_answered = self.peers[server].said_bye || self.reports[server].is_some();
        let is_early = server == 0 && self.said.is_first_last && !self.have_others_answered();
        match self.said.goodbye.clone().filter(|_| !is_answered && !is_early) {
            Some((header, body)) => self.tell(server, &header, &body),
            None => Ok(()),
        }
    }

    /// The connection to a server is of no more use, but stays open until there is a new one: a
    /// server that has not heard of the newer generation must not think that we are lost.
    pub(super) fn call_again(&mut self, server: usize) {
        self.peers[server].retire();
        self.client.connection_lost(server);
    }

    /// The run has gone back: everybody is to be called anew, and nothing of what was said holds.
    pub(super) fn rewound(&mut self) {
        (0..self.peers.len()).for_each(|server| self.call_again(server));
        self.said = Said::default();
        self.reports.iter_mut().for_each(|reports| *reports = None);
        for peer in &mut self.peers {
            (peer.said_bye, peer.may_close, peer.may_go) = (false, false, false);
        }
        self.has_rewound = true;
    }

    /// After [`LinkOutcome::Rewound`]: connects to all servers again and, if the model is dense,
    /// pulls. The worker then continues at [`resume_step`](Self::resume_step). If the run goes
    /// back once more meanwhile, that is covered too.
    pub fn resume_after_rewind(
        &mut self,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        self.gather_and_pull(
            self.config.rejoin_timeout.unwrap_or(self.config.start_timeout),
            observer,
        )
    }

    /// Answered pushes of this process that rewinds have undone so far.
    pub fn lost_pushes(&self) -> u64 {
        self.client.lost_pushes()
    }

    /// The step of the checkpoint that the present generation of servers started from; 0 if none.
    pub fn base_step(&self) -> u64 {
        self.client.generation().base.unwrap_or(0)
    }

    /// Sends a control frame to a server, if it has let us in; if not, it is said when it has.
    fn tell(&mut self, server: usize, header: &Header, body: &[u8]) -> Result<(), LinkError> {
        if !self.client.is_welcome_at(server) {
            return Ok(());
        }
        let sent = self.peers[server].send_control(header, body);
        sent.or_else(|error| self.heal(server, error))
    }

    fn tell_all(&mut self, header: &Header, body: &[u8]) -> Result<(), LinkError> {
        (0..self.peers.len()).try_for_each(|server| self.tell(server, header, body))
    }

    /// Coordinator only: asks server 0 to stop the run. The reason goes to all tasks.
    pub fn request_stop(&mut self, reason: &str) -> Result<(), LinkError> {
        self.said.stop = Some(reason.to_owned());
        let (header, body) = Client::stop(reason);
        self.tell(0, &header, &body)
    }

    /// Coordinator only: asks all servers to write a checkpoint when they have made `step` updates.
    pub fn request_checkpoint(&mut self, step: u64) -> Result<(), LinkError> {
        self.said.checkpoint = Some((step, !self.client.is_complete()));
        self.tell_all(&Client::checkpoint(step), &[])
    }

    /// An operation has been answered. If it began after a checkpoint was asked for, the servers
    /// have heard of that, and asking again would be asking for another.
    pub(super) fn was_answered(&mut self) {
        let asked = self.said.checkpoint.take();
        self.said.checkpoint =
            asked.filter(|(_, was_under_way)| *was_under_way).map(|(step, _)| (step, false));
    }

    /// Says a goodbye to all servers.
    pub(super) fn say_goodbye(&mut self, header: Header, body: Vec<u8>) -> Result<(), LinkError> {
        self.begin_goodbye();
        self.tell_all(&header, &body)?;
        self.said.goodbye = Some((header, body));
        Ok(())
    }

    /// Says goodbye to all servers, to server 0 last, when all others have answered: it decides who
    /// fills which slot, and what it knows of one must hold everywhere.
    fn part(
        &mut self,
        (header, body): (Header, Vec<u8>),
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        self.begin_goodbye();
        self.said.is_first_last = true;
        self.said.goodbye = Some((header, body.clone()));
        for server in 1..self.peers.len() {
            self.tell_at_last(server, &header, &body)?;
        }
        if self.until(observer, Self::have_others_answered)? == LinkOutcome::Rewound {
            return Ok(LinkOutcome::Rewound);
        }
        self.tell_at_last(0, &header, &body)?;
        self.until(observer, |link| link.peers.iter().all(|peer| peer.said_bye))
    }

    /// As `tell`; but who may hang up and has done so needs not be told.
    fn tell_at_last(
        &mut self,
        server: usize,
        header: &Header,
        body: &[u8],
    ) -> Result<(), LinkError> {
        match self.tell(server, header, body) {
            Err(LinkError::Lost { .. }) if self.peers[server].may_go => {
                self.peers[server].said_bye = true;
                Ok(())
            }
            told => told,
        }
    }

    fn begin_goodbye(&mut self) {
        for (peer, reports) in self.peers.iter_mut().zip(&mut self.reports) {
            (peer.said_bye, peer.may_close, *reports) = (false, false, None);
        }
        (self.said.goodbye, self.said.is_first_last) = (None, false);
    }

    fn have_others_answered(&self) -> bool {
        self.peers[1..].iter().all(|peer| peer.said_bye)
    }

    /// Whether the slot is being given back.
    pub(super) fn is_releasing(&self) -> bool {
        self.said.goodbye.as_ref().is_some_and(|(header, _)| header.kind == FrameKind::Release)
    }

    /// Whether this is the chief, which tells the servers that the run is over.
    fn is_finishing(&self) -> bool {
        self.said.goodbye.as_ref().is_some_and(|(header, _)| header.kind == FrameKind::Finish)
    }

    /// Leaves the run, with a report for the coordinator. The slot counts as done.
    pub fn leave(
        &mut self,
        report: &[u8],
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        self.part(Client::leave(report.to_vec()), observer)
    }

    /// Gives the slot back for another process to fill, with a report for the coordinator. The
    /// last push must have been answered. A server that closes the connection or refuses this
    /// process has given the slot to another already; one that does not come back has ended the
    /// run.
    pub fn release(
        &mut self,
        report: &[u8],
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        let is_patient = self.config.rejoin_timeout.is_some();
        self.peers.iter_mut().for_each(|peer| peer.may_go = !is_patient);
        match self.part(Client::release(report.to_vec()), observer) {
            Err(LinkError::Lost { .. }) if is_patient => Ok(LinkOutcome::Done(())),
            released => released,
        }
    }

    /// After [`leave`](Self::leave): waits for the end of the run, in case it goes back to a
    /// checkpoint and needs this worker again. Servers that do not come back have ended the run
    /// too.
    pub fn wait_for_end(
        &mut self,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        if self.config.rejoin_timeout.is_none() {
            return Ok(LinkOutcome::Done(()));
        }
        match self.until(observer, |link| link.is_over) {
            Err(LinkError::Lost { .. }) => Ok(LinkOutcome::Done(())),
            ended => ended,
        }
    }

    /// Coordinator only: tells all servers that the run is over, so that they exit. Does not wait
    /// for a server that is gone or that came back with an older state.
    pub fn finish(&mut self, observer: &mut impl LinkObserver) -> Result<(), LinkError> {
        self.said.stop = None;
        self.say_goodbye(Client::finish(), Vec::new())?;
        let patient = self.config.rejoin_timeout;
        self.config.rejoin_timeout = patient.map(|limit| limit.min(FAREWELL));
        let ended = self.until(observer, |link| link.peers.iter().all(|peer| peer.said_bye));
        self.config.rejoin_timeout = patient;
        match ended {
            Err(LinkError::Lost { .. }) if patient.is_some() => Ok(()),
            ended => ended.map(drop),
        }
    }

    /// Sends and reads until something has happened.
    pub(super) fn until(
        &mut self,
        observer: &mut impl LinkObserver,
        done: impl Fn(&Self) -> bool,
    ) -> Result<LinkOutcome, LinkError> {
        let mut wait = Wait::new();
        while !self.has_rewound && !done(self) {
            observer.enter_phase(ExchangePhase::Wait);
            self.reconnect()?;
            for server in 0..self.peers.len() {
                self.peers[server].flush().or_else(|error| self.heal(server, error))?;
            }
            if !self.read_all(observer)? && !done(self) {
                self.wait(&mut wait, observer)?;
            }
        }
        Ok(if self.has_rewound { LinkOutcome::Rewound } else { LinkOutcome::Done(()) })
    }
}
