//! The main thread of a worker process in a run with servers: it fills slots as server 0 offers
//! them.
//!
//! A slot is a share of every step, not a process. Each slot has its own thread and connections;
//! the process holds the data once. The slot manager says which slot to fill next, has slots
//! given back when asked, and leaves the run cleanly. `worker_process.rs` starts the threads, and
//! `slot_thread.rs` has what happens in a slot.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
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
use crate::task_place::{incarnation, process_id};
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

/// A worker process that server 0 has enrolled.
pub struct EnrolledWorker {
    pub(crate) process: ProcessName,
    pub(crate) roster: RosterConnection,
}

impl EnrolledWorker {
    /// Enrols a process with server 0, by the name of its place. A process without a name receives
    /// one.
    ///
    /// # Errors
    /// If server 0 cannot be reached or refuses the process, or the context says to stop.
    pub fn enrol(task: &TrainingTask<'_>) -> Result<Self, TrainError> {
        let servers = &task.place.servers;
        let id = process_id();
        let enrolment = Enrolment {
            process: ProcessName { id, name: task.place.name.clone() },
            home: task.place.slot,
            job: task.settings.job.clone(),
            layout_digest: layout_digest(task.workload.small_model()?.layout()),
            servers: servers.len(),
            wire: task.settings.wire,
            was_enrolled: false,
        };
        let notify = |text: &str| task.context.waiting(Some(text));
        let gives_up = || task.context.stop_signal().is_some() || task.is_late();
        let observer = &mut WaitObserver { notify: &notify, should_give_up: Some(&gives_up) };
        let (credentials, limit) = (task.place.credentials.clone(), task.settings.timeouts.start);
        let roster = RosterConnection::enrol(enrolment, credentials, servers, limit, observer)?;
        let process = ProcessName { id, name: roster.name().to_owned() };
        Ok(Self { process, roster })
    }

    /// The process's name, such as `worker:3`.
    pub fn name(&self) -> &str {
        &self.process.name
    }
}

/// What a worker process does next.
pub(crate) enum NextSlot {
    /// Fills a slot, on a thread of its own that says how it ends.
    Fill(SlotAssignment, SlotEnding),
    /// Ends. Only the coordinator has a report.
    End(Option<Box<RunReport>>),
}

/// Tells the slot manager how the thread of a slot has ended.
pub(crate) struct SlotEnding {
    slot: usize,
    ended: mpsc::Sender<ThreadEnd>,
    /// Wakes the manager.
    wake: Box<dyn FnOnce() + Send>,
}

impl SlotEnding {
    /// `result` is how the thread has ended, or the panic that ended it.
    pub(crate) fn tell(self, result: thread::Result<Result<SlotEnd, TrainError>>) {
        // If the manager has ended, another slot has failed before.
        let _ = self.ended.send(ThreadEnd { slot: self.slot, result });
        (self.wake)();
    }
}

/// The end of a slot's thread.
struct ThreadEnd {
    slot: usize,
    /// Or the panic that ended it, which the manager passes on.
    result: thread::Result<Result<SlotEnd, TrainError>>,
}

/// Decides which slots a process fills. When it is dropped, all slots are: the remaining threads
/// end at their next step or wait.
pub(crate) struct SlotManager<'a> {
    task: &'a TrainingTask<'a>,
    process: &'a ProcessState,
    roster: RosterConnection,
    ended: mpsc::Sender<ThreadEnd>,
    ends: mpsc::Receiver<ThreadEnd>,
    slots: Vec<ActiveSlot>,
    /// The plan of some slot has ended.
    has_left: bool,
    is_leaving: bool,
    is_over: bool,
    idle_since: Instant,
    /// When the process last said that it waits for a slot.
    last_note: Option<Instant>,
}

impl Drop for SlotManager<'_> {
    fn drop(&mut self) {
        self.process.halt();
    }
}

impl<'a> SlotManager<'a> {
    /// The manager of a process that fills no slot yet.
    pub(crate) fn new(
        task: &'a TrainingTask<'a>,
        process: &'a ProcessState,
        roster: RosterConnection,
    ) -> Self {
        let (ended, ends) = mpsc::channel();
        Self {
            task,
            process,
            roster,
            ended,
            ends,
            slots: Vec::new(),
            has_left: false,
            is_leaving: false,
            is_over: false,
            idle_since: Instant::now(),
            last_note: None,
        }
    }

    /// Waits until this process has to fill another slot or to end.
    pub(crate) fn next_slot(&mut self) -> Result<NextSlot, TrainError> {
        let is_coordinator = self.task.is_coordinator();
        loop {
            let offered = match self.roster.next_call(CHECK_EVERY)? {
                Some(RosterEvent::Offer { slot, above_incarnation }) => {
                    self.assign(slot, above_incarnation)
                }
                Some(event) => self.handle(event).map(|()| None)?,
                None => None,
            };
            while let Ok(ThreadEnd { slot, result }) = self.ends.try_recv() {
                self.slots.retain(|active| active.slot != slot);
                match result.unwrap_or_else(|panic| resume_unwind(panic))? {
                    SlotEnd::Left => self.has_left = true,
                    SlotEnd::GivenUp => self.idle_since = Instant::now(),
                    SlotEnd::Finished(report) => return Ok(NextSlot::End(Some(report))),
                }
            }
            if !self.is_leaving && !is_coordinator && self.task.context.should_leave() {
                self.leave();
            }
            let may_end = self.is_leaving || self.is_over || self.has_left;
            if self.slots.is_empty() && may_end && !is_coordinator {
                return Ok(NextSlot::End(None));
            }
            self.check_idle()?;
            if let Some(assignment) = offered {
                let (slot, ended) = (assignment.slot, self.ended.clone());
                let waker = self.roster.waker();
                let wake = Box::new(move || drop(waker.wake()));
                let ending = SlotEnding { slot, ended, wake };
                return Ok(NextSlot::Fill(assignment, ending));
            }
        }
    }

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

    /// The assignment to a slot that server 0 offers, unless this process fills it already.
    fn assign(&mut self, slot: usize, above_incarnation: u64) -> Option<SlotAssignment> {
        let is_filled = self.slots.iter().any(|active| active.slot == slot);
        if self.is_leaving || is_filled || slot >= self.task.place.slots {
            return None;
        }
        let recalled = Arc::new(AtomicBool::new(false));
        // The coordinator's process records in slot 0, where its tests are.
        let records = if self.task.is_coordinator() {
            slot == 0
        } else {
            !self.slots.iter().any(|active| active.records)
        };
        if self.last_note.take().is_some() {
            self.task.note(NoteLevel::Info, &format!("fills slot {slot}"));
        }
        self.slots.push(ActiveSlot { slot, recalled: recalled.clone(), records });
        Some(SlotAssignment {
            slot,
            incarnation: incarnation().max(above_incarnation.saturating_add(1)),
            slots_here: self.slots.len(),
            recalled,
            records,
        })
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
