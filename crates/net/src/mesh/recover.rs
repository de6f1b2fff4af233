//! What happens when a worker is lost in a run that recovers.
//!
//! Whoever notices closes all its connections, so that everybody notices, and all find each other
//! again as at the start. Their replicas say how far they are; who is behind is helped by one that
//! is not, and then the step is made anew. How long that may take is known for every peer: one that
//! was lost has the time in which its place is kept; one that is merely busy, and has not noticed
//! yet, the time that a step may take.

use std::time::{Duration, Instant};

use super::Mesh;
use super::connection::Fault;
use super::gather::{Occasion, state_before};
use crate::error::LinkError;
use crate::link::{SECOND, Wait};
use crate::observer::LinkObserver;

/// How often in a row somebody may be lost before a step is made: more than that is no accident.
const MOST_LOSSES: u32 = 100;

impl Mesh {
    /// Goes on after a fault, if that can be: everybody is here then, and as far as the furthest.
    pub(super) fn recover(
        &mut self,
        mut fault: Fault,
        gradient: &[f32],
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        loop {
            self.losses += 1;
            let Fault::Lost { slot, why } = fault else {
                return Err(self.give_up(fault, gradient));
            };
            if !self.replica.recovers() || self.losses > MOST_LOSSES {
                return Err(self.give_up(Fault::Lost { slot, why }, gradient));
            }
            let loss = self.blame(slot, why);
            if !matches!(loss, LinkError::Lost { .. }) {
                self.say_goodbye(&loss.to_string(), gradient);
                return Err(loss);
            }
            observer.note(&format!("{loss}; its place is kept"));
            self.disband(slot);
            if let Err(error) = self.gather(Occasion::Loss, observer) {
                return Err(self.give_up(Fault::Failed(error), &[]));
            }
            match self.catch_up(observer) {
                Ok(()) => return Ok(()),
                Err(next) => fault = next,
            }
        }
    }

    /// Gives up the step and all connections.
    fn disband(&mut self, lost: usize) {
        self.replica.disconnect_all();
        let now = Instant::now();
        for slot in self.replica.others() {
            let is_gone = self.peers[slot].connection.as_ref().is_none_or(|c| c.has_ended);
            self.close(slot);
            let patience = match slot == lost || is_gone {
                true => self.config.rejoin_timeout,
                false => self.config.rejoin_timeout.max(self.config.stall_timeout),
            };
            let peer = &mut self.peers[slot];
            peer.state = state_before(slot, self.replica.slot());
            (peer.next_try, peer.missing) = (now, (now, patience));
        }
    }

    /// Everybody is here: sends or gets what somebody misses.
    pub(super) fn catch_up(&mut self, observer: &mut impl LinkObserver) -> Result<(), Fault> {
        self.replica.plan_catch_up()?;
        let mut wait = None;
        loop {
            let mut progress = self.send_all(&[])?;
            if !self.replica.is_behind() && !self.replica.is_sending_state() && self.is_sent() {
                self.tell_end();
                return Ok(());
            }
            progress |= self.read_all(observer)?;
            if !progress {
                self.wait(wait.get_or_insert_with(Wait::new), observer)?;
            }
        }
    }

    /// A chief that has learnt from others that the run is over has greeted them as one that had
    /// not: they come again, and hear that they need nobody else.
    fn tell_end(&mut self) {
        if self.replica.slot() != 0 || !self.replica.is_over() {
            return;
        }
        let patience = self.config.rejoin_timeout.max(self.config.stall_timeout);
        for slot in self.replica.others() {
            self.lose(slot);
            self.peers[slot].missing.1 = patience;
        }
    }

    /// Whether somebody is missing whose time is up.
    pub(super) fn check_patience(&self) -> Result<(), LinkError> {
        let is_late = |slot: &usize| {
            let (since, patience) = self.peers[*slot].missing;
            self.is_missed(*slot) && since.elapsed() >= patience
        };
        let Some(slot) = self.replica.others().find(is_late) else { return Ok(()) };
        let seconds = self.peers[slot].missing.1.as_secs_f64();
        Err(LinkError::Lost {
            server: self.replica.name(slot).into(),
            address: self.config.addresses[slot].clone(),
            why: format!("it did not come back within {seconds} s"),
        })
    }

    /// Whether a peer is needed and not here.
    fn is_missed(&self, slot: usize) -> bool {
        !self.replica.is_connected(slot) && self.replica.needs(slot)
    }

    /// To the chief at the end: forgets connections that are gone. Whoever comes back is let in.
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
        self.peers[slot].missing = (Instant::now(), self.config.rejoin_timeout);
    }

    /// To the chief, when the last step is made: waits for everybody's report. Whoever is lost
    /// before it has left may come back, and is helped to the end.
    pub(super) fn gather_reports(&mut self, observer: &mut impl LinkObserver) -> Result<(), Fault> {
        let mut wait = Wait::new();
        while self.replica.reports().is_none() || !self.is_sent() {
            self.let_in(observer)?;
            self.forget_lost();
            let moved = self.send_all(&[]).and_then(|sent| Ok(self.read_all(observer)? | sent));
            match moved {
                Ok(true) => continue,
                Ok(false) => {}
                Err(Fault::Lost { slot, .. }) => {
                    self.lose(slot);
                    continue;
                }
                Err(fault) => return Err(fault),
            }
            self.check_patience()?;
            self.look(Duration::from_millis(20))?;
            let waited = wait.since.elapsed();
            if waited >= self.config.stall_timeout {
                let (seconds, whom) = (waited.as_secs(), self.awaited());
                return Err(Fault::Failed(LinkError::Stalled { seconds, whom }));
            }
            if wait.told.elapsed() >= SECOND {
                wait.told = Instant::now();
                let seconds = waited.as_secs();
                observer.note(&format!("the end waits for {} ({seconds} s)", self.awaited()));
            }
        }
        Ok(())
    }
}
