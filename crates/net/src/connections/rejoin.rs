//! What a worker does when a connection breaks or the run goes back to a checkpoint.
//!
//! A broken connection may mean that a cable was pulled or that a server died; to the worker they
//! look the same. The worker connects again, at once and then ever less often, and the server's
//! `Welcome` tells which it was. If the server is still in the same generation, the worker sends
//! again what is unanswered and the exchange continues. If the server is in a newer one, the run
//! has gone back to a checkpoint: the worker connects to all servers again, and must continue at
//! the step that they name ([`LinkOutcome::Rewound`](crate::LinkOutcome::Rewound)).

use std::time::{Duration, Instant};

use paceline_exchange::{Client, ControlFrame, FrameKind, Header};

use super::requests::{CheckpointRequest, StandingRequests};
use super::server_connections::ServerConnections;
use super::server_peer::ServerPeer;
use crate::error::LinkError;
use crate::long_wait::CHECK_EVERY;
use crate::observer::LinkObserver;
use crate::peer_state::PeerState;

/// How often a connection may break during one exchange; more often is a fault, not an accident.
const MAX_BREAKS: u32 = 100;

impl ServerConnections {
    /// The connection to a server failed. If servers may come back, it is made again; otherwise
    /// the error ends the operation.
    pub(super) fn connection_failed(
        &mut self,
        server: usize,
        error: LinkError,
    ) -> Result<(), LinkError> {
        let LinkError::Lost { why, .. } = &error else { return Err(error) };
        let peer = &mut self.peers[server];
        peer.breaks += 1;
        if self.config.rejoin_timeout.is_none() || peer.breaks > MAX_BREAKS {
            return Err(error);
        }
        peer.broke(why);
        self.client.connection_lost(server);
        Ok(())
    }

    /// Connects again to the servers whose connections are broken, when an attempt is due.
    pub(super) fn reconnect(&mut self) -> Result<(), LinkError> {
        for server in 0..self.peers.len() {
            let peer = &self.peers[server];
            let Some(limit) = self.config.rejoin_timeout.filter(|_| peer.is_down()) else {
                continue;
            };
            if self.is_over {
                // Each server must hear from the coordinator that the run is over.
                if !self.requests.is_saying(FrameKind::Finish) {
                    return Err(peer.lost("the run is over"));
                }
                if peer.said_goodbye {
                    continue;
                }
            }
            if let PeerState::Denied(refusal) = &peer.state {
                return Err(peer.lost(&refusal.text));
            }
            if peer.down_for().is_some_and(|time| time >= limit) {
                return Err(peer.lost(format!("{}; it has not come back", peer.why_down())));
            }
            if !peer.is_connected() && Instant::now() >= peer.next_attempt {
                let attempt = self.dial_server(server);
                self.peers[server].attempted(attempt);
            }
        }
        Ok(())
    }

    /// The longest that a wait may sleep before it must check something.
    pub(super) fn longest_sleep(&self) -> Duration {
        let until_attempt =
            |peer: &ServerPeer| peer.next_attempt.saturating_duration_since(Instant::now());
        let broken = self.peers.iter().filter(|peer| !peer.is_connected());
        let next = broken.map(until_attempt).min();
        next.map_or(CHECK_EVERY, |time| time.clamp(Duration::from_millis(1), CHECK_EVERY))
    }

    /// A server has admitted this process: sends it the requests that it has not answered.
    pub(super) fn welcomed(&mut self, server: usize) -> Result<(), LinkError> {
        self.peers[server].welcomed();
        if let Some(reason) = self.requests.stop.clone().filter(|_| server == 0) {
            let ControlFrame { header, body } = Client::stop(&reason);
            self.tell(server, &header, &body)?;
        }
        if self.requests.cuts_short {
            self.tell(server, &Client::cut_short(), &[])?;
        }
        if let Some(request) = self.requests.checkpoint {
            self.tell(server, &Client::checkpoint(request.step), &[])?;
        }
        let is_answered = self.peers[server].said_goodbye || self.reports[server].is_some();
        let is_early =
            server == 0 && self.requests.is_server_0_last && !self.have_others_answered();
        match self.requests.goodbye.clone().filter(|_| !is_answered && !is_early) {
            Some(goodbye) => self.tell(server, &goodbye.header, &goodbye.body),
            None => Ok(()),
        }
    }

    /// Gives up the connection to a server, for a new one.
    pub(super) fn retire(&mut self, server: usize) {
        self.peers[server].retire();
        self.client.connection_lost(server);
    }

    /// The run has gone back: all connections must be made again, and no request is pending.
    pub(super) fn rewound(&mut self) {
        (0..self.peers.len()).for_each(|server| self.retire(server));
        self.requests = StandingRequests::default();
        self.reports.iter_mut().for_each(|reports| *reports = None);
        for peer in &mut self.peers {
            (peer.said_goodbye, peer.may_close, peer.may_vanish) = (false, false, false);
        }
        self.changes.clear();
        self.has_rewound = true;
    }

    /// After [`LinkOutcome::Rewound`](crate::LinkOutcome::Rewound): connects to all servers again
    /// and, if the model is dense, pulls. The worker then continues at
    /// [`resume_step`](Self::resume_step). A further rewind during this call is covered.
    pub fn resume_after_rewind(
        &mut self,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        let limit = self.config.rejoin_timeout.unwrap_or(self.config.start_timeout);
        self.gather_and_pull(limit, observer)
    }

    /// Answered pushes of this process that rewinds have undone so far.
    pub fn lost_pushes(&self) -> u64 {
        self.client.lost_pushes()
    }

    /// The step of the checkpoint that the current generation of servers started from; 0 if none.
    pub fn base_step(&self) -> u64 {
        self.client.generation().base.unwrap_or(0)
    }

    /// Sends a control frame to a server that has admitted this process. Any other server gets it
    /// from [`Self::welcomed`].
    pub(super) fn tell(
        &mut self,
        server: usize,
        header: &Header,
        body: &[u8],
    ) -> Result<(), LinkError> {
        if !self.client.is_welcome_at(server) {
            return Ok(());
        }
        let sent = self.peers[server].send_control(header, body);
        sent.or_else(|error| self.connection_failed(server, error))
    }

    pub(super) fn tell_all(&mut self, header: &Header, body: &[u8]) -> Result<(), LinkError> {
        (0..self.peers.len()).try_for_each(|server| self.tell(server, header, body))
    }

    /// Coordinator only: asks server 0 to stop the run. The reason goes to all tasks.
    pub fn request_stop(&mut self, reason: &str) -> Result<(), LinkError> {
        self.requests.stop = Some(reason.to_owned());
        let ControlFrame { header, body } = Client::stop(reason);
        self.tell(0, &header, &body)
    }

    /// Cuts the run short, between two operations: the servers apply no gradient any more, and drop
    /// those of other workers.
    pub fn cut_short(&mut self) -> Result<(), LinkError> {
        self.requests.cuts_short = true;
        self.tell_all(&Client::cut_short(), &[])
    }

    /// Coordinator only: asks all servers to write a checkpoint when they have made `step` updates.
    pub fn request_checkpoint(&mut self, step: u64) -> Result<(), LinkError> {
        let is_during_operation = !self.client.is_complete();
        self.requests.checkpoint = Some(CheckpointRequest { step, is_during_operation });
        self.tell_all(&Client::checkpoint(step), &[])
    }
}
