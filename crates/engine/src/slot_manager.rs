//! The main thread of a worker process in a run with servers: it fills slots as server 0 offers
//! them.
//!
//! A slot is a share of every step, not a process. Each slot has its own thread and connections;
//! the process holds the data once. The slot manager starts a thread for each offered slot, gives
//! slots back when asked, and leaves the run cleanly. `slot_thread.rs` has what happens in a slot.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use paceline_exchange::{Enrolment, ProcessName, RosterEvent};
use paceline_net::RosterConnection;

use crate::checkpoint::layout_digest;
use crate::context::NoteLevel;
use crate::error::TrainError;
use crate::link_observers::WaitObserver;
use crate::process_state::ProcessState;
use crate::run_report::RunReport;
use crate::slot_thread::{SlotAssignment, SlotEnd};
use crate::task_place::incarnation;
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
    gives_up: &dyn Fn() -> bool,
) -> Result<RosterConnection, TrainError> {
    let servers = &task.place.servers;
    let enrolment = Enrolment {
        process,
        home: task.place.slot,
        job: task.settings.job.clone(),
        layout_digest: layout_digest(task.workload.small_model()?.layout()),
        servers: servers.len(),
        wire: task.settings.wire,
        was_enrolled: false,
    };
    let notify = |text: &str| task.context.waiting(Some(text));
    let observer = &mut WaitObserver { notify: &notify, should_give_up: Some(gives_up) };
    let (credentials, limit) = (task.place.credentials.clone(), task.settings.timeouts.start);
    Ok(RosterConnection::enrol(enrolment, credentials, servers, limit, observer)?)
}

/// What the thread of a slot does, until the slot is left.
pub(crate) type FillSlot<'a> = dyn Fn(&SlotAssignment) -> Result<SlotEnd, TrainError> + Sync + 'a;

/// Fills slots until the run is over or this process leaves: calls `fill` for each slot that server
/// 0 offers, on a separate thread. Only the coordinator returns a report.
pub(crate) fn fill_slots(
    task: &TrainingTask<'_>,
    roster: RosterConnection,
    process: &ProcessState,
    fill: &FillSlot<'_>,
) -> Result<Option<RunReport>, TrainError> {
    let is_coordinator = task.is_coordinator();
    thread::scope(|scope| {
        let _halt = HaltAtEnd(process);
        let (ended, ends) = mpsc::channel();
        let mut manager = SlotManager {
            task,
            process,
            fill,
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
        loop {
            match manager.roster.next_call(CHECK_EVERY)? {
                Some(RosterEvent::Offer { slot, above_incarnation }) => {
                    manager.start_slot(slot, above_incarnation)?;
                }
                Some(event) => manager.handle(event)?,
                None => {}
            }
            while let Ok(ThreadEnd { slot, result }) = ends.try_recv() {
                manager.slots.retain(|active| active.slot != slot);
                match result.unwrap_or_else(|panic| resume_unwind(panic))? {
                    SlotEnd::Left => manager.has_left = true,
                    SlotEnd::GivenUp => manager.idle_since = Instant::now(),
                    SlotEnd::Finished(report) => return Ok(Some(*report)),
                }
            }
            if !manager.is_leaving && !is_coordinator && task.context.should_leave() {
                manager.leave();
            }
            let may_end = manager.is_leaving || manager.is_over || manager.has_left;
            if manager.slots.is_empty() && may_end && !is_coordinator {
                return Ok(None);
            }
            manager.check_idle()?;
        }
    })
}

/// Drops all slots when the manager ends, however it ends: the remaining threads end at their next
/// step or wait.
struct HaltAtEnd<'a>(&'a ProcessState);

impl Drop for HaltAtEnd<'_> {
    fn drop(&mut self) {
        self.0.halt();
    }
}

/// The end of a slot's thread.
struct ThreadEnd {
    slot: usize,
    /// Or the panic that ended it, which the manager passes on.
    result: thread::Result<Result<SlotEnd, TrainError>>,
}

struct SlotManager<'s, 'e, 'p> {
    task: &'p TrainingTask<'p>,
    process: &'p ProcessState,
    fill: &'p FillSlot<'p>,
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
    fn handle(&mut self, event: RosterEvent) -> Result<(), TrainError> {
        match event {
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
            RosterEvent::Abort(_)
            | RosterEvent::Refused(_)
            | RosterEvent::Enrolled(_)
            | RosterEvent::Offer { .. } => {}
        }
        Ok(())
    }

    /// Starts a thread for a slot that server 0 offers, unless this process fills it already.
    fn start_slot(&mut self, slot: usize, above_incarnation: u64) -> Result<(), TrainError> {
        let is_filled = self.slots.iter().any(|active| active.slot == slot);
        if self.is_leaving || is_filled || slot >= self.task.place.slots {
            return Ok(());
        }
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
        let fill = self.fill;
        let (ended, waker) = (self.ended.clone(), self.roster.waker());
        let work = move || {
            let result = catch_unwind(AssertUnwindSafe(|| fill(&assignment)));
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
        let text = "leaves the run cleanly; its slots go to other workers";
        self.task.note(NoteLevel::Warning, text);
        self.slots.iter().for_each(|active| active.recalled.store(true, Ordering::Relaxed));
    }

    /// Says periodically that this process waits for a slot; gives up if server 0 is gone.
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
