//! What the threads of a worker process share: its name, its reports, and whether it must end.
//!
//! A report covers the process, not a slot: every report states everything the process has done so
//! far, so that the coordinator needs only the last one of each process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use paceline_exchange::ProcessName;
use paceline_observe::{TaskSummary, process};

/// What the threads of a process share.
pub(crate) struct ProcessState {
    pub(crate) process: ProcessName,
    /// All slots must be dropped at once: one has failed, or the run is over.
    halted: AtomicBool,
    /// Some slot has been in the run: from then on a process that leaves gives its slots back.
    has_started: AtomicBool,
    reports: Mutex<ProcessReports>,
}

/// What a process has done in all its slots.
#[derive(Default)]
struct ProcessReports {
    started: Option<Instant>,
    /// How many slots it has reported on.
    slot_count: usize,
    /// The sum over slots it no longer fills.
    past: TaskSummary,
    /// The last report of each slot it fills. After a rewind a slot reports everything again.
    present: BTreeMap<usize, TaskSummary>,
}

impl ProcessState {
    /// The state of a process that fills no slot yet.
    pub(crate) fn new(process: ProcessName) -> Self {
        Self {
            process,
            halted: AtomicBool::new(false),
            has_started: AtomicBool::new(false),
            reports: Mutex::default(),
        }
    }

    /// Whether all slots must be dropped.
    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Relaxed)
    }

    /// Drops all slots, at their next step or wait.
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::Relaxed);
    }

    /// Whether some slot has been in the run.
    pub(crate) fn has_started(&self) -> bool {
        self.has_started.load(Ordering::Relaxed)
    }

    /// A slot has joined the run.
    pub(crate) fn set_started(&self) {
        self.has_started.store(true, Ordering::Relaxed);
    }

    fn reports(&self) -> MutexGuard<'_, ProcessReports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot starts to train.
    pub(crate) fn start_clock(&self) {
        self.reports().started.get_or_insert_with(Instant::now);
    }

    /// The process no longer fills a slot.
    pub(crate) fn close_slot(&self, slot: usize) {
        let mut reports = self.reports();
        if let Some(report) = reports.present.remove(&slot) {
            reports.past.absorb(&report);
        }
    }

    /// Takes the report of a slot, and returns what the process has done in all slots so far. If
    /// it fills several slots at once, phases are their average.
    pub(crate) fn combine(&self, slot: usize, report: &TaskSummary) -> TaskSummary {
        let mut reports = self.reports();
        let is_new = reports.present.insert(slot, report.clone()).is_none();
        reports.slot_count += usize::from(is_new);
        let mut total = reports.past.clone();
        reports.present.values().for_each(|report| total.absorb(report));
        if reports.slot_count > 1 {
            let seconds = reports.started.map_or(0.0, |started| started.elapsed().as_secs_f64());
            total.scale_phases(seconds / total.seconds.max(f64::MIN_POSITIVE));
            total.seconds = seconds;
        }
        total.task.clone_from(&report.task);
        total.resources = report.resources.clone().or(total.resources);
        total.process = self.process.id;
        total.cpu_seconds = process::cpu_seconds();
        total.peak_rss_bytes = process::peak_rss_bytes();
        total.peak_pss_bytes = process::peak_pss_bytes();
        total
    }
}
