//! A worker without servers: connections to all other workers, and one step after another.
//!
//! One thread does everything. It sends what the sockets take, reads what has come, makes a part
//! as soon as everybody's share of it is here, and sends it on while it is in the cache. Which
//! frame may come when, and what becomes of it, is decided by the [`Replica`]. What happens when
//! somebody is lost is in `recover.rs`.

mod connection;
mod farewell;
mod gather;
mod leave;
mod recover;

use std::time::{Duration, Instant};

use mio::{Events, Poll};
use paceline_exchange::{FrameKind, Replica, ReplicaEvent};

use crate::error::LinkError;
use crate::link::{SECOND, Wait};
use crate::observer::{ExchangePhase, LinkObserver};
use crate::patience::Patience;
use crate::peer::PeerState;
use crate::serve::poll_once;
use crate::traffic::Traffic;
use connection::{Connection, Fault};
use gather::Door;

/// With more peers than this, the system is asked who has something to say.
const FEW: usize = 3;

/// The addresses of all workers, and the limits of waits for them.
#[derive(Clone, Debug)]
pub struct MeshConfig {
    /// The workers' addresses, `host:port`, in the order of their slots.
    pub addresses: Vec<String>,
    /// The time that [`Mesh::connect`] waits for all workers.
    pub start_timeout: Duration,
    /// The longest that a step may wait for other workers.
    pub stall_timeout: Duration,
    /// The time that a lost worker has to come back, if the run recovers from losses.
    pub rejoin_timeout: Duration,
}

impl MeshConfig {
    /// Waits 60 s for the start, 600 s for a step and 60 s for a lost worker.
    pub fn new(addresses: Vec<String>) -> Self {
        Self {
            addresses,
            start_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(600),
            rejoin_timeout: Duration::from_secs(60),
        }
    }
}

/// What a worker contributes to a step.
#[derive(Clone, Copy, Debug)]
pub struct LocalGradient<'a> {
    /// The number of examples that the gradient is the mean over; its weight in the sum.
    pub examples: u32,
    /// The gradient, as long as the parameters.
    pub values: &'a [f32],
}

/// A worker's connections to all other workers, and its replica of the parameters.
pub struct Mesh {
    replica: Replica,
    /// By slot; the own one stays unused.
    peers: Vec<Peer>,
    poll: Poll,
    events: Events,
    config: MeshConfig,
    /// Where others come in: until the start, or for as long as somebody may come back.
    door: Option<Door>,
    /// How often somebody was lost since the last step was made.
    losses: u32,
    /// What connections that are gone have sent and received.
    gone_traffic: Traffic,
}

/// Another worker.
struct Peer {
    state: PeerState,
    connection: Option<Connection>,
    /// When to try to connect again.
    next_try: Instant,
    /// Since when it has been missing, and how long it may.
    missing: (Instant, Duration),
}

impl Mesh {
    /// This worker's replica of the parameters.
    pub fn params(&self) -> &[f32] {
        self.replica.params()
    }

    /// Updates made.
    pub fn global_step(&self) -> u64 {
        self.replica.global_step()
    }

    /// Whether the last step has been made.
    pub fn is_over(&self) -> bool {
        self.replica.is_over()
    }

    /// Whether the coordinator has dismissed this worker, so that it may exit.
    pub fn is_dismissed(&self) -> bool {
        self.replica.is_dismissed()
    }

    /// Coordinator only: asks all workers to stop after the next step.
    pub fn request_stop(&mut self) {
        self.replica.request_stop();
    }

    /// Coordinator only: asks all workers to take a checkpoint after the next step.
    pub fn request_checkpoint(&mut self) {
        self.replica.request_checkpoint();
    }

    /// Whether this worker must take a checkpoint of the parameters as they are now.
    pub fn is_checkpoint_due(&self) -> bool {
        self.replica.is_checkpoint_due()
    }

    /// This worker's shard as a checkpoint holds it: the parameters, then the optimizer's state.
    pub fn shard_columns(&self) -> impl Iterator<Item = &[f32]> {
        self.replica.shard_columns()
    }

    /// Bytes sent to and received from all other workers.
    pub fn traffic(&self) -> Traffic {
        let mut total = self.gone_traffic;
        let open = self.peers.iter().filter_map(|peer| peer.connection.as_ref());
        open.for_each(|connection| total += connection.traffic());
        total
    }

    /// Bytes sent to and received from each worker through its present connection, by slot; zero
    /// for this worker itself.
    pub fn traffic_by_slot(&self) -> impl Iterator<Item = Traffic> {
        let traffic = |peer: &Peer| peer.connection.as_ref().map(Connection::traffic);
        self.peers.iter().map(move |peer| traffic(peer).unwrap_or_default())
    }

    /// Makes a step: all workers' gradients become one update, the same on every replica. `None`
    /// takes part without a gradient, for a worker that has no more examples.
    ///
    /// # Panics
    /// If the gradient is not as long as the parameters, or the last step has been made.
    pub fn reduce(
        &mut self,
        gradient: Option<LocalGradient<'_>>,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        let values = gradient.map_or(&[][..], |gradient| gradient.values);
        assert!(gradient.is_none() || values.len() == self.params().len(), "gradient");
        let examples = gradient.map(|gradient| gradient.examples);
        let before = self.global_step();
        loop {
            match self.step(examples, values, observer) {
                Ok(()) => {
                    self.losses = 0;
                    return Ok(());
                }
                Err(fault) => self.recover(fault, values, observer)?,
            }
            // The others may have made the step, and this replica with their help.
            if self.global_step() != before || self.is_over() {
                return Ok(());
            }
        }
    }

    fn step(
        &mut self,
        examples: Option<u32>,
        gradient: &[f32],
        observer: &mut impl LinkObserver,
    ) -> Result<(), Fault> {
        self.check_needed()?;
        self.replica.begin_step(examples);
        observer.sending_gradient(self.global_step());
        let mut wait = None;
        loop {
            observer.enter_phase(ExchangePhase::Push);
            if self.replica.reduce_chunk(gradient) {
                while self.replica.reduce_chunk(gradient) {}
                observer.gradients_applied();
            }
            let mut progress = self.send_all(gradient)?;
            if self.is_sent() && self.replica.is_complete() {
                return Ok(self.replica.finish_step()?);
            }
            observer.enter_phase(ExchangePhase::Pull);
            progress |= self.read_all(observer)?;
            if !progress {
                observer.enter_phase(ExchangePhase::Wait);
                self.wait(wait.get_or_insert_with(Wait::new), observer)?;
            }
        }
    }

    /// Whoever went when it was not needed may be needed by now.
    fn check_needed(&self) -> Result<(), Fault> {
        let is_missed = |slot: &usize| self.is_gone(*slot) && self.replica.needs(*slot);
        let missed = self.replica.others().find(is_missed);
        missed.map_or(Ok(()), |slot| Err(Fault::lost(slot, "it closed the connection")))
    }

    /// Whether nothing more can come from a peer.
    fn is_gone(&self, slot: usize) -> bool {
        let connection = self.peers[slot].connection.as_ref();
        connection.is_none_or(|connection| connection.is_closed)
    }

    /// Sends what can be sent now; says whether anything was.
    fn send_all(&mut self, gradient: &[f32]) -> Result<bool, Fault> {
        let mut progress = false;
        for slot in self.replica.others() {
            let Some(connection) = &mut self.peers[slot].connection else { continue };
            match connection.send_parts(slot, &mut self.replica, gradient) {
                Ok(sent) => progress |= sent,
                Err(fault) => self.unless_needed(slot, fault)?,
            }
        }
        Ok(progress)
    }

    /// Whoever is lost when nothing is left to hear from it or to tell it has merely gone.
    fn unless_needed(&mut self, slot: usize, fault: Fault) -> Result<(), Fault> {
        if !matches!(fault, Fault::Lost { .. }) || self.replica.needs(slot) {
            return Err(fault);
        }
        self.close(slot);
        Ok(())
    }

    /// Closes the connection to a peer, if there is one.
    fn close(&mut self, slot: usize) {
        if let Some(connection) = self.peers[slot].connection.take() {
            self.gone_traffic += connection.traffic();
        }
    }

    fn is_sent(&self) -> bool {
        let mut open = self.peers.iter().filter_map(|peer| peer.connection.as_ref());
        open.all(Connection::is_sent)
    }

    /// Reads a frame of each peer, so that nobody's is made to wait; says whether there was any.
    fn read_all(&mut self, observer: &mut impl LinkObserver) -> Result<bool, Fault> {
        let mut progress = false;
        for slot in self.replica.others() {
            let Some(connection) = &mut self.peers[slot].connection else { continue };
            let event = match connection.read_event(slot, &mut self.replica) {
                Ok(None) => continue,
                Ok(Some(event)) => event,
                Err(fault) => {
                    self.unless_needed(slot, fault)?;
                    continue;
                }
            };
            progress = true;
            match connection.takes_first_part() {
                Some(FrameKind::GradientChunk) => {
                    observer.gradient_arrived(slot, self.replica.global_step())
                }
                Some(_) => observer.update_arrived(slot),
                None => {}
            }
            match event {
                ReplicaEvent::Progress | ReplicaEvent::Bye => {}
                ReplicaEvent::Abort(why) => return Err(Fault::Failed(LinkError::Aborted(why))),
                // In a run that recovers nobody goes before everything is on disk.
                ReplicaEvent::Left if self.replica.recovers() => {}
                ReplicaEvent::Left => connection.send_control(slot, &Replica::bye(), &[])?,
            }
        }
        Ok(progress)
    }

    /// Sleeps until a socket has something, but looks a few times first. Tells whoever wants
    /// to know once a second, and gives up at the limit.
    fn wait(&mut self, wait: &mut Wait, observer: &mut impl LinkObserver) -> Result<(), Fault> {
        self.check_needed()?;
        let mut patience = Patience::new();
        let is_few = self.peers.len() <= FEW + 1;
        while patience.look_again() {
            // A look at a few sockets costs less than asking the system about them.
            if is_few {
                self.wake_all();
                if self.read_all(observer)? {
                    return Ok(());
                }
            } else if self.look(Duration::ZERO)? {
                return Ok(());
            }
        }
        if self.look(SECOND / 4)? {
            return Ok(());
        }
        if observer.should_give_up() {
            return Err(Fault::Failed(LinkError::Interrupted));
        }
        let waited = wait.since.elapsed();
        if waited >= self.config.stall_timeout {
            let (seconds, whom) = (waited.as_secs(), self.awaited());
            return Err(Fault::Failed(LinkError::Stalled { seconds, whom }));
        }
        if wait.told.elapsed() >= SECOND {
            wait.told = Instant::now();
            let (step, seconds) = (self.global_step(), waited.as_secs());
            observer.note(&format!("step {step} waits for {} ({seconds} s)", self.awaited()));
        }
        Ok(())
    }

    /// Asks the system who has something to say; whether anybody has.
    fn look(&mut self, timeout: Duration) -> Result<bool, Fault> {
        poll_once(&mut self.poll, &mut self.events, timeout).map_err(LinkError::Io)?;
        for event in &self.events {
            let peer = self.peers.get_mut(event.token().0);
            if let Some(connection) = peer.and_then(|peer| peer.connection.as_mut()) {
                connection.wake();
                connection.has_ended |= event.is_read_closed();
            }
        }
        Ok(!self.events.is_empty())
    }

    fn wake_all(&mut self) {
        self.peers
            .iter_mut()
            .filter_map(|peer| peer.connection.as_mut())
            .for_each(Connection::wake);
    }

    /// Whom the worker waits for, by name.
    fn awaited(&self) -> String {
        let slots = self.replica.awaited().into_iter();
        slots.map(|slot| self.replica.name(slot)).collect::<Vec<_>>().join(", ")
    }
}
