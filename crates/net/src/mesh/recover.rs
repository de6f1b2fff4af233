//! What happens when a worker is lost in a run that recovers.
//!
//! A worker that notices the loss closes all its connections, so that all others notice too, and
//! all gather again as at the start. Their replicas say how far they are; a replica that is behind
//! gets the state of one that is not, and then the step is made again. Each peer has a limit: a
//! lost worker has the rejoin timeout; one that is merely busy and has not noticed yet has the
//! time that a step may take.

use std::time::{Duration, Instant};

use paceline_exchange::{StepMemory, WholeGradient};

use super::config::{LossReport, MeshConfig};
use super::fault::MeshFault;
use super::gather::{GatherReason, initial_state};
use super::state::{Absence, Mesh};
use crate::error::LinkError;
use crate::long_wait::LongWait;
use crate::observer::LinkObserver;

/// How often workers may be lost before a step is made; more often is a fault, not an accident.
const MAX_LOSSES: u32 = 100;
/// How long a lost worker may take to connect again before it is reported.
const REPORT_AFTER: Duration = Duration::from_secs(1);
/// How long one poll waits while the coordinator collects reports.
const REPORT_POLL: Duration = Duration::from_millis(20);

impl Mesh {
    /// Recovers from a fault if that is possible: all workers are connected then, and have made
    /// the same steps.
    pub(super) fn recover(
        &mut self,
        mut fault: MeshFault,
        memory: &mut dyn StepMemory,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        loop {
            self.abandon(fault, memory, observer)?;
            match self.regather(observer)? {
                Ok(()) => return Ok(()),
                Err(next) => fault = next,
            }
        }
    }

    /// Abandons the step and closes all connections, if the run can recover from the fault.
    pub(super) fn abandon(
        &mut self,
        fault: MeshFault,
        memory: &mut dyn StepMemory,
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        self.losses += 1;
        let MeshFault::Lost { slot, why } = fault else {
            return Err(self.give_up(fault, memory));
        };
        if !self.replica.recovers() || self.losses > MAX_LOSSES {
            return Err(self.give_up(MeshFault::Lost { slot, why }, memory));
        }
        let loss = self.find_cause(slot, why);
        if !matches!(loss, LinkError::Lost { .. }) {
            return Err(self.fail(loss, memory));
        }
        observer.note(&format!("{loss}; its place is kept"));
        self.disconnect_all(slot);
        Ok(())
    }

    /// After that: connects to all workers again, and brings all replicas to the same step. The
    /// inner result is a fault that the run may recover from.
    pub(super) fn regather(
        &mut self,
        observer: &mut impl LinkObserver,
    ) -> Result<Result<(), MeshFault>, LinkError> {
        if let Err(error) = self.gather(GatherReason::Loss, observer) {
            return Err(self.give_up(error.into(), &WholeGradient::none()));
        }
        Ok(self.catch_up(observer))
    }

    /// Abandons the step and closes all connections, because the worker in slot `lost` is gone.
    fn disconnect_all(&mut self, lost: usize) {
        self.replica.disconnect_all();
        let now = Instant::now();
        for slot in self.replica.others() {
            let has_ended = self.peers[slot].connection.as_ref().is_none_or(|c| c.has_ended);
            self.close(slot);
            let is_lost = slot == lost || has_ended;
            let limit = if is_lost { self.rejoin_limit(slot) } else { self.busy_limit() };
            let peer = &mut self.peers[slot];
            peer.state = initial_state(slot, self.replica.slot());
            peer.next_attempt = now;
            peer.absence = Absence { since: now, limit, is_lost };
        }
    }

    /// The time that a lost worker has to come back.
    fn rejoin_limit(&self, slot: usize) -> Duration {
        let MeshConfig { rejoin_timeout, coordinator_timeout, .. } = self.config;
        let shorter = coordinator_timeout.filter(|_| slot == 0);
        shorter.map_or(rejoin_timeout, |shorter| shorter.min(rejoin_timeout))
    }

    /// The time that a worker has if it may be busy with a step.
    fn busy_limit(&self) -> Duration {
        self.config.rejoin_timeout.max(self.config.stall_timeout)
    }

    /// After gathering: sends or receives the state that a replica misses.
    pub(super) fn catch_up(&mut self, observer: &mut impl LinkObserver) -> Result<(), MeshFault> {
        self.replica.plan_catch_up()?;
        let mut wait = None;
        loop {
            let none = &mut WholeGradient::none();
            let mut progress = self.send_all(none)?;
            if !self.replica.is_behind() && !self.replica.is_sending_state() && self.is_sent() {
                self.announce_end();
                return Ok(());
            }
            progress |= self.read_all(none, observer)?;
            if !progress {
                self.wait(wait.get_or_insert_with(LongWait::new), none, observer)?;
            }
        }
    }

    /// Announces the end of the run, if this is the coordinator and learned of the end from others:
    /// it had greeted them as one that did not know of it. It closes the connections; the others
    /// connect again and learn that they need no other worker.
    fn announce_end(&mut self) {
        if self.replica.slot() != 0 || !self.replica.is_over() {
            return;
        }
        let limit = self.busy_limit();
        for slot in self.replica.others() {
            self.lose(slot);
            self.peers[slot].absence.limit = limit;
        }
    }

    /// Fails if a missing worker has reached its limit.
    pub(super) fn check_absences(&self) -> Result<(), LinkError> {
        let is_late = |slot: &usize| {
            let absence = self.peers[*slot].absence;
            self.is_missed(*slot) && absence.since.elapsed() >= absence.limit
        };
        let Some(slot) = self.replica.others().find(is_late) else { return Ok(()) };
        let seconds = self.peers[slot].absence.limit.as_secs_f64();
        Err(LinkError::Lost {
            task: self.replica.name(slot).into(),
            address: self.config.addresses[slot].clone(),
            why: format!("it did not come back within {seconds} s"),
        })
    }

    /// Reports the workers that are lost and have not come back by themselves.
    pub(super) fn report_losses(&self) {
        let Some(LossReport(report)) = &self.config.losses else { return };
        let is_lost = |slot: &usize| {
            let absence = self.peers[*slot].absence;
            let is_late = absence.is_lost && absence.since.elapsed() >= REPORT_AFTER;
            is_late && self.is_missed(*slot)
        };
        self.replica.others().filter(is_lost).for_each(|slot| report(slot));
    }

    /// Whether a peer is needed and not connected.
    fn is_missed(&self, slot: usize) -> bool {
        !self.replica.is_connected(slot) && self.replica.needs(slot)
    }

    /// Coordinator only, at the end: forgets connections that have ended, so that their workers
    /// can connect again.
    pub(super) fn forget_lost(&mut self) {
        for slot in self.replica.others() {
            if self.is_gone(slot) && self.replica.is_connected(slot) {
                self.lose(slot);
            }
        }
    }

    fn lose(&mut self, slot: usize) {
        self.close(slot);
        self.replica.connection_lost(slot);
        let limit = self.rejoin_limit(slot);
        self.peers[slot].absence = Absence { since: Instant::now(), limit, is_lost: true };
    }

    /// Coordinator only, after the last step: waits for the reports of all workers. One that is
    /// lost before it has left may come back, and then gets what it misses of the last step.
    pub(super) fn gather_reports(
        &mut self,
        observer: &mut impl LinkObserver,
    ) -> Result<(), MeshFault> {
        let mut wait = LongWait::new();
        while self.replica.reports().is_none() || !self.is_sent() {
            self.accept(observer)?;
            self.forget_lost();
            let none = &mut WholeGradient::none();
            let moved =
                self.send_all(none).and_then(|sent| Ok(self.read_all(none, observer)? | sent));
            match moved {
                Ok(true) => continue,
                Ok(false) => {}
                Err(MeshFault::Lost { slot, .. }) => {
                    self.lose(slot);
                    continue;
                }
                Err(fault) => return Err(fault),
            }
            self.check_absences()?;
            self.report_losses();
            self.poll(REPORT_POLL)?;
            wait.check(self.config.stall_timeout, || self.awaited())?;
            if wait.should_note() {
                let seconds = wait.elapsed().as_secs();
                observer.note(&format!("the end waits for {} ({seconds} s)", self.awaited()));
            }
        }
        Ok(())
    }
}
