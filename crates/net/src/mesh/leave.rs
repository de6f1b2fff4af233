//! How a run ends in good order: everybody goes along to the last step, leaves a report with the
//! chief, and is let go.

use std::cell::Cell;
use std::time::Instant;

use paceline_exchange::TaskReport;

use super::Mesh;
use super::connection::Fault;
use crate::error::LinkError;
use crate::link::{SECOND, Wait};
use crate::observer::{ExchangePhase, LinkObserver};

impl Mesh {
    /// Takes part in the remaining steps without a gradient, until no worker has one.
    pub fn finish_steps(&mut self, observer: &mut impl LinkObserver) -> Result<(), LinkError> {
        while !self.replica.is_over() {
            self.reduce(None, observer)?;
        }
        Ok(())
    }

    /// Leaves the run, with a report for the coordinator: takes part in the remaining steps and
    /// waits until the coordinator releases this worker.
    pub fn leave(
        &mut self,
        report: &[u8],
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        self.finish_steps(observer)?;
        while self.replica.slot() != 0 && !self.replica.is_dismissed() {
            if let Err(fault) = self.say_leave(report, observer) {
                self.recover(fault, &[], observer)?;
            }
        }
        Ok(())
    }

    fn say_leave(&mut self, report: &[u8], observer: &mut impl LinkObserver) -> Result<(), Fault> {
        let (header, body) = self.replica.leave(report);
        match &mut self.peers[0].connection {
            Some(chief) => chief.send_control(0, &header, &body)?,
            None => return Err(Fault::lost(0, "not connected")),
        }
        let noticed = Cell::new(None);
        self.until(observer, |mesh| {
            let mut others = mesh.replica.others();
            let gone = others.find(|&slot| mesh.replica.may_be_awaited() && mesh.is_gone(slot));
            let Some(slot) = gone else { return Ok(mesh.replica.is_dismissed()) };
            // The chief's goodbye may be on its way to us, as it was to whoever has gone.
            let since = noticed.get().unwrap_or_else(Instant::now);
            noticed.set(Some(since));
            match since.elapsed() < SECOND {
                true => Ok(mesh.replica.is_dismissed()),
                false => Err(Fault::lost(slot, "it closed the connection")),
            }
        })
    }

    /// Coordinator only, after it has left: the reports of all other workers, by slot.
    pub fn collect_reports(
        &mut self,
        observer: &mut impl LinkObserver,
    ) -> Result<Vec<TaskReport>, LinkError> {
        let collected = match self.replica.recovers() {
            true => self.gather_reports(observer),
            false => self.until(observer, |mesh| Ok(mesh.replica.reports().is_some())),
        };
        collected.map_err(|fault| self.give_up(fault, &[]))?;
        Ok(self.replica.reports().unwrap_or_default())
    }

    fn until(
        &mut self,
        observer: &mut impl LinkObserver,
        is_done: impl Fn(&Self) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let mut wait = Wait::new();
        observer.enter_phase(ExchangePhase::Wait);
        while !is_done(self)? || !self.is_sent() {
            self.send_all(&[])?;
            if !self.read_all(observer)? {
                self.wait(&mut wait, observer)?;
            }
        }
        Ok(())
    }
}
