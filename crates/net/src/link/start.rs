//! The start: everybody finds everybody, in any order, and says whom they still wait for.

use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use paceline_exchange::Client;

use super::{Attendant, Link, LinkConfig, LinkError, Peer, SECOND};
use crate::PeerState;
use crate::dial::{TRY_AGAIN, TRY_EVERY, dial};
use crate::serve::poll_once;

impl Link {
    /// Connects to every server and waits until all have said that the run has started (for an
    /// evaluator: that it is welcome). Says once a second who is missing.
    ///
    /// # Panics
    /// If the numbers of servers in the configuration differ.
    pub fn start(config: LinkConfig, attendant: &mut impl Attendant) -> Result<Self, LinkError> {
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
            pushed: Vec::new(),
            peers,
            poll: Poll::new()?,
            events: Events::with_capacity(64),
            config,
        };
        link.gather(link.config.start_timeout, attendant)?;
        Ok(link)
    }

    /// Finds everybody, within a limit.
    pub(super) fn gather(
        &mut self,
        limit: Duration,
        attendant: &mut impl Attendant,
    ) -> Result<(), LinkError> {
        let begun = Instant::now();
        let mut told = begun;
        while !self.has_started() {
            self.connect_missing();
            match self.read_start(attendant) {
                // A server knows of a newer generation than the others: all are called anew.
                Ok(()) | Err(LinkError::Rewound) => {}
                Err(error) => return Err(error),
            }
            if attendant.gives_up() {
                return Err(LinkError::Interrupted);
            }
            if begun.elapsed() >= limit {
                let (seconds, missing) = (limit.as_secs(), self.missing());
                return Err(LinkError::NotStarted { seconds, missing });
            }
            if told.elapsed() >= SECOND {
                told = Instant::now();
                attendant.note(&format!("waiting for the start: {}", self.missing()));
            }
        }
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
            let tried = self.connect(server);
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

    pub(super) fn connect(&mut self, server: usize) -> Result<(), PeerState> {
        let stream = dial(&self.peers[server].address, self.poll.registry(), Token(server))?;
        self.client.connection_lost(server);
        self.peers[server].connected(stream);
        let (header, body) = self.client.hello(server);
        let said = self.peers[server].send_control(&header, &body);
        said.map_err(|error| PeerState::Refused(error.to_string()))
    }

    /// Reads what servers say before the start. Losing one now is no loss: it is tried again.
    fn read_start(&mut self, attendant: &mut impl Attendant) -> Result<(), LinkError> {
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
                    Ok(Some(event)) => self.on_event(server, event, attendant)?,
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
