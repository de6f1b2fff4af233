//! The reports of processes: one for each slot that each of them has filled.
//!
//! Every report covers everything that its process has done, so the last one for a slot replaces
//! those before it.

use crate::{MAX_REPORTS_BYTES, TaskReport};

/// Bytes of reports that are kept; older reports make room. A client accepts twice as many.
const MAX_KEPT_BYTES: usize = MAX_REPORTS_BYTES / 2;

/// The reports of a run, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Reports(Vec<SlotReport>);

#[derive(Debug)]
struct SlotReport {
    process: u64,
    slot: usize,
    bytes: Vec<u8>,
}

impl Reports {
    /// Keeps the report of a process on a slot in place of the one before.
    pub(crate) fn put(&mut self, process: u64, slot: usize, report: &[u8]) {
        self.0.retain(|kept| (kept.process, kept.slot) != (process, slot));
        self.0.push(SlotReport { process, slot, bytes: report.to_vec() });
        let mut total: usize = self.0.iter().map(|kept| kept.bytes.len()).sum();
        while total > MAX_KEPT_BYTES && self.0.len() > 1 {
            total -= self.0.remove(0).bytes.len();
        }
    }

    /// All reports, ordered by slot.
    pub(crate) fn list(&self) -> Vec<TaskReport> {
        let report = |kept: &SlotReport| TaskReport {
            slot: Some(kept.slot as u32),
            bytes: kept.bytes.clone(),
        };
        let mut list: Vec<_> = self.0.iter().map(report).collect();
        list.sort_by_key(|report| report.slot);
        list
    }
}
