//! How a run is cut short: ended in the middle of a step, because the step would take too long.
//!
//! The coordinator sends [`FrameKind::Stop`](paceline_exchange::FrameKind::Stop) as its last frame
//! to every other worker. A worker learns of it even if frames of the step are unread before it,
//! because the connection's end shows at once. It gives up the step, sends the coordinator its
//! report and ends. Frames that have been sent in part are finished first, and everything else that
//! arrives is read and discarded: a socket that is closed with unread data would discard what it
//! has sent.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use paceline_exchange::{ControlFrame, Replica, StepMemory, WholeGradient};

use super::abort::{FAREWELL_TIMEOUT, TRY_EVERY};
use super::connection::MeshConnection;
use super::state::Mesh;
use crate::error::LinkError;
use crate::observer::LinkObserver;

/// How long the coordinator waits for the reports of the other workers.
const REPORTS_TIMEOUT: Duration = Duration::from_millis(800);
/// How long a worker that has given up its step waits for the coordinator to cut the run short.
const DECISION_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Mesh {
    /// Whether the run was cut short.
    pub fn is_cut_short(&self) -> bool {
        self.replica.is_cut_short()
    }

    /// Whether some parameters, or their optimizer's state, are of the step that was given up.
    pub fn is_mixed(&self) -> bool {
        self.replica.is_mixed()
    }

    /// The range of the parameters that this worker updates during a step in pieces.
    pub fn updates_in_step(&self) -> Range<usize> {
        self.replica.updates_in_step()
    }

    /// Coordinator only, between two steps: cuts the run short, and takes the reports of all
    /// workers that leave in time.
    pub fn cut_short(&mut self) {
        self.cut_short_with(&WholeGradient::none());
    }

    /// The same in the middle of a step with this memory.
    pub(super) fn cut_short_with(&mut self, memory: &dyn StepMemory) {
        self.replica.cut_short();
        let stop = Replica::cut_short_frame();
        let mut open: Vec<_> = self.replica.others().filter_map(|slot| self.take(slot)).collect();
        let deadline = Instant::now() + REPORTS_TIMEOUT;
        while !open.is_empty() && Instant::now() < deadline {
            open.retain_mut(|(slot, connection)| {
                if connection.send_last(&stop, &[], &mut self.replica, memory).is_err() {
                    connection.is_closed = true;
                }
                if let Some(report) = connection.read_leave() {
                    self.replica.report_arrived(*slot, report);
                    return false;
                }
                !connection.is_closed
            });
            thread::sleep(TRY_EVERY);
        }
    }

    /// The connection to a peer, which is not used any more for steps.
    fn take(&mut self, slot: usize) -> Option<(usize, MeshConnection)> {
        let connection = self.peers[slot].connection.take()?;
        self.closed_traffic += connection.traffic();
        Some((slot, connection))
    }

    /// Another worker has cut the run short: gives up the step with this memory. Keeps only the
    /// connection to the coordinator, which still expects a report.
    pub(super) fn give_up_step(&mut self, memory: &dyn StepMemory) {
        self.replica.cut_short();
        self.replica.others().filter(|&slot| slot != 0).for_each(|slot| self.close(slot));
        let deadline = Instant::now() + FAREWELL_TIMEOUT;
        while let Some(connection) = &mut self.peers[0].connection {
            let finished = connection.finish_frame(&mut self.replica, memory);
            let _ = connection.read_abort_reason();
            match finished {
                Ok(true) => return,
                Ok(false) if Instant::now() < deadline => thread::sleep(TRY_EVERY),
                Ok(false) | Err(_) => self.close(0),
            }
        }
    }

    /// After that: leaves, with a report for the coordinator.
    pub(super) fn leave_cut_short(&mut self, report: &[u8]) {
        let ControlFrame { header, body } = self.replica.leave(report);
        let deadline = Instant::now() + FAREWELL_TIMEOUT;
        while let Some(connection) = &mut self.peers[0].connection {
            let none = &WholeGradient::none();
            let is_sent = connection.send_last(&header, &body, &mut self.replica, none);
            let _ = connection.read_abort_reason();
            let is_read = connection.is_closed;
            if is_sent.is_err() || is_read || Instant::now() >= deadline {
                self.close(0);
            } else {
                thread::sleep(TRY_EVERY);
            }
        }
    }

    /// For a worker that has given up its part of the next step before it sent any of it: waits
    /// until the coordinator cuts the run short.
    pub fn wait_for_cut(&mut self, observer: &mut impl LinkObserver) -> Result<(), LinkError> {
        let deadline = Instant::now() + DECISION_TIMEOUT;
        while Instant::now() < deadline && !observer.should_give_up() {
            let _ = self.poll(LOOK_EVERY);
            let Some(coordinator) = &mut self.peers[0].connection else { break };
            // What it has sent of the step is discarded.
            match coordinator.read_abort_reason() {
                Some(LinkError::CutShort) => {
                    self.give_up_step(&WholeGradient::none());
                    return Ok(());
                }
                Some(other) => return Err(other),
                None if coordinator.is_closed => break,
                None => {}
            }
        }
        Err(LinkError::Interrupted { awaited: self.replica.name(0).into() })
    }
}
