//! Notes about strangers, which must not fill the log however many there are.

use std::time::{Duration, Instant};

/// How many notes are written in each period.
const MAX_NOTES: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);

/// Counts notes, and says which of them to write.
pub(super) struct StrangerNotes {
    since: Instant,
    written: u32,
    left_out: u64,
}

impl StrangerNotes {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, written: 0, left_out: 0 }
    }

    /// Whether to write one more note now.
    pub(super) fn may_write(&mut self, now: Instant) -> bool {
        if self.written < MAX_NOTES || now - self.since >= PERIOD && self.left_out == 0 {
            if now - self.since >= PERIOD {
                (self.since, self.written) = (now, 0);
            }
            self.written += 1;
            return true;
        }
        self.left_out += 1;
        false
    }

    /// A note about those that were left out, once their period is over.
    pub(super) fn summary(&mut self, now: Instant) -> Option<String> {
        if self.left_out == 0 || now - self.since < PERIOD {
            return None;
        }
        let count = std::mem::take(&mut self.left_out);
        (self.since, self.written) = (now, 0);
        Some(format!("{count} more notes about strangers were left out"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_summed_up_and_the_next_period_starts_again() {
        let start = Instant::now();
        let mut notes = StrangerNotes::new(start);
        let written = (0..1_000).filter(|_| notes.may_write(start)).count();
        assert_eq!(written, MAX_NOTES as usize);
        assert_eq!(notes.summary(start), None);
        let later = start + PERIOD;
        assert!(!notes.may_write(later), "the summary comes first");
        let summary = notes.summary(later).unwrap();
        assert!(summary.starts_with("981 more"), "{summary}");
        assert!(notes.may_write(later));
        assert_eq!(notes.summary(later + PERIOD), None);
    }

    #[test]
    fn notes_that_come_seldom_are_all_written() {
        let start = Instant::now();
        let mut notes = StrangerNotes::new(start);
        assert!((0..1_000).all(|second| notes.may_write(start + Duration::from_secs(second))));
    }
}
