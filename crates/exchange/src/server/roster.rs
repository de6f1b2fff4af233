//! The roster: the processes that can fill slots.

use crate::{ConnId, Hello, MAX_WORKERS, ProcessName};

/// Processes that may be on the roster at a time. Those that the run began with have places of
/// their own among them, which no other process takes.
pub(super) const MAX_PROCESSES: usize = MAX_WORKERS;

/// Numbers in names from here on are not counted, so that one cannot use up all numbers.
const MAX_NUMBER: usize = 1 << 31;

/// The processes that can fill slots.
#[derive(Debug, Default)]
pub(super) struct Roster {
    /// In the order in which they enrolled.
    pub(super) processes: Vec<EnrolledProcess>,
    /// The process that was asked to give back a slot.
    pub(super) yielding: Option<YieldRequest>,
    /// The number in the name of the next process that has no name.
    next_index: usize,
    /// When the first process enrolled.
    pub(super) opened_ms: Option<u64>,
}

/// One process on the roster.
#[derive(Debug)]
pub(super) struct EnrolledProcess {
    pub(super) id: u64,
    pub(super) name: String,
    /// Its index among the processes that the run began with.
    pub(super) home: Option<usize>,
    pub(super) conn: ConnId,
    /// It let an offer expire, so other processes are asked first.
    pub(super) passed: bool,
    /// It has been on the run's roster before and may return with slots.
    pub(super) was_enrolled: bool,
}

/// A process that was asked to give back a slot, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct YieldRequest {
    pub(super) process: u64,
    pub(super) since_ms: u64,
}

impl Roster {
    /// The processes that have joined, without those that this one replaces.
    pub(super) fn others(&self, hello: &Hello) -> usize {
        let ProcessName { id, name } = &hello.process;
        let is_other = |process: &&EnrolledProcess| {
            process.home.is_none() && process.id != *id && process.name != *name
        };
        self.processes.iter().filter(is_other).count()
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.processes.iter().any(|process| process.id == id)
    }

    /// Whether a newer process has this home.
    pub(super) fn is_superseded(&self, home: usize, id: u64) -> bool {
        self.processes.iter().any(|process| process.home == Some(home) && process.id > id)
    }

    /// A process will not give back a slot any more, or has just done so.
    pub(super) fn clear_yield(&mut self, process: u64) {
        self.yielding = self.yielding.filter(|request| request.process != process);
    }

    /// The name of a process: its own, or a new one that no other process has had.
    pub(super) fn name_for(&mut self, hello: &Hello, processes: usize) -> String {
        let own = &hello.process.name;
        let number = own.rsplit_once(':').and_then(|(_, number)| number.parse::<usize>().ok());
        let taken = number.filter(|&number| number < MAX_NUMBER).map_or(0, |number| number + 1);
        self.next_index = self.next_index.max(processes).max(taken);
        if !own.is_empty() {
            return own.clone();
        }
        self.next_index += 1;
        format!("worker:{}", self.next_index - 1)
    }
}
