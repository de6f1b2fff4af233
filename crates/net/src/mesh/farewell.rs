//! How a worker fails: it finds out who is to blame, and tells the others before it goes.
//!
//! When one worker dies, all others lose it, and each would then also lose those that have ended
//! before it. So whoever fails first says why, and waits a moment for the others to hear it.

use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use paceline_exchange::Replica;

use super::Mesh;
use super::connection::{Connection, Fault};
use crate::error::LinkError;
use crate::observer::LinkObserver;

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How often they are seen to.
const LOOK_EVERY: Duration = Duration::from_millis(2);

impl Mesh {
    /// Says what is wrong, to everybody who can still hear it, and to the caller.
    pub(super) fn give_up(&mut self, fault: Fault, gradient: &[f32]) -> LinkError {
        let error = match fault {
            Fault::Failed(error) => error,
            Fault::Lost { slot, why } => self.blame(slot, why),
        };
        self.say_goodbye(&error.to_string(), gradient);
        error
    }

    /// A peer is lost: because of whom?
    pub(super) fn blame(&mut self, slot: usize, why: String) -> LinkError {
        // Who has gone because of somebody else has said so. Who has gone before, is gone now.
        let _ = self.look(Duration::ZERO);
        let mut lost = vec![slot];
        for other in self.replica.others() {
            let Some(connection) = &mut self.peers[other].connection else { continue };
            if other != slot && !connection.has_ended {
                continue;
            }
            if let Some(cause) = connection.last_words() {
                return LinkError::Aborted(cause);
            }
            if other != slot && connection.is_closed && self.replica.needs(other) {
                lost.push(other);
            }
        }
        lost.sort_unstable();
        let names: Vec<_> = lost.iter().map(|&slot| self.replica.name(slot)).collect();
        let addresses: Vec<_> =
            lost.iter().map(|&slot| self.config.addresses[slot].as_str()).collect();
        LinkError::Lost { server: names.join(" and "), address: addresses.join(", "), why }
    }

    /// Tells all others why this worker ends.
    pub(super) fn say_goodbye(&mut self, why: &str, gradient: &[f32]) {
        let (header, body) = Replica::abort(why);
        self.say_last(&[&header.encode()[..], &body].concat(), gradient);
    }

    /// Coordinator only, in a run that recovers, once everything is on disk: releases all workers.
    pub fn finish(&mut self, observer: &mut impl LinkObserver) {
        if !self.replica.recovers() || self.replica.slot() != 0 {
            return;
        }
        // Who has lost the connection meanwhile may be on its way back.
        let until = Instant::now() + LAST_WORDS;
        while Instant::now() < until {
            self.forget_lost();
            let _ = self.let_in(observer);
            if self.replica.others().all(|slot| self.peers[slot].connection.is_some()) {
                break;
            }
            let _ = self.look(LOOK_EVERY);
        }
        self.say_last(&Replica::bye().encode(), &[]);
    }

    /// Says one more thing to everybody. A frame that has been begun is finished first.
    fn say_last(&mut self, frame: &[u8], gradient: &[f32]) {
        let mut open: Vec<_> =
            self.peers.iter_mut().filter_map(|peer| peer.connection.take()).collect();
        open.retain(|connection| !connection.has_ended);
        let mut told = vec![false; open.len()];
        let until = Instant::now() + LAST_WORDS;
        while !open.is_empty() && Instant::now() < until {
            for (connection, told) in open.iter_mut().zip(&mut told) {
                if let Err(_gone) = tell(connection, told, frame, &self.replica, gradient) {
                    connection.is_closed = true;
                }
                // Everybody hears everybody out, or nobody could finish speaking.
                let _ = connection.last_words();
            }
            let mut keep = open.iter().map(|connection| !connection.is_closed);
            told.retain(|_| keep.next().unwrap_or_default());
            open.retain(|connection| !connection.is_closed);
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// Goes on with the last words to one peer.
fn tell(
    connection: &mut Connection,
    told: &mut bool,
    frame: &[u8],
    replica: &Replica,
    gradient: &[f32],
) -> std::io::Result<()> {
    if *told || !connection.send_on(replica, gradient)? {
        return Ok(());
    }
    connection.send_last(frame)?;
    if connection.is_sent() {
        *told = true;
        connection.stream.shutdown(Shutdown::Write)?;
    }
    Ok(())
}
