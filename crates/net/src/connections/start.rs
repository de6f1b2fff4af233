//! The start: a worker connects to all servers, in any order, and says which are missing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use paceline_exchange::{Client, GradientChanges, PeerRole, WireFormat};
use paceline_model::AlignedBuffer;

use super::buffers::WholeBuffers;
use super::config::ConnectConfig;
use super::server_connections::ServerConnections;
use super::server_peer::ServerPeer;
use crate::dial::{RECONNECT_PAUSE, RETRY_PAUSE, dial};
use crate::error::LinkError;
use crate::long_wait::LongWait;
use crate::observer::LinkObserver;
use crate::outcome::LinkOutcome;
use crate::peer_state::PeerState;

impl ServerConnections {
    /// Connects to all servers, waits until all report that the run has started (for an
    /// evaluator: that it is admitted) and, if the model is dense, pulls the parameters. Notes
    /// once a second which tasks are missing.
    ///
    /// # Panics
    /// If the number of servers in `config.client` is not the number of addresses.
    pub fn connect(
        config: ConnectConfig,
        observer: &mut impl LinkObserver,
    ) -> Result<Self, LinkError> {
        assert_eq!(config.servers.len(), config.client.servers, "servers");
        let addresses = config.servers.iter().enumerate();
        let peers: Vec<_> =
            addresses.map(|(index, address)| ServerPeer::new(index, address)).collect();
        let dense_params = if config.client.is_sparse { 0 } else { config.client.total_params };
        let is_changed =
            config.client.wire == WireFormat::Bf16 && config.client.role == PeerRole::Worker;
        let changed_params = if is_changed { dense_params } else { 0 };
        let poll = Poll::new()?;
        let mut connections = Self {
            client: Client::new(config.client.clone()),
            params: AlignedBuffer::zeros(dense_params),
            reports: peers.iter().map(|_| None).collect(),
            requests: Default::default(),
            is_over: false,
            has_rewound: false,
            pushed: Vec::new(),
            requested: Vec::new(),
            places: Vec::new(),
            changes: GradientChanges::new(changed_params),
            waker: Arc::new(Waker::new(poll.registry(), Token(peers.len()))?),
            peers,
            poll,
            events: Events::with_capacity(64),
            config,
        };
        connections.gather_and_pull(connections.config.start_timeout, observer)?;
        Ok(connections)
    }

    /// Connects to all servers and, if the model is dense, pulls; again if the run goes back
    /// meanwhile. For a sparse model the first batch says which values it needs.
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

    fn gather(
        &mut self,
        limit: Duration,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        let mut wait = LongWait::new();
        while !self.has_started() {
            self.connect_missing();
            // A server may know of a newer generation than the others: then all are called again.
            self.read_greetings(observer)?;
            self.check_denials()?;
            if observer.should_give_up() {
                return Err(LinkError::Interrupted { awaited: self.missing() });
            }
            wait.check_start(limit, || self.missing())?;
            if wait.should_note() {
                observer.note(&wait.describe_start(limit, &self.missing()));
            }
        }
        self.has_rewound = false;
        Ok(())
    }

    fn has_started(&self) -> bool {
        if self.config.client.role == PeerRole::Worker {
            self.client.is_started()
        } else {
            self.client.is_welcome()
        }
    }

    /// The servers that the start waits for, and the state of each.
    fn missing(&self) -> String {
        let states = self.peers.iter().filter(|peer| peer.state != PeerState::Started);
        let states = states.map(|peer| match peer.state {
            PeerState::Ready => format!("other workers, as {} does", peer.name),
            _ => describe(peer),
        });
        states.collect::<Vec<_>>().join("; ")
    }

    /// Fails if a server belongs to another run: no attempt can succeed then.
    fn check_denials(&self) -> Result<(), LinkError> {
        let denies = |peer: &&ServerPeer| match &peer.state {
            PeerState::Denied(refusal) => refusal.is_permanent(),
            _ => false,
        };
        let denied = self.peers.iter().find(denies);
        denied.map_or(Ok(()), |peer| Err(LinkError::Denied(describe(peer))))
    }

    /// Connects to every server that is not connected and whose next attempt is due.
    fn connect_missing(&mut self) {
        for server in 0..self.peers.len() {
            let peer = &self.peers[server];
            if peer.is_connected() || Instant::now() < peer.next_attempt {
                continue;
            }
            let attempt = self.dial_server(server);
            let peer = &mut self.peers[server];
            peer.next_attempt = Instant::now() + RETRY_PAUSE;
            // A server that refused this process is running: that it then hung up says nothing new.
            if let Err(state) = attempt
                && !matches!(peer.state, PeerState::Denied(_))
            {
                peer.state = state;
            }
        }
    }

    pub(super) fn dial_server(&mut self, server: usize) -> Result<(), PeerState> {
        let ServerPeer { name, address, .. } = &self.peers[server];
        let registry = self.poll.registry();
        let hello = self.client.hello(server);
        let connection =
            dial(name, address, registry, Token(server), &self.config.credentials, hello)?;
        self.client.connection_lost(server);
        self.peers[server].connected(connection);
        Ok(())
    }

    /// Reads what servers say before the start. A connection lost now is tried again.
    fn read_greetings(&mut self, observer: &mut impl LinkObserver) -> Result<(), LinkError> {
        self.poll(self.longest_sleep().min(RETRY_PAUSE))?;
        for server in 0..self.peers.len() {
            loop {
                let peer = &mut self.peers[server];
                let buffers = &mut WholeBuffers { gradient: &[], params: &mut self.params };
                match peer.read_event(server, &mut self.client, buffers, &mut self.changes) {
                    Ok(Some(event)) => self.on_event(server, event, observer)?,
                    Ok(None) => break,
                    Err(error) => {
                        if matches!(peer.state, PeerState::Ready | PeerState::Started) {
                            peer.next_attempt = Instant::now() + RECONNECT_PAUSE;
                        }
                        if !matches!(peer.state, PeerState::Denied(_)) {
                            peer.state = PeerState::Refused(error.to_string());
                        }
                        peer.disconnect();
                        self.client.connection_lost(server);
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A server, its address and its state.
fn describe(peer: &ServerPeer) -> String {
    format!("{} at {}, {}", peer.name, peer.address, peer.state)
}
