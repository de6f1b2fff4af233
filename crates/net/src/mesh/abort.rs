//! How a worker fails: it finds the cause, and tells the others before it exits.
//!
//! When one worker dies, all others lose it, and each would then also lose those that exit before
//! it. The first worker that fails therefore sends the cause, and waits a moment until the others
//! have received it.

use std::thread;
use std::time::{Duration, Instant};

use paceline_exchange::{Header, Replica, StepMemory, WholeGradient};

use super::fault::MeshFault;
use super::state::Mesh;
use crate::error::LinkError;
use crate::observer::LinkObserver;

/// How long the last frames may take.
pub(super) const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);
/// How often sockets are tried meanwhile.
pub(super) const TRY_EVERY: Duration = Duration::from_millis(2);

impl Mesh {
    /// Tells all workers that are still connected what is wrong, and returns it.
    pub(super) fn give_up(&mut self, fault: MeshFault, memory: &dyn StepMemory) -> LinkError {
        let error = match fault {
            MeshFault::Failed(error) => error,
            MeshFault::Lost { slot, why } => self.find_cause(slot, why),
        };
        self.fail(error, memory)
    }

    /// Tells all workers that are still connected about an error, unless they know.
    pub(super) fn fail(&mut self, error: LinkError, memory: &dyn StepMemory) -> LinkError {
        match error {
            LinkError::CutShort if self.replica.slot() == 0 => self.cut_short_with(memory),
            LinkError::CutShort => self.give_up_step(memory),
            _ => self.send_abort(&error.to_string(), memory),
        }
        error
    }

    /// Finds out why a worker is lost: a worker that exits because of another one says so first.
    pub(super) fn find_cause(&mut self, slot: usize, why: String) -> LinkError {
        // That other workers are gone as well may become visible only now.
        let _ = self.poll(Duration::ZERO);
        let mut lost = vec![slot];
        for other in self.replica.others() {
            let Some(connection) = &mut self.peers[other].connection else { continue };
            if other != slot && !connection.has_ended {
                continue;
            }
            if let Some(cause) = connection.read_abort_reason() {
                return cause;
            }
            if other != slot && connection.is_closed && self.replica.needs(other) {
                lost.push(other);
            }
        }
        lost.sort_unstable();
        let names: Vec<_> = lost.iter().map(|&slot| self.replica.name(slot)).collect();
        let addresses: Vec<_> =
            lost.iter().map(|&slot| self.config.addresses[slot].as_str()).collect();
        LinkError::Lost { task: names.join(" and "), address: addresses.join(", "), why }
    }

    /// Tells all others why this worker ends.
    pub(super) fn send_abort(&mut self, why: &str, memory: &dyn StepMemory) {
        let abort = Replica::abort(why);
        self.send_last(&abort.header, &abort.body, memory);
    }

    /// Coordinator only, in a run that recovers, once everything is on disk: dismisses all workers.
    pub fn finish(&mut self, observer: &mut impl LinkObserver) {
        let has_dismissed = !self.replica.recovers() || self.replica.is_cut_short();
        if has_dismissed || self.replica.slot() != 0 {
            return;
        }
        // A worker that has just lost its connection may be about to come back.
        let deadline = Instant::now() + FAREWELL_TIMEOUT;
        while Instant::now() < deadline {
            self.forget_lost();
            let _ = self.accept(observer);
            if self.replica.others().all(|slot| self.peers[slot].connection.is_some()) {
                break;
            }
            let _ = self.poll(TRY_EVERY);
        }
        self.send_last(&Replica::bye(), &[], &WholeGradient::none());
    }

    /// Sends a last control frame on all connections and closes them. A frame that has been sent
    /// in part is finished first.
    fn send_last(&mut self, header: &Header, body: &[u8], memory: &dyn StepMemory) {
        let mut open: Vec<_> =
            self.peers.iter_mut().filter_map(|peer| peer.connection.take()).collect();
        open.retain(|connection| !connection.has_ended);
        let mut is_sent = vec![false; open.len()];
        let deadline = Instant::now() + FAREWELL_TIMEOUT;
        while !open.is_empty() && Instant::now() < deadline {
            for (connection, is_sent) in open.iter_mut().zip(&mut is_sent) {
                if !*is_sent {
                    match connection.send_last(header, body, &mut self.replica, memory) {
                        Ok(sent) => *is_sent = sent,
                        Err(_) => connection.is_closed = true,
                    }
                }
                // Two workers that only write would fill each other's buffers and both wait.
                let _ = connection.read_abort_reason();
            }
            let mut keep = open.iter().map(|connection| !connection.is_closed);
            is_sent.retain(|_| keep.next().unwrap_or_default());
            open.retain(|connection| !connection.is_closed);
            thread::sleep(TRY_EVERY);
        }
    }
}
