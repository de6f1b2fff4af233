//! The start: everybody finds everybody, in any order, and says whom they still wait for.

use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use paceline_exchange::Client;

use super::{ConnectConfig, Peer, SECOND, ServerConnections};
use crate::dial::{TRY_AGAIN, TRY_EVERY, dial};
use crate::error::LinkError;
use crate::observer::LinkObserver;
use crate::outcome::LinkOutcome;
use crate::peer::PeerState;
use crate::serve::poll_once;

impl ServerConnections {
    /// Connects to all servers, waits until all report that the run has started (for an
    /// evaluator: that it is admitted) and, if the model is dense, pulls the parameters. Notes
    /// once a second which tasks are missing.
    ///
    /// # Panics
    /// If `config.client` has another number of servers than there are addresses.
    pub fn connect(
        config: ConnectConfig,
        observer: &mut impl LinkObserver,
    ) -> Result<Self, LinkError> {
        assert_eq!(config.servers.len(), config.client.servers, "servers");
        let peers: Vec<_> =
            config.servers.iter().enumerate().map(|(i, address)| Peer::new(i, address)).collect();
        let mut link = Self {
            client: Client::new(config.client.clone()),
            params: match config.client.is_sparse {
                true => Vec::new(),
                false => vec![0.0; config.client.total_params],
            },
            reports: peers.iter().map(|_| None).collect(),
            said: Default::default(),
            is_over: false,
            has_rewound: false,
            pushed: Vec::new(),
            peers,
            poll: Poll::new()?,
            events: Events::with_capacity(64),
            config,
        };
        link.gather_and_pull(link.config.start_timeout, observer)?;
        Ok(link)
    }

    /// Finds all servers and, if the model is dense, pulls; again if the run goes back meanwhile.
    /// For a sparse model the first batch says which values it needs.
    pub(super) fn gather_and_pull(
        &mut self,
        mut limit: Duration,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        loop {
            self.gather(limit, observer)?;
            if self.config.client.is_sparse || self.pull(observer)? == LinkOutcome::Done(()) {
                return Ok(());
            }
            limit = self.config.rejoin_timeout.unwrap_or(self.config.start_timeout);
        }
    }

    /// Finds everybody, within a limit.
    fn gather(
        &mut self,
        limit: Duration,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        let begun = Instant::now();
        let mut told = begun;
        while !self.has_started() {
            self.connect_missing();
            // A server may know of a newer generation than the others: then all are called again.
            self.read_start(observer)?;
            if observer.should_give_up() {
                return Err(LinkError::Interrupted);
            }
            if begun.elapsed() >= limit {
                let (seconds, missing) = (limit.as_secs(), self.missing());
                return Err(LinkError::NotStarted { seconds, missing });
            }
            if told.elapsed() >= SECOND {
                told = Instant::now();
                observer.note(&format!("waiting for the start: {}", self.missing()));
            }
        }
        self.has_rewound = false;
        Ok(())
    }

    fn has_started(&self) -> bool {
        match self.config.client.role {
            super::PeerRole::Worker => self.client.is_started(),
            _ => self.client.is_welcome(),
        }
    }

    /// Whom the start waits for, and what state each is in.
    fn missing(&self) -> String {
        let states = self.peers.iter().filter(|peer| peer.state != PeerState::Started);
        let states = states.map(|peer| match peer.state {
            PeerState::Ready => format!("{} is ready and waits for other workers", peer.name),
            _ => format!("{} at {} is {}", peer.name, peer.address, peer.state),
        });
        states.collect::<Vec<_>>().join("; ")
    }

    /// Tries every server that is not connected and whose time to be tried has come.
    fn connect_missing(&mut self) {
        for server in 0..self.peers.len() {
            let peer = &self.peers[server];
            if peer.stream.is_some() || Instant::now() < peer.next_try {
                continue;
            }
            let tried = self.dial_server(server);
            let peer = &mut self.peers[server];
            peer.next_try = Instant::now() + TRY_EVERY;
            match tried {
                Ok(()) => {}
                // A server that denies us is there; that it hung up is no news.
                Err(_) if matches!(peer.state, PeerState::Denied(_)) => {}
                Err(state) => peer.state = state,
            }
        }
    }

    pub(super) fn dial_server(&mut self, server: usize) -> Result<(), PeerState> {
        let stream = dial(&self.peers[server].address, self.poll.registry(), Token(server))?;
        self.client.connection_lost(server);
        self.peers[server].connected(stream);
        let (header, body) = self.client.hello(server);
        let said = self.peers[server].send_control(&header, &body);
        said.map_err(|error| PeerState::Refused(error.to_string()))
    }

    /// Reads what servers say before the start. Losing one now is no loss: it is tried again.
    fn read_start(&mut self, observer: &mut impl LinkObserver) -> Result<(), LinkError> {
        let nap = self.nap().min(TRY_EVERY);
        poll_once(&mut self.poll, &mut self.events, nap)?;
        for event in &self.events {
            if let Some(peer) = self.peers.get_mut(event.token().0) {
                peer.wake();
            }
        }
        for server in 0..self.peers.len() {
            loop {
                let peer = &mut self.peers[server];
                match peer.read_event(server, &mut self.client, &mut self.params) {
                    Ok(Some(event)) => self.on_event(server, event, observer)?,
                    Ok(None) => break,
                    Err(error) => {
                        if matches!(peer.state, PeerState::Ready | PeerState::Started) {
                            peer.next_try = Instant::now() + TRY_AGAIN;
                        }
                        if !matches!(peer.state, PeerState::Denied(_)) {
                            peer.state = PeerState::Refused(error.to_string());
                        }
                        peer.stream = None;
                        self.client.connection_lost(server);
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
