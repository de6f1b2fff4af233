//! What the threads of a worker process share: its log, its books, and whether it is to end.
//!
//! The books are of the process, not of a slot: every report tells all that the process has done
//! until then, so that whoever gathers reports needs the last one of each process only.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use paceline_exchange::ProcessName;
use paceline_observe::process;

use paceline_record::TaskLog;
use paceline_record::TaskSummary;

/// What the threads of a process share.
pub(super) struct Shared<'a> {
    pub(super) log: Arc<TaskLog>,
    pub(super) process: ProcessName,
    /// All slots are to be dropped as they are: one has failed, or the run is over.
    halted: AtomicBool,
    /// Some slot has been in the run: from then on who wants to leave gives slots back.
    pub(super) has_started: AtomicBool,
    books: Mutex<Books>,
    pub(super) interrupted: &'a (dyn Fn() -> Option<i32> + Sync),
}

/// What a process has done in all its slots.
#[derive(Default)]
struct Books {
    began: Option<Instant>,
    /// How many slots it has told of.
    seats: usize,
    /// What was done in slots that it fills no more.
    past: TaskSummary,
    /// What was told last of those that it still fills. One that goes back to a checkpoint with the
    /// run tells of all of it once more.
    present: BTreeMap<usize, TaskSummary>,
}

impl<'a> Shared<'a> {
    /// What the threads of a process begin with.
    pub(super) fn new(
        log: Arc<TaskLog>,
        process: ProcessName,
        interrupted: &'a (dyn Fn() -> Option<i32> + Sync),
    ) -> Self {
        Self {
            log,
            process,
            halted: AtomicBool::new(false),
            has_started: AtomicBool::new(false),
            books: Mutex::default(),
            interrupted,
        }
    }

    /// Whether everything is to be dropped.
    pub(super) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Relaxed)
    }

    /// Has all slots dropped as they are, at their next step or wait.
    pub(super) fn halt(&self) {
        self.halted.store(true, Ordering::Relaxed);
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot begins to be filled.
    pub(super) fn open_books(&self) {
        self.books().began.get_or_insert_with(Instant::now);
    }

    /// A slot is filled no more.
    pub(super) fn close_books(&self, slot: usize) {
        let mut books = self.books();
        if let Some(seat) = books.present.remove(&slot) {
            books.past.absorb(&seat);
        }
    }

    /// Takes note of what was done in a slot, all told; gives what the process has done in all of them so far. Of
    /// several threads at a time, phases are the average.
    pub(super) fn add(&self, slot: usize, seat: &TaskSummary) -> TaskSummary {
        let mut books = self.books();
        books.seats += usize::from(books.present.insert(slot, seat.clone()).is_none());
        let mut report = books.past.clone();
        books.present.values().for_each(|seat| report.absorb(seat));
        if books.seats > 1 {
            let seconds = books.began.map_or(0.0, |began| began.elapsed().as_secs_f64());
            report.scale_phases(seconds / report.seconds.max(f64::MIN_POSITIVE));
            report.seconds = seconds;
        }
        report.task.clone_from(&seat.task);
        report.resources = seat.resources.clone().or(report.resources);
        report.process = self.process.id;
        report.cpu_seconds = process::cpu_seconds();
        report.peak_rss_bytes = process::peak_rss_bytes();
        report
    }
}
