//! What processes left behind: a report for each slot that each of them has filled.
//!
//! A process tells all that it did in every report, so the last one of a slot stands for those
//! before it.

/// The most bytes that are kept; older ones make room. A client takes lists of twice as many.
const MOST_BYTES: usize = crate::MAX_REPORTS_BYTES / 2;

/// The reports of a run.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// Process, slot and report, the oldest first.
    kept: Vec<(u64, usize, Vec<u8>)>,
}

impl Reports {
    /// Keeps the report of a process on a slot, in place of the one before.
    pub(crate) fn put(&mut self, process: u64, slot: usize, report: &[u8]) {
        self.kept.retain(|(whose, of, _)| (*whose, *of) != (process, slot));
        self.kept.push((process, slot, report.to_vec()));
        let mut bytes: usize = self.kept.iter().map(|(_, _, report)| report.len()).sum();
        while bytes > MOST_BYTES && self.kept.len() > 1 {
            bytes -= self.kept.remove(0).2.len();
        }
    }

    /// All of them, by slot.
    pub(crate) fn list(&self) -> Vec<crate::TaskReport> {
        let report = |(_, slot, bytes): &(u64, usize, Vec<u8>)| crate::TaskReport {
            slot: Some(*slot as u32),
            bytes: bytes.clone(),
        };
        let mut list: Vec<_> = self.kept.iter().map(report).collect();
        list.sort_by_key(|report| report.slot);
        list
    }
}
