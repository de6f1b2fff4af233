//! Statistics of the pushes: what became of them, their staleness, and how long each slot took.
//!
//! A push is counted when its first chunk is handled, so that a large model's many chunks do not
//! count it many times.

/// Upper bounds, inclusive, of the staleness histogram's buckets; one more bucket takes the rest.
pub const STALENESS_BOUNDS: [u64; 24] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 4096,
];

/// Statistics of one slot's pushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotStats {
    /// Pushes applied, alone or in a mean.
    pub applied: u64,
    /// Pushes that came too late for their step.
    pub dropped: u64,
    /// Chunks that arrived again and were only answered.
    pub duplicates: u64,
    /// Examples in the pushes that were applied.
    pub examples: u64,
    /// Pushes that followed an answer, so that the time in between is known.
    pub timed: u64,
    /// The sum of those times, from an answer to the next push. Each begins and ends on a whole
    /// millisecond; over many pushes the rounding cancels out.
    pub gradient_ms: u64,
    /// The total time that answers waited for other workers' pushes.
    pub held_ms: u64,
}

/// Counts of one server since its start.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// One for each slot.
    pub slots: Vec<SlotStats>,
    /// Gradients by staleness: the version they were applied at minus the one they were computed
    /// from. Bucket `i` counts those up to [`STALENESS_BOUNDS`]`[i]`.
    pub staleness: [u64; STALENESS_BOUNDS.len() + 1],
    /// The largest staleness.
    pub staleness_max: u64,
    staleness_sum: u64,
    /// When each slot was last answered, until it pushes again.
    answered_ms: Vec<Option<u64>>,
}

impl Stats {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            slots: vec![SlotStats::default(); workers],
            answered_ms: vec![None; workers],
            ..Self::default()
        }
    }

    /// A new push of a slot arrived.
    pub(crate) fn arrived(&mut self, slot: usize, now_ms: u64) {
        if let Some(since_ms) = self.answered_ms[slot].take() {
            self.slots[slot].timed += 1;
            self.slots[slot].gradient_ms += now_ms.saturating_sub(since_ms);
        }
    }

    /// A chunk of a slot's push that arrived at `since_ms` is answered. The first chunk's wait
    /// counts as time spent on other workers; the slot can continue when it has the last chunk.
    pub(crate) fn answered(&mut self, chunk: usize, slot: usize, since_ms: u64, now_ms: u64) {
        if chunk == 0 {
            self.slots[slot].held_ms += now_ms.saturating_sub(since_ms);
        }
        self.answered_ms[slot] = Some(now_ms);
    }

    /// A slot's process is gone: the time until the next one pushes is not a gradient's.
    pub(crate) fn forget(&mut self, slot: usize) {
        self.answered_ms[slot] = None;
    }

    pub(crate) fn applied(&mut self, slot: usize, staleness: u64, examples: u32) {
        self.slots[slot].applied += 1;
        self.slots[slot].examples += u64::from(examples);
        let bucket = STALENESS_BOUNDS.partition_point(|&bound| bound < staleness);
        self.staleness[bucket] += 1;
        self.staleness_max = self.staleness_max.max(staleness);
        self.staleness_sum += staleness;
    }

    /// Gradients applied, over all slots.
    pub fn applied_total(&self) -> u64 {
        self.slots.iter().map(|slot| slot.applied).sum()
    }

    /// Gradients dropped, over all slots.
    pub fn dropped_total(&self) -> u64 {
        self.slots.iter().map(|slot| slot.dropped).sum()
    }

    /// The mean staleness of the gradients applied; 0 if there were none.
    pub fn staleness_mean(&self) -> f64 {
        match self.applied_total() {
            0 => 0.0,
            count => self.staleness_sum as f64 / count as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staleness_is_counted_in_the_first_bucket_that_holds_it() {
        let mut stats = Stats::new(1);
        for (staleness, bucket) in [(0, 0), (1, 1), (4, 4), (5, 5), (6, 5), (7, 6), (9999, 24)] {
            let before = stats.staleness[bucket];
            stats.applied(0, staleness, 1);
            assert_eq!(stats.staleness[bucket], before + 1, "{staleness}");
        }
        assert_eq!((stats.staleness_max, stats.applied_total()), (9999, 7));
    }

    #[test]
    fn the_time_to_a_gradient_is_from_an_answer_to_the_next_push() {
        let mut stats = Stats::new(2);
        stats.arrived(0, 50); // Nothing says when the first gradient was begun.
        stats.answered(0, 0, 50, 68);
        stats.answered(1, 0, 55, 70);
        stats.arrived(0, 75);
        stats.answered(0, 0, 75, 78);
        stats.forget(0);
        stats.arrived(0, 900);
        let SlotStats { timed, gradient_ms, held_ms, .. } = stats.slots[0];
        assert_eq!((timed, gradient_ms, held_ms), (1, 5, 21));
        assert_eq!(stats.slots[1], SlotStats::default());
    }
}
