//! How a run ends in good order: everybody goes along to the last step, leaves a report with the
//! chief, and is let go.

use std::cell::Cell;
use std::time::Instant;

use paceline_exchange::TaskReport;

use super::Mesh;
use super::connection::Fault;
use crate::link::{SECOND, Wait};
use crate::{Attendant, LinkError, Moved};

impl Mesh {
    /// Goes along without a gradient until nobody has one.
    pub fn follow(&mut self, attendant: &mut impl Attendant) -> Result<(), LinkError> {
        while !self.replica.is_over() {
            self.reduce(None, attendant)?;
        }
        Ok(())
    }

    /// Leaves the run in good order, with a report for the chief: goes along to its end, then says
    /// goodbye.
    pub fn leave(
        &mut self,
        report: &[u8],
        attendant: &mut impl Attendant,
    ) -> Result<(), LinkError> {
        self.follow(attendant)?;
        while self.replica.slot() != 0 && !self.replica.is_dismissed() {
            if let Err(fault) = self.say_leave(report, attendant) {
                self.recover(fault, &[], attendant)?;
            }
        }
        Ok(())
    }

    fn say_leave(&mut self, report: &[u8], attendant: &mut impl Attendant) -> Result<(), Fault> {
        let (header, body) = self.replica.leave(report);
        match &mut self.peers[0].connection {
            Some(chief) => chief.send_control(0, &header, &body)?,
            None => return Err(Fault::lost(0, "not connected")),
        }
        let noticed = Cell::new(None);
        self.until(attendant, |mesh| {
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

    /// To the chief, after it has left: the reports of all others, by slot.
    pub fn collect(
        &mut self,
        attendant: &mut impl Attendant,
    ) -> Result<Vec<TaskReport>, LinkError> {
        let collected = match self.replica.recovers() {
            true => self.gather_reports(attendant),
            false => self.until(attendant, |mesh| Ok(mesh.replica.reports().is_some())),
        };
        collected.map_err(|fault| self.give_up(fault, &[]))?;
        Ok(self.replica.reports().unwrap_or_default())
    }

    fn until(
        &mut self,
        attendant: &mut impl Attendant,
        is_done: impl Fn(&Self) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let mut wait = Wait::new();
        attendant.moved(Moved::Wait);
        while !is_done(self)? || !self.is_sent() {
            self.send_all(&[])?;
            if !self.read_all(attendant)? {
                self.wait(&mut wait, attendant)?;
            }
        }
        Ok(())
    }
}
