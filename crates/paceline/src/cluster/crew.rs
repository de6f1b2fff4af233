//! A worker process: fills slots, one or many, as server 0 calls it to.
//!
//! A slot is a share of every step, and not a process. Each slot that a process fills has a thread
//! and connections of its own; the data is there once. This file is the process's own thread: it
//! starts a thread for each slot that is offered, has one given back when asked, and leaves in
//! good order. What is done in a slot is in `slot.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use paceline_exchange::{Enrolment, ProcessName, RosterEvent};
use paceline_model::Layout;
use paceline_net::RosterConnection;

use super::attendants::Waiter;
use super::calling::{incarnation, layout_digest};
use super::part::Part;
use super::shared::Shared;
use super::slot::Shift;
use crate::Failure;
use crate::train::Finished;

/// How often is looked whether this process is to leave.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often somebody who waits for a slot says so.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// How a slot was left.
pub(super) enum Ended {
    /// Its plan is through, or the run is stopping.
    Left,
    /// It was given back, or another process has it.
    GivenUp,
    /// It was the chief's, and the run is over.
    Finished(Box<Finished>),
}

/// A slot that this process fills.
struct Seat {
    slot: usize,
    called_back: Arc<AtomicBool>,
    /// It writes the process's events.
    has_board: bool,
}

/// Puts a process on the roster of a run. Without a name it is given one.
pub(super) fn enrol(
    part: &Part<'_>,
    process: ProcessName,
    layout: &Layout,
    waiter: &mut Waiter<'_>,
) -> Result<RosterConnection, Failure> {
    let servers = part.servers()?;
    let enrolment = Enrolment {
        process,
        home: part.home,
        job_digest: part.job.digest(),
        layout_digest: layout_digest(layout),
        token: part.token.clone(),
        servers: servers.len(),
        was_enrolled: false,
    };
    Ok(RosterConnection::enrol(enrolment, &servers, part.plan.cluster.start_timeout, waiter)?)
}

/// The number by which servers know this process: higher for every later one.
pub(super) fn process_id() -> u64 {
    incarnation() << 8 | u64::from(std::process::id() & 0xff)
}

/// Fills slots until the run is over, or this process is to leave. The chief has a result.
pub(super) fn run(
    part: &Part<'_>,
    roster: RosterConnection,
    shared: &Shared<'_>,
    leaves: &dyn Fn() -> bool,
) -> Result<Option<Finished>, Failure> {
    thread::scope(|scope| {
        let (ended, ends) = mpsc::channel();
        let mut crew = Crew {
            part,
            shared,
            scope,
            roster,
            ended,
            seats: Vec::new(),
            has_left: false,
            is_leaving: false,
            is_over: false,
            idle_since: Instant::now(),
            told: None,
        };
        let result = crew.work(&ends, leaves);
        // What other threads there are end at their next step or wait.
        shared.halt();
        result
    })
}

struct Crew<'s, 'e, 'p> {
    part: &'p Part<'p>,
    shared: &'p Shared<'p>,
    scope: &'s Scope<'s, 'e>,
    roster: RosterConnection,
    ended: mpsc::Sender<(usize, Result<Ended, Failure>)>,
    seats: Vec<Seat>,
    /// Some slot's plan is through.
    has_left: bool,
    is_leaving: bool,
    is_over: bool,
    idle_since: Instant,
    told: Option<Instant>,
}

impl<'s, 'e, 'p: 's> Crew<'s, 'e, 'p> {
    fn work(
        &mut self,
        ends: &mpsc::Receiver<(usize, Result<Ended, Failure>)>,
        leaves: &dyn Fn() -> bool,
    ) -> Result<Option<Finished>, Failure> {
        loop {
            if let Some(call) = self.roster.next_call(LOOK_EVERY)? {
                self.answer(call)?;
            }
            while let Ok((slot, result)) = ends.try_recv() {
                self.seats.retain(|seat| seat.slot != slot);
                match result? {
                    Ended::Left => self.has_left = true,
                    Ended::GivenUp => self.idle_since = Instant::now(),
                    Ended::Finished(finished) => return Ok(Some(*finished)),
                }
            }
            if !self.is_leaving && self.part.home != Some(0) && leaves() {
                self.leave();
            }
            let may_end = self.is_leaving || self.is_over || self.has_left;
            if self.seats.is_empty() && may_end && self.part.home != Some(0) {
                return Ok(None);
            }
            self.look_at_idleness()?;
        }
    }

    fn answer(&mut self, call: RosterEvent) -> Result<(), Failure> {
        match call {
            RosterEvent::Offer { slot, above_incarnation } => {
                let is_filled = self.seats.iter().any(|seat| seat.slot == slot);
                if !self.is_leaving && !is_filled && slot < self.part.slots {
                    self.fill(slot, above_incarnation)?;
                }
            }
            RosterEvent::Yield => self.yield_one(),
            RosterEvent::Bye => {
                // All slots have been left: who still comes for one was offered it twice.
                self.is_over = true;
                self.shared.halt();
            }
            // Who fills a slot hears it there too, and ends by it.
            RosterEvent::Abort(why) if self.seats.is_empty() => return Err(Failure::Lost(why)),
            RosterEvent::Refused(refusal) if self.seats.is_empty() => {
                return Err(Failure::Lost(refusal.text));
            }
            RosterEvent::Abort(_) | RosterEvent::Refused(_) | RosterEvent::Enrolled(_) => {}
        }
        Ok(())
    }

    /// Starts a thread for a slot.
    fn fill(&mut self, slot: usize, above_incarnation: u64) -> Result<(), Failure> {
        let called_back = Arc::new(AtomicBool::new(false));
        // The chief's own slot tells of its tests and keeps the process's events.
        let has_board = match self.part.home {
            Some(0) => slot == 0,
            _ => !self.seats.iter().any(|seat| seat.has_board),
        };
        let shift = Shift {
            slot,
            incarnation: incarnation().max(above_incarnation.saturating_add(1)),
            threads_among: self.seats.len() + 1,
            called_back: called_back.clone(),
            has_board,
        };
        if self.told.take().is_some() {
            self.shared.log.info(&format!("fills slot {slot}"));
        }
        let (part, shared) = (self.part, self.shared);
        let (ended, waker) = (self.ended.clone(), self.roster.waker());
        let work = move || {
            let result = part.fill(&shift, shared);
            // If nobody listens any more, another slot has failed before.
            let _ = ended.send((shift.slot, result));
            let _ = waker.wake();
        };
        let cannot = |source| Failure::Files { what: "cannot start a thread".into(), source };
        let name = format!("slot {slot}");
        thread::Builder::new().name(name).spawn_scoped(self.scope, work).map_err(cannot)?;
        self.seats.push(Seat { slot, called_back, has_board });
        Ok(())
    }

    /// Gives one slot back: the newest, but neither the chief's nor the last.
    fn yield_one(&mut self) {
        let is_free = |seat: &&Seat| seat.slot != 0 && !seat.called_back.load(Ordering::Relaxed);
        let plain = self.seats.iter().rev().filter(is_free).find(|seat| !seat.has_board);
        if let Some(seat) = plain.filter(|_| self.seats.len() > 1) {
            self.shared.log.info(&format!("gives slot {} back for another process", seat.slot));
            seat.called_back.store(true, Ordering::Relaxed);
        }
    }

    /// Takes nothing more, and gives all slots back.
    fn leave(&mut self) {
        self.is_leaving = true;
        self.roster.close();
        self.shared.log.warn("leaves the run in good order; its slots go to others");
        self.seats.iter().for_each(|seat| seat.called_back.store(true, Ordering::Relaxed));
    }

    /// Says now and then that this process waits for a slot; gives up if server 0 is gone.
    fn look_at_idleness(&mut self) -> Result<(), Failure> {
        if !self.seats.is_empty() || self.is_leaving {
            self.idle_since = Instant::now();
            return Ok(());
        }
        if self.part.is_late() {
            self.is_over = true;
            return Ok(());
        }
        let cluster = &self.part.plan.cluster;
        let limit = cluster.start_timeout.max(cluster.rejoin_timeout);
        if let Some((lost, why)) = self.roster.lost()
            && lost >= limit
        {
            return Err(Failure::Lost(format!("waited {} s for server 0: {why}", lost.as_secs())));
        }
        let waited = self.idle_since.elapsed();
        if waited < TELL_EVERY / 10 || self.told.is_some_and(|told| told.elapsed() < TELL_EVERY) {
            return Ok(());
        }
        let text = format!(
            "waits for a slot, as a spare: all {} are filled ({} s)",
            self.part.slots,
            waited.as_secs()
        );
        match self.told.replace(Instant::now()) {
            None => self.shared.log.warn(&text),
            Some(_) => self.shared.log.info(&text),
        }
        Ok(())
    }
}
