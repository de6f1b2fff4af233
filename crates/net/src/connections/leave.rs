//! How a worker leaves, and how the coordinator ends a run.

use std::time::Duration;

use paceline_exchange::{Client, ControlFrame, TaskReport};

use super::server_connections::ServerConnections;
use crate::error::LinkError;
use crate::long_wait::LongWait;
use crate::observer::{ExchangePhase, LinkObserver};
use crate::outcome::LinkOutcome;

/// How long the coordinator tries to tell a server that the run is over, if the server may be gone.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

impl ServerConnections {
    /// Tells the other servers why the run has failed, before the end of this worker's connections
    /// looks like the cause.
    pub(super) fn pass_on(&mut self, from: usize, why: &str) {
        let abort = Client::pass_on_abort(why);
        for server in (0..self.peers.len()).filter(|&server| server != from) {
            if self.peers[server].is_connected() && self.client.is_welcome_at(server) {
                // The server may be gone too.
                let _ = self.peers[server].send_control(&abort.header, &abort.body);
            }
        }
    }

    /// Coordinator only: the reports of all workers and servers, a list from each server. The
    /// servers answer when all workers have left.
    pub fn collect_reports(
        &mut self,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome<Vec<Vec<TaskReport>>>, LinkError> {
        self.say_to_all(ControlFrame { header: Client::collect(), body: Vec::new() })?;
        let has_all = |link: &Self| link.reports.iter().all(Option::is_some);
        if self.wait_until(has_all, observer)? == LinkOutcome::Rewound {
            return Ok(LinkOutcome::Rewound);
        }
        let reports = self.reports.iter_mut().map(|reports| reports.take().unwrap_or_default());
        Ok(LinkOutcome::Done(reports.collect()))
    }

    /// Leaves the run, with a report for the coordinator. The slot counts as done.
    pub fn leave(
        &mut self,
        report: &[u8],
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        self.say_to_server_0_last(Client::leave(report.to_vec()), observer)
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
        let may_rejoin = self.config.rejoin_timeout.is_some();
        self.peers.iter_mut().for_each(|peer| peer.may_vanish = !may_rejoin);
        match self.say_to_server_0_last(Client::release(report.to_vec()), observer) {
            Err(LinkError::Lost { .. }) if may_rejoin => Ok(LinkOutcome::Done(())),
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
        match self.wait_until(|link| link.is_over, observer) {
            Err(LinkError::Lost { .. }) => Ok(LinkOutcome::Done(())),
            ended => ended,
        }
    }

    /// Coordinator only: tells all servers that the run is over, so that they exit. Does not wait
    /// for a server that is gone or that came back with an older state.
    pub fn finish(&mut self, observer: &mut impl LinkObserver) -> Result<(), LinkError> {
        self.requests.stop = None;
        self.say_to_all(ControlFrame { header: Client::finish(), body: Vec::new() })?;
        let rejoin_timeout = self.config.rejoin_timeout;
        self.config.rejoin_timeout = rejoin_timeout.map(|limit| limit.min(FINISH_TIMEOUT));
        let have_all_answered = |link: &Self| link.peers.iter().all(|peer| peer.said_goodbye);
        let ended = self.wait_until(have_all_answered, observer);
        self.config.rejoin_timeout = rejoin_timeout;
        match ended {
            Err(LinkError::Lost { .. }) if rejoin_timeout.is_some() => Ok(()),
            ended => ended.map(drop),
        }
    }

    /// Sends a goodbye to all servers.
    fn say_to_all(&mut self, goodbye: ControlFrame) -> Result<(), LinkError> {
        self.clear_goodbye();
        self.tell_all(&goodbye.header, &goodbye.body)?;
        self.requests.goodbye = Some(goodbye);
        Ok(())
    }

    /// Sends a goodbye to all servers and waits for their answers. Server 0 gets it last, when all
    /// others have answered: it decides which process fills which slot, and what it knows of a
    /// slot must hold everywhere.
    fn say_to_server_0_last(
        &mut self,
        goodbye: ControlFrame,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        self.clear_goodbye();
        self.requests.is_server_0_last = true;
        self.requests.goodbye = Some(goodbye.clone());
        for server in 1..self.peers.len() {
            self.tell_goodbye(server, &goodbye)?;
        }
        if self.wait_until(Self::have_others_answered, observer)? == LinkOutcome::Rewound {
            return Ok(LinkOutcome::Rewound);
        }
        self.tell_goodbye(0, &goodbye)?;
        self.wait_until(|link| link.peers.iter().all(|peer| peer.said_goodbye), observer)
    }

    /// Sends a goodbye to a server, unless that may vanish and has.
    fn tell_goodbye(&mut self, server: usize, goodbye: &ControlFrame) -> Result<(), LinkError> {
        match self.tell(server, &goodbye.header, &goodbye.body) {
            Err(LinkError::Lost { .. }) if self.peers[server].may_vanish => {
                self.peers[server].said_goodbye = true;
                Ok(())
            }
            told => told,
        }
    }

    fn clear_goodbye(&mut self) {
        for (peer, reports) in self.peers.iter_mut().zip(&mut self.reports) {
            (peer.said_goodbye, peer.may_close, *reports) = (false, false, None);
        }
        (self.requests.goodbye, self.requests.is_server_0_last) = (None, false);
    }

    /// Whether all servers but server 0 have answered the goodbye.
    pub(super) fn have_others_answered(&self) -> bool {
        self.peers[1..].iter().all(|peer| peer.said_goodbye)
    }

    /// Sends and reads until `is_done`.
    fn wait_until(
        &mut self,
        is_done: impl Fn(&Self) -> bool,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        let mut wait = LongWait::new();
        while !self.has_rewound && !is_done(self) {
            observer.enter_phase(ExchangePhase::Wait);
            self.reconnect()?;
            for server in 0..self.peers.len() {
                let flushed = self.peers[server].flush();
                flushed.or_else(|error| self.connection_failed(server, error))?;
            }
            if !self.read_all(observer)? && !is_done(self) {
                self.wait_between(&mut wait, observer)?;
            }
        }
        Ok(if self.has_rewound { LinkOutcome::Rewound } else { LinkOutcome::Done(()) })
    }
}
