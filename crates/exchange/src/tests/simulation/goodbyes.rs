//! How a process leaves the run, releases its slot, and ends the run.

use super::process::{ProcessAction, SimProcess, SimProcessState};
use crate::tests::harness::TestFrame;
use crate::{Client, PeerRole};

impl SimProcess {
    pub(crate) fn enter_state(&mut self, state: SimProcessState) {
        self.state = state;
        self.done.fill(false);
        for server in 0..self.done.len() {
            self.send_goodbye(server);
        }
    }

    pub(crate) fn send_goodbye(&mut self, server: usize) {
        let goes = matches!(self.state, SimProcessState::Leaving | SimProcessState::Releasing);
        if goes && server == 0 && self.done[1..].contains(&false) {
            return;
        }
        let frame: TestFrame = match self.state {
            SimProcessState::Leaving | SimProcessState::AwaitingEnd => {
                Client::leave(format!("report of {}", self.slot).into_bytes()).into()
            }
            SimProcessState::Releasing => {
                Client::release(format!("report of {}", self.slot).into_bytes()).into()
            }
            SimProcessState::Collecting => Client::collect().into(),
            SimProcessState::Finishing => Client::finish().into(),
            _ => return,
        };
        let TestFrame { header, payload: bytes } = frame;
        self.actions.push(ProcessAction::Send { server, header, bytes });
    }

    pub(crate) fn count(&mut self, server: usize) {
        self.done[server] = true;
        if !self.done[0] && server > 0 && !self.done[1..].contains(&false) {
            // Server 0 hears it last, so that what it knows holds everywhere.
            self.send_goodbye(0);
        }
        if self.done.contains(&false) {
            return;
        }
        match self.state {
            SimProcessState::Leaving if self.slot == 0 => {
                self.enter_state(SimProcessState::Collecting)
            }
            SimProcessState::Collecting => self.state = SimProcessState::Refreshing,
            SimProcessState::Leaving => self.state = SimProcessState::AwaitingEnd,
            SimProcessState::Releasing | SimProcessState::Finishing => {
                self.state = SimProcessState::Exited { well: true }
            }
            _ => {}
        }
    }

    /// A server cannot be reached because it has ended.
    pub(crate) fn server_ended(&mut self, server: usize) {
        use SimProcessState::{AwaitingEnd, Finishing, Leaving};
        let is_out = matches!(self.state, Leaving | AwaitingEnd) || self.is_on_roster;
        // With a roster, another process has the slot and was quicker.
        if is_out && self.slot > 0 || self.role == PeerRole::Evaluator {
            self.state = SimProcessState::Exited { well: true };
        } else if matches!(self.state, Leaving | Finishing) {
            self.count(server);
            // No connection is left for the frames that follow.
            self.actions.clear();
        } else {
            self.abort(format!("ps:{server} has ended"));
        }
    }
}
