//! The main thread of a worker process in a run with servers: it fills slots as server 0 offers
//! them.
//!
//! A slot is a share of every step, not a process. Each slot has a thread and connections of its
//! own; the process holds the data once. The slot manager starts a thread for each offered slot,
//! gives slots back when asked, and leaves the run in order. `slot_thread.rs` has what happens in a
//! slot.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use paceline_exchange::{Enrolment, ProcessName, RosterEvent};
use paceline_model::Layout;
use paceline_net::RosterConnection;

use crate::context::NoteLevel;
use crate::error::TrainError;
use crate::link_observers::WaitObserver;
use crate::process_state::ProcessState;
use crate::run_report::RunReport;
use crate::slot_thread::{SlotAssignment, SlotEnd, fill_slot};
use crate::task_place::{incarnation, layout_digest};
use crate::training_task::TrainingTask;

/// How often the process checks whether it must leave.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// How often a process that waits for a slot says so.
const NOTE_EVERY: Duration = Duration::from_secs(10);

/// A slot that this process fills.
struct ActiveSlot {
    slot: usize,
    recalled: Arc<AtomicBool>,
    /// Its thread records for the process.
    records: bool,
}

/// Enrols a process with server 0. A process without a name receives one.
pub(crate) fn enrol(
    task: &TrainingTask<'_>,
    process: ProcessName,
    layout: &Layout,
    observer: &mut WaitObserver<'_>,
) -> Result<RosterConnection, TrainError> {
    let servers = &task.place.servers;
    let enrolment = Enrolment {
        process,
        home: task.place.slot,
        job_digest: task.settings.job_digest,
        layout_digest: layout_digest(layout),
        token: task.place.token.clone(),
        servers: servers.len(),
        was_enrolled: false,
    };
    Ok(RosterConnection::enrol(enrolment, servers, task.settings.timeouts.start, observer)?)
}

/// Fills slots until the run is over or this process leaves. Only the coordinator returns a report.
pub(crate) fn fill_slots(
    task: &TrainingTask<'_>,
    roster: RosterConnection,
    process: &ProcessState,
) -> Result<Option<RunReport>, TrainError> {
    thread::scope(|scope| {
        let (ended, ends) = mpsc::channel();
        let mut manager = SlotManager {
            task,
            process,
            scope,
            roster,
            ended,
            slots: Vec::new(),
            has_left: false,
            is_leaving: false,
            is_over: false,
            idle_since: Instant::now(),
            last_note: None,
        };
        let result = manager.run(&ends);
        // The remaining threads end at their next step or wait.
        process.halt();
        result
    })
}

/// The end of a slot's thread.
struct ThreadEnd {
    slot: usize,
    result: Result<SlotEnd, TrainError>,
}

struct SlotManager<'s, 'e, 'p> {
    task: &'p TrainingTask<'p>,
    process: &'p ProcessState,
    scope: &'s Scope<'s, 'e>,
    roster: RosterConnection,
    ended: mpsc::Sender<ThreadEnd>,
    slots: Vec<ActiveSlot>,
    /// The plan of some slot has ended.
    has_left: bool,
    is_leaving: bool,
    is_over: bool,
    idle_since: Instant,
    /// When the process last said that it waits for a slot.
    last_note: Option<Instant>,
}

impl<'s, 'e, 'p: 's> SlotManager<'s, 'e, 'p> {
    fn run(&mut self, ends: &mpsc::Receiver<ThreadEnd>) -> Result<Option<RunReport>, TrainError> {
        let is_coordinator = self.task.is_coordinator();
        loop {
            if let Some(event) = self.roster.next_call(CHECK_EVERY)? {
                self.handle(event)?;
            }
            while let Ok(ThreadEnd { slot, result }) = ends.try_recv() {
                self.slots.retain(|active| active.slot != slot);
                match result? {
                    SlotEnd::Left => self.has_left = true,
                    SlotEnd::GivenUp => self.idle_since = Instant::now(),
                    SlotEnd::Finished(report) => return Ok(Some(*report)),
                }
            }
            if !self.is_leaving && !is_coordinator && self.task.context.should_leave() {
                self.leave();
            }
            let may_end = self.is_leaving || self.is_over || self.has_left;
            if self.slots.is_empty() && may_end && !is_coordinator {
                return Ok(None);
            }
            self.check_idle()?;
        }
    }

    fn handle(&mut self, event: RosterEvent) -> Result<(), TrainError> {
        match event {
            RosterEvent::Offer { slot, above_incarnation } => {
                let is_filled = self.slots.iter().any(|active| active.slot == slot);
                if !self.is_leaving && !is_filled && slot < self.task.place.slots {
                    self.fill(slot, above_incarnation)?;
                }
            }
            RosterEvent::Yield => self.yield_one(),
            RosterEvent::Bye => {
                // All slots have been left: a thread that still connects was offered one twice.
                self.is_over = true;
                self.process.halt();
            }
            // A slot's thread hears it too, and ends with it.
            RosterEvent::Abort(why) if self.slots.is_empty() => return Err(TrainError::Lost(why)),
            RosterEvent::Refused(refusal) if self.slots.is_empty() => {
                return Err(TrainError::Lost(refusal.text));
            }
            RosterEvent::Abort(_) | RosterEvent::Refused(_) | RosterEvent::Enrolled(_) => {}
        }
        Ok(())
    }

    /// Starts a thread for a slot.
    fn fill(&mut self, slot: usize, above_incarnation: u64) -> Result<(), TrainError> {
        let recalled = Arc::new(AtomicBool::new(false));
        // The coordinator's process records in slot 0, where its tests are.
        let records = if self.task.is_coordinator() {
            slot == 0
        } else {
            !self.slots.iter().any(|active| active.records)
        };
        let assignment = SlotAssignment {
            slot,
            incarnation: incarnation().max(above_incarnation.saturating_add(1)),
            slots_here: self.slots.len() + 1,
            recalled: recalled.clone(),
            records,
        };
        if self.last_note.take().is_some() {
            self.task.note(NoteLevel::Info, &format!("fills slot {slot}"));
        }
        let (task, process) = (self.task, self.process);
        let (ended, waker) = (self.ended.clone(), self.roster.waker());
        let work = move || {
            let result = fill_slot(task, &assignment, process);
            // If the manager has ended, another slot has failed before.
            let _ = ended.send(ThreadEnd { slot: assignment.slot, result });
            let _ = waker.wake();
        };
        thread::Builder::new()
            .name(format!("slot {slot}"))
            .spawn_scoped(self.scope, work)
            .map_err(TrainError::while_doing("cannot start a thread"))?;
        self.slots.push(ActiveSlot { slot, recalled, records });
        Ok(())
    }

    /// Gives one slot back: the newest, but neither the coordinator's nor the last.
    fn yield_one(&mut self) {
        let is_free =
            |active: &&ActiveSlot| active.slot != 0 && !active.recalled.load(Ordering::Relaxed);
        let plain = self.slots.iter().rev().filter(is_free).find(|active| !active.records);
        if let Some(active) = plain.filter(|_| self.slots.len() > 1) {
            let text = format!("gives slot {} back for another process", active.slot);
            self.task.note(NoteLevel::Info, &text);
            active.recalled.store(true, Ordering::Relaxed);
        }
    }

    /// Accepts no further slots, and gives all back.
    fn leave(&mut self) {
        self.is_leaving = true;
        self.roster.close();
        let text = "leaves the run in good order; its slots go to other workers";
        self.task.note(NoteLevel::Warning, text);
        self.slots.iter().for_each(|active| active.recalled.store(true, Ordering::Relaxed));
    }

    /// Says now and then that this process waits for a slot; gives up if server 0 is gone.
    fn check_idle(&mut self) -> Result<(), TrainError> {
        if !self.slots.is_empty() || self.is_leaving {
            self.idle_since = Instant::now();
            return Ok(());
        }
        if self.task.is_late() {
            self.is_over = true;
            return Ok(());
        }
        let timeouts = self.task.settings.timeouts;
        let limit = timeouts.start.max(timeouts.rejoin);
        if let Some(loss) = self.roster.lost()
            && loss.elapsed >= limit
        {
            let (seconds, why) = (loss.elapsed.as_secs(), loss.why);
            return Err(TrainError::Lost(format!("waited {seconds} s for server 0: {why}")));
        }
        let waited = self.idle_since.elapsed();
        let is_recent = self.last_note.is_some_and(|noted| noted.elapsed() < NOTE_EVERY);
        if waited < NOTE_EVERY / 10 || is_recent {
            return Ok(());
        }
        let text = format!(
            "waits for a slot, as a spare: all {} are filled ({} s)",
            self.task.place.slots,
            waited.as_secs()
        );
        let is_first = self.last_note.replace(Instant::now()).is_none();
        self.task.note(if is_first { NoteLevel::Warning } else { NoteLevel::Info }, &text);
        Ok(())
    }
}
