//! The connections to all servers, and the operations push and pull.
//!
//! [`ServerConnections`] owns the worker's copy of the parameters, because answers are read
//! straight into it. An exchange sends the gradient from the caller's slice and ends when every
//! chunk has been answered. With a large model the answers to the first chunks arrive while the
//! last chunks are still being sent, so sending, applying and receiving overlap.

use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll, Waker};
use paceline_exchange::{Client, ClientEvent, FrameKind, GradientChanges, RefuseCode, TaskReport};
use paceline_model::AlignedBuffer;

use super::buffers::{Buffers, WholeBuffers};
use super::config::ConnectConfig;
use super::requests::StandingRequests;
use super::server_peer::ServerPeer;
use crate::error::LinkError;
use crate::long_wait::LongWait;
use crate::observer::{ExchangePhase, LinkObserver};
use crate::outcome::LinkOutcome;
use crate::peer_state::PeerState;
use crate::socket::poll_once;
use crate::spin_wait::SpinWait;
use crate::traffic::Traffic;

/// When an operation returns to its caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReturnWhen {
    /// When the sockets have taken everything.
    Sent,
    /// When the servers have answered everything.
    Answered,
}

/// A worker's or evaluator's connections to all servers, and its copy of the parameters.
pub struct ServerConnections {
    pub(super) client: Client,
    pub(super) peers: Vec<ServerPeer>,
    /// All parameters; for a sparse model, the values that the current operation asks for.
    pub(super) params: AlignedBuffer,
    pub(super) poll: Poll,
    pub(super) events: Events,
    pub(super) config: ConnectConfig,
    /// The answer of each server to a request for reports.
    pub(super) reports: Vec<Option<Vec<TaskReport>>>,
    pub(super) requests: StandingRequests,
    /// A server has said that the run is over.
    pub(super) is_over: bool,
    /// The run went back to a checkpoint, and `resume_after_rewind` has not been called since.
    pub(super) has_rewound: bool,
    /// For a sparse model: the gradient pushed last, until it is answered.
    pub(super) pushed: Vec<f32>,
    /// The keys that the current operation requests, and their places on the servers, if these
    /// differ.
    pub(super) requested: Vec<u32>,
    pub(super) places: Vec<u32>,
    /// The gradient as it travels, if it travels as changes; otherwise empty.
    pub(super) changes: GradientChanges,
    /// Wakes a thread that exchanges in pieces.
    pub(super) waker: Arc<Waker>,
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
        self.peers.iter().map(ServerPeer::traffic)
    }

    /// Bytes of the keys of all batches so far, as they are sent.
    pub fn key_bytes(&self) -> u64 {
        self.client.key_bytes()
    }

    /// Pulls all parameters.
    pub fn pull(&mut self, observer: &mut impl LinkObserver) -> Result<LinkOutcome, LinkError> {
        if self.has_rewound {
            return Ok(LinkOutcome::Rewound);
        }
        self.client.begin_pull();
        self.complete_whole(&[], ReturnWhen::Answered, observer)
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
        if self.has_rewound {
            return Ok(LinkOutcome::Rewound);
        }
        self.client.begin_push(step, examples);
        observer.sending_gradient(step);
        self.complete_whole(grad, ReturnWhen::Answered, observer)
    }

    /// Sends and reads until the current operation has been sent or answered in full.
    pub(super) fn complete_whole(
        &mut self,
        gradient: &[f32],
        when: ReturnWhen,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        let mut wait = None;
        self.with_params(|connections, params| {
            let buffers = &mut WholeBuffers { gradient, params };
            loop {
                let progress = connections.send_and_read(buffers, observer)?;
                if !progress && !connections.may_return(when) && !connections.is_over {
                    observer.enter_phase(ExchangePhase::Wait);
                    let wait = wait.get_or_insert_with(LongWait::new);
                    connections.wait(wait, buffers, observer)?;
                }
                if let Some(outcome) = connections.outcome(when)? {
                    return Ok(outcome);
                }
            }
        })
    }

    /// Lends the parameters to `work`, beside the connections.
    fn with_params<T>(
        &mut self,
        work: impl FnOnce(&mut Self, &mut [f32]) -> Result<T, LinkError>,
    ) -> Result<T, LinkError> {
        let mut params = std::mem::take(&mut self.params);
        let done = work(self, &mut params);
        self.params = params;
        done
    }

    /// Connects where that is due, sends what the sockets take and reads what has arrived. Returns
    /// whether any byte was sent or read.
    pub(super) fn send_and_read(
        &mut self,
        buffers: &mut impl Buffers,
        observer: &mut impl LinkObserver,
    ) -> Result<bool, LinkError> {
        self.reconnect()?;
        observer.enter_phase(ExchangePhase::Push);
        let mut progress = self.send_all(buffers)?;
        if self.peers.iter().any(ServerPeer::is_readable) {
            observer.enter_phase(ExchangePhase::Pull);
            progress |= self.read_into(buffers, observer)?;
        }
        Ok(progress)
    }

    /// The outcome of the current operation, once it is known.
    pub(super) fn outcome(&mut self, when: ReturnWhen) -> Result<Option<LinkOutcome>, LinkError> {
        if self.has_rewound {
            return Ok(Some(LinkOutcome::Rewound));
        }
        if self.may_return(when) {
            self.peers.iter_mut().for_each(|peer| peer.breaks = 0);
            if self.client.is_complete() {
                self.requests.operation_answered();
            }
            return Ok(Some(LinkOutcome::Done(())));
        }
        if self.is_over {
            return Err(LinkError::Aborted("the run is over".into()));
        }
        Ok(None)
    }

    fn may_return(&self, when: ReturnWhen) -> bool {
        let is_sent = when == ReturnWhen::Sent && self.peers.iter().all(ServerPeer::is_sent);
        is_sent || self.client.is_complete()
    }

    /// Sends what the sockets take now. Returns whether they took any byte.
    fn send_all(&mut self, buffers: &impl Buffers) -> Result<bool, LinkError> {
        let mut progress = false;
        for server in 0..self.peers.len() {
            let (client, changes) = (&mut self.client, &mut self.changes);
            match self.peers[server].send_chunks(server, client, buffers, changes) {
                Ok(sent) => progress |= sent,
                Err(error) => self.connection_failed(server, error)?,
            }
        }
        Ok(progress)
    }

    /// Reads what has arrived while no operation is in progress. Returns whether anything had.
    pub(super) fn read_all(&mut self, observer: &mut impl LinkObserver) -> Result<bool, LinkError> {
        self.with_params(|connections, params| {
            connections.read_into(&mut WholeBuffers { gradient: &[], params }, observer)
        })
    }

    /// Reads what has arrived. Returns whether anything had.
    fn read_into(
        &mut self,
        buffers: &mut impl Buffers,
        observer: &mut impl LinkObserver,
    ) -> Result<bool, LinkError> {
        let mut progress = false;
        for server in 0..self.peers.len() {
            loop {
                let peer = &mut self.peers[server];
                match peer.read_event(server, &mut self.client, buffers, &mut self.changes) {
                    Ok(Some(event)) => {
                        if peer.take_first_chunk() {
                            observer.update_arrived(server);
                        }
                        self.on_event(server, event, observer)?;
                    }
                    Ok(None) => break,
                    Err(error) => self.connection_failed(server, error)?,
                }
                progress = true;
            }
        }
        Ok(progress)
    }

    pub(super) fn on_event(
        &mut self,
        server: usize,
        event: ClientEvent,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        let is_releasing = self.requests.is_saying(FrameKind::Release);
        let peer = &mut self.peers[server];
        match event {
            ClientEvent::Welcome => return self.welcomed(server),
            ClientEvent::ServerBehind => self.retire(server),
            ClientEvent::Rewound => self.rewound(),
            ClientEvent::Started => peer.state = PeerState::Started,
            // To a process that gives the slot back, this answers the goodbye.
            ClientEvent::Refused(refusal) if refusal.code == RefuseCode::SlotTaken => {
                if !is_releasing {
                    return Err(LinkError::SlotTaken(refusal.text));
                }
                peer.gave_slot_away();
            }
            ClientEvent::Refused(refusal) => peer.refused(refusal),
            ClientEvent::Notice(text) => observer.note(&text),
            ClientEvent::Abort(why) => {
                self.pass_on(server, &why);
                return Err(LinkError::Aborted(why));
            }
            ClientEvent::Reports(reports) => self.reports[server] = Some(reports),
            ClientEvent::Bye => {
                peer.said_goodbye = true;
                peer.may_close = self.config.rejoin_timeout.is_none() || is_releasing;
            }
            ClientEvent::RunOver => {
                (peer.said_goodbye, peer.may_close) = (true, true);
                self.is_over = true;
            }
            ClientEvent::Progress | ClientEvent::Complete => {}
        }
        Ok(())
    }

    /// Waits while no operation is in progress.
    pub(super) fn wait_between(
        &mut self,
        wait: &mut LongWait,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        self.with_params(|connections, params| {
            connections.wait(wait, &mut WholeBuffers { gradient: &[], params }, observer)
        })
    }

    /// Spins, then sleeps until a socket has something. Notes once a second what it waits for,
    /// and fails at the limit.
    fn wait(
        &mut self,
        wait: &mut LongWait,
        buffers: &mut impl Buffers,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        let mut spin = SpinWait::new();
        if let [server] = &mut self.peers[..]
            && spin.spin()
        {
            // The first look is at the socket itself, as the server's is.
            if let Some(open) = server.open() {
                open.wake();
            }
            observer.enter_phase(ExchangePhase::Pull);
            if self.read_into(buffers, observer)? {
                return Ok(());
            }
            observer.enter_phase(ExchangePhase::Wait);
        }
        while spin.spin() {
            if self.poll(Duration::ZERO)? {
                return Ok(());
            }
        }
        self.sleep(wait, observer)
    }

    /// Sleeps until a socket has something. Notes once a second what it waits for, and fails at the
    /// limit.
    pub(super) fn sleep(
        &mut self,
        wait: &mut LongWait,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        if self.poll(self.longest_sleep())? {
            return Ok(());
        }
        if observer.should_give_up() {
            return Err(LinkError::Interrupted { awaited: self.unanswered() });
        }
        wait.check(self.config.stall_timeout, || self.unanswered())?;
        if wait.should_note() {
            let seconds = wait.elapsed().as_secs();
            observer.note(&format!("waiting for {} ({seconds} s)", self.unanswered()));
        }
        Ok(())
    }

    /// Polls all connections once. Returns whether anything happened.
    pub(super) fn poll(&mut self, timeout: Duration) -> Result<bool, LinkError> {
        poll_once(&mut self.poll, &mut self.events, timeout)?;
        for event in &self.events {
            if let Some(open) = self.peers.get_mut(event.token().0).and_then(ServerPeer::open) {
                open.wake_by(event);
            }
        }
        Ok(!self.events.is_empty())
    }

    /// The names of the servers that have not answered everything.
    fn unanswered(&self) -> String {
        let awaited = self.peers.iter().enumerate().filter(|(server, peer)| {
            let is_awaited = self.client.likely_target(*server).is_some();
            is_awaited || peer.is_down() || !peer.said_goodbye && self.client.is_complete()
        });
        let names = awaited.map(|(_, peer)| {
            if peer.is_down() {
                format!("{} to come back (lost: {})", peer.name, peer.why_down())
            } else {
                peer.name.clone()
            }
        });
        names.collect::<Vec<_>>().join(", ")
    }
}
