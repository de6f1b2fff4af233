//! How a run ends cleanly: all workers take part up to the last step, send a report to the
//! coordinator, and are dismissed by it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use paceline_exchange::{ControlFrame, TaskReport, WholeGradient};

use super::connection::CLOSED;
use super::fault::MeshFault;
use super::state::Mesh;
use crate::error::LinkError;
use crate::long_wait::LongWait;
use crate::observer::{ExchangePhase, LinkObserver};

/// How long a worker waits for its dismissal after another one has gone: the other may have been
/// dismissed, and this worker's dismissal may be on its way.
const DISMISSAL_GRACE: Duration = Duration::from_secs(1);

impl Mesh {
    /// Takes part in the remaining steps without a gradient, until no worker has one.
    pub fn finish_steps(&mut self, observer: &mut impl LinkObserver) -> Result<(), LinkError> {
        while !self.replica.is_over() {
            match self.reduce(None, observer) {
                // The run is over now.
                Ok(()) | Err(LinkError::CutShort) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Leaves the run, with a report for the coordinator: takes part in the remaining steps and
    /// waits until the coordinator dismisses this worker.
    pub fn leave(
        &mut self,
        report: &[u8],
        observer: &mut impl LinkObserver,
    ) -> Result<(), LinkError> {
        self.finish_steps(observer)?;
        if self.replica.is_cut_short() {
            self.leave_cut_short(report);
            return Ok(());
        }
        while self.replica.slot() != 0 && !self.replica.is_dismissed() {
            if let Err(fault) = self.send_leave(report, observer) {
                match self.recover(fault, &mut WholeGradient::none(), observer) {
                    // This worker has made the last step, and the coordinator has not.
                    Err(LinkError::CutShort) => {
                        self.leave_cut_short(report);
                        return Ok(());
                    }
                    recovered => recovered?,
                }
            }
        }
        Ok(())
    }

    fn send_leave(
        &mut self,
        report: &[u8],
        observer: &mut impl LinkObserver,
    ) -> Result<(), MeshFault> {
        let ControlFrame { header, body } = self.replica.leave(report);
        let Some(coordinator) = &mut self.peers[0].connection else {
            return Err(MeshFault::lost(0, "not connected"));
        };
        let sent = coordinator.send_control(&header, &body);
        sent.map_err(|error| MeshFault::lost(0, error))?;
        let noticed = Cell::new(None);
        self.wait_until(observer, |mesh| {
            let mut others = mesh.replica.others();
            let gone = others.find(|&slot| mesh.replica.may_be_awaited() && mesh.is_gone(slot));
            let Some(slot) = gone else { return Ok(mesh.replica.is_dismissed()) };
            let since = noticed.get().unwrap_or_else(Instant::now);
            noticed.set(Some(since));
            if since.elapsed() >= DISMISSAL_GRACE {
                return Err(MeshFault::lost(slot, CLOSED));
            }
            Ok(mesh.replica.is_dismissed())
        })
    }

    /// Coordinator only, after it has left: the reports of all other workers, by slot.
    pub fn collect_reports(
        &mut self,
        observer: &mut impl LinkObserver,
    ) -> Result<Vec<TaskReport>, LinkError> {
        if let Some(reports) = self.replica.reports().filter(|_| self.replica.is_cut_short()) {
            return Ok(reports);
        }
        let collected = if self.replica.recovers() {
            self.gather_reports(observer)
        } else {
            self.wait_until(observer, |mesh| Ok(mesh.replica.reports().is_some()))
        };
        collected.map_err(|fault| self.give_up(fault, &WholeGradient::none()))?;
        Ok(self.replica.reports().unwrap_or_default())
    }

    /// Sends and reads until `is_done` and the sockets have taken everything.
    fn wait_until(
        &mut self,
        observer: &mut impl LinkObserver,
        is_done: impl Fn(&Self) -> Result<bool, MeshFault>,
    ) -> Result<(), MeshFault> {
        let mut wait = LongWait::new();
        observer.enter_phase(ExchangePhase::Wait);
        while !is_done(self)? || !self.is_sent() {
            let none = &mut WholeGradient::none();
            self.send_all(none)?;
            if !self.read_all(none, observer)? {
                self.wait(&mut wait, none, observer)?;
            }
        }
        Ok(())
    }
}
