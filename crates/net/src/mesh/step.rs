//! One step: all workers' gradients become one update.

use std::time::Duration;

use paceline_exchange::{FrameKind, Replica, ReplicaEvent, StepMemory, WholeGradient};
use paceline_model::ParamTable;

use super::config::{KeyedGradient, LocalGradient};
use super::connection::CLOSED;
use super::fault::MeshFault;
use super::state::Mesh;
use crate::error::LinkError;
use crate::long_wait::{CHECK_EVERY, LongWait};
use crate::observer::{ExchangePhase, LinkObserver};
use crate::spin_wait::SpinWait;

/// With at most this many peers it costs less to read every socket than to poll them.
const FEW_PEERS: usize = 3;
/// How long a worker that owns no shard waits for an owner that has reached the limit of a step.
const OWNER_GRACE: Duration = Duration::from_secs(2);

impl Mesh {
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
        assert!(!self.replica.config().has_factors(), "factors are exchanged in pieces");
        let examples = gradient.map(|gradient| gradient.examples);
        self.make_step(&|replica| replica.begin_step(examples), values, observer)
    }

    /// The same for a sparse model, whose gradients have keys of their own.
    ///
    /// # Panics
    /// If the gradient has not as many numbers as its keys need, the last step has been made, or
    /// the model is not sparse.
    pub fn reduce_keyed(
        &mut self,
        gradient: Option<KeyedGradient<'_>>,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        let width = self.table().map_or(0, ParamTable::width);
        let none = KeyedGradient { examples: 0, keys: &[], values: &[] };
        let KeyedGradient { keys, values, .. } = gradient.unwrap_or(none);
        assert_eq!(keys.len() * width, values.len(), "gradient of the keys");
        let examples = gradient.map(|gradient| gradient.examples);
        self.make_step(&|replica| replica.begin_keyed_step(examples, keys), values, observer)
    }

    /// Makes a step with a gradient of these numbers, again after each loss until it is made.
    fn make_step(
        &mut self,
        begin: &dyn Fn(&mut Replica),
        values: &[f32],
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        let memory = &mut WholeGradient(values);
        let before = self.global_step();
        loop {
            match self.step(begin, memory, observer) {
                Ok(()) => {
                    self.losses = 0;
                    return Ok(());
                }
                Err(fault) => self.recover(fault, memory, observer)?,
            }
            // The others may have made the step and sent its result to this replica.
            if self.global_step() != before || self.is_over() {
                return Ok(());
            }
        }
    }

    fn step(
        &mut self,
        begin: &dyn Fn(&mut Replica),
        memory: &mut WholeGradient<'_>,
        observer: &mut impl LinkObserver,
    ) -> Result<(), MeshFault> {
        self.check_needed()?;
        begin(&mut self.replica);
        observer.sending_gradient(self.global_step());
        let mut wait = None;
        loop {
            if self.replica.is_untouched() && observer.cuts_short() {
                return Err(LinkError::CutShort.into());
            }
            observer.enter_phase(ExchangePhase::Push);
            if self.replica.reduce_chunk(memory) {
                while self.replica.reduce_chunk(memory) {}
                observer.gradients_applied();
            }
            let mut progress = self.send_all(memory)?;
            if self.is_sent() && self.replica.is_complete() {
                return Ok(self.replica.finish_step()?);
            }
            observer.enter_phase(ExchangePhase::Pull);
            progress |= self.read_all(memory, observer)?;
            if !progress {
                observer.enter_phase(ExchangePhase::Wait);
                self.wait(wait.get_or_insert_with(LongWait::new), memory, observer)?;
            }
        }
    }

    /// Fails if a peer is needed that closed its connection when it was not needed.
    pub(super) fn check_needed(&self) -> Result<(), MeshFault> {
        let is_missed = |slot: &usize| self.is_gone(*slot) && self.replica.needs(*slot);
        let missed = self.replica.others().find(is_missed);
        missed.map_or(Ok(()), |slot| Err(MeshFault::lost(slot, CLOSED)))
    }

    /// Sends what the sockets take now. Returns whether they took any byte.
    pub(super) fn send_all(&mut self, memory: &dyn StepMemory) -> Result<bool, MeshFault> {
        let mut progress = false;
        for slot in self.replica.others() {
            let Some(connection) = &mut self.peers[slot].connection else { continue };
            match connection.send_chunks(slot, &mut self.replica, memory) {
                Ok(sent) => progress |= sent,
                Err(fault) => self.connection_failed(slot, fault)?,
            }
        }
        Ok(progress)
    }

    /// A connection failed. If the replica needs nothing more from the peer and has nothing more
    /// for it, the peer has merely gone, and the connection is closed.
    fn connection_failed(&mut self, slot: usize, fault: MeshFault) -> Result<(), MeshFault> {
        if !matches!(fault, MeshFault::Lost { .. }) || self.replica.needs(slot) {
            return Err(fault);
        }
        self.close(slot);
        Ok(())
    }

    /// Reads one frame from each peer, so that none is made to wait for another. Returns whether
    /// there was any.
    pub(super) fn read_all(
        &mut self,
        memory: &mut dyn StepMemory,
        observer: &mut impl LinkObserver,
    ) -> Result<bool, MeshFault> {
        let mut progress = false;
        for slot in self.replica.others() {
            let Some(connection) = &mut self.peers[slot].connection else { continue };
            let event = match connection.read_event(slot, &mut self.replica, memory) {
                Ok(None) => continue,
                Ok(Some(event)) => event,
                Err(fault) => {
                    self.connection_failed(slot, fault)?;
                    continue;
                }
            };
            progress = true;
            match connection.take_first_chunk() {
                Some(FrameKind::GradientChunk | FrameKind::Factors | FrameKind::KeyedGradient) => {
                    observer.gradient_arrived(slot, self.replica.global_step());
                }
                Some(_) => observer.update_arrived(slot),
                None => {}
            }
            match event {
                ReplicaEvent::Progress | ReplicaEvent::Bye => {}
                ReplicaEvent::Abort(why) => return Err(LinkError::Aborted(why).into()),
                ReplicaEvent::CutShort => return Err(LinkError::CutShort.into()),
                // In a run that recovers, no worker exits before everything is on disk.
                ReplicaEvent::Left if self.replica.recovers() => {}
                ReplicaEvent::Left => {
                    let sent = connection.send_control(&Replica::bye(), &[]);
                    sent.map_err(|error| MeshFault::lost(slot, error))?;
                }
            }
        }
        Ok(progress)
    }

    /// Spins, then sleeps until a socket has something. Notes once a second what it waits for,
    /// and fails at the limit.
    pub(super) fn wait(
        &mut self,
        wait: &mut LongWait,
        memory: &mut dyn StepMemory,
        observer: &mut impl LinkObserver,
    ) -> Result<(), MeshFault> {
        self.check_needed()?;
        let mut spin = SpinWait::new();
        let has_few_peers = self.peers.len() <= FEW_PEERS + 1;
        while spin.spin() {
            if has_few_peers {
                self.wake_all();
                if self.read_all(memory, observer)? {
                    return Ok(());
                }
            } else if self.poll(Duration::ZERO)? {
                return Ok(());
            } else if spin.is_contended() {
                // With many workers on a machine, those that spin only delay the others.
                break;
            }
        }
        self.sleep(Some(wait), observer)
    }

    /// How long a step may wait. A worker that owns no shard waits longer: the owner, which knows
    /// the worker that is late, reports it first.
    fn stall_limit(&self) -> Duration {
        let grace = if self.replica.is_owner() { Duration::ZERO } else { OWNER_GRACE };
        self.config.stall_timeout + grace
    }

    /// Sleeps until a socket has something or another thread wakes this one. Notes once a second
    /// what it waits for, and fails at the limit, if it waits for other workers.
    pub(super) fn sleep(
        &mut self,
        wait: Option<&mut LongWait>,
        observer: &mut impl LinkObserver,
    ) -> Result<(), MeshFault> {
        self.check_needed()?;
        if self.poll(CHECK_EVERY)? {
            return Ok(());
        }
        let Some(wait) = wait else { return Ok(()) };
        if observer.should_give_up() {
            return Err(LinkError::Interrupted { awaited: self.awaited() }.into());
        }
        wait.check(self.stall_limit(), || self.awaited())?;
        if wait.should_note() {
            let (step, seconds) = (self.global_step(), wait.elapsed().as_secs());
            observer.note(&format!("step {step} waits for {} ({seconds} s)", self.awaited()));
        }
        Ok(())
    }
}
