//! The batch plan: which examples slot w takes at step t.
//!
//! The plan is a function of (seed, step, slot) alone, so any process can take over a slot at any
//! step, and a run can be repeated. It is an endless sequence of positions, epoch after epoch: step
//! t is the next `slots * batch` positions, of which slot w takes `batch`. A permutation maps the
//! positions of an epoch to examples. It is computed, not stored, so memory does not grow with the
//! data. So all slots together take every example exactly once an epoch, whether or not the sizes
//! divide, and N slots of batch B take together what one slot of batch N*B takes.
//!
//! Data larger than memory is read from a mapped file, where an access far away costs a disk read.
//! So the shuffle can be limited to windows: the examples are cut into windows of neighbours, and
//! both the windows and the examples inside each come in random order.

mod order;

use std::ops::Range;

use self::order::EpochOrder;
use crate::random::mix;

/// Which examples each slot takes at each step.
///
/// ```
/// use paceline_data::BatchPlan;
///
/// // 10 examples, in batches of 2 for each of 2 slots, shuffled, for one epoch.
/// let mut plan = BatchPlan::new(10, 2, 2).shuffled(7).for_epochs(1);
/// assert_eq!(plan.steps(), 3);
/// let mut seen = Vec::new();
/// for step in 0..plan.steps() {
///     for slot in 0..2 {
///         let mut batch = Vec::new();
///         plan.batch(step, slot, &mut batch);
///         seen.extend(batch);
///     }
/// }
/// seen.sort();
/// assert_eq!(seen, (0..10).collect::<Vec<u32>>());
/// ```
#[derive(Clone, Debug)]
pub struct BatchPlan {
    examples: u64,
    batch: u64,
    slots: u64,
    /// The first step, and the position at which it begins; both are 0 unless the plan continues
    /// another one.
    origin: PlanStart,
    /// The first position after the plan, for plans that end after whole epochs.
    end: u64,
    seed: u64,
    shuffle: bool,
    /// The number of neighbours that are shuffled among each other; all if at least `examples`.
    window: u64,
    /// The order of the last batch's epoch.
    present: Option<PresentEpoch>,
}

#[derive(Clone, Debug)]
struct PresentEpoch {
    epoch: u64,
    order: EpochOrder,
}

/// What a plan has at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedExample {
    /// The epoch.
    pub epoch: u64,
    /// The number of the example in its set.
    pub example: u32,
}

/// Where a plan begins.
#[derive(Clone, Copy, Debug, Default)]
struct PlanStart {
    step: u64,
    position: u64,
}

impl BatchPlan {
    /// An endless plan over `examples` examples, in their own order, for `slots` slots that take
    /// `batch` examples each at every step.
    ///
    /// # Panics
    /// If a number is zero, or `examples` is above 2^32 - 1.
    pub fn new(examples: usize, batch: usize, slots: usize) -> Self {
        assert!(examples > 0 && batch > 0 && slots > 0, "sizes must not be zero");
        assert!(u32::try_from(examples).is_ok(), "too many examples");
        let (examples, batch, slots) = (examples as u64, batch as u64, slots as u64);
        let (origin, end, window) = (PlanStart::default(), u64::MAX, u64::MAX);
        let (seed, shuffle, present) = (0, false, None);
        Self { examples, batch, slots, origin, end, seed, shuffle, window, present }
    }

    /// The same plan, with the examples in a new random order every epoch.
    pub fn shuffled(self, seed: u64) -> Self {
        Self { seed, shuffle: true, window: u64::MAX, present: None, ..self }
    }

    /// The same plan, shuffled so that examples near each other in time are near each other in the
    /// data: windows of `window` neighbours come in a new order every epoch, and so do the examples
    /// inside each. A window of all examples gives exactly the order of
    /// [`shuffled`](Self::shuffled).
    ///
    /// # Panics
    /// If `window` is zero.
    pub fn shuffled_within(self, seed: u64, window: usize) -> Self {
        assert!(window > 0, "a window must not be empty");
        Self { window: window as u64, ..self.shuffled(seed) }
    }

    /// The same plan, ending after `epochs` epochs. The last batches may be short or empty.
    pub fn for_epochs(self, epochs: u64) -> Self {
        Self { end: self.examples.saturating_mul(epochs), ..self }
    }

    /// The same plan, starting at `step` with this position, so that a run can continue with
    /// another number of slots or another batch size. Batches of earlier steps have no meaning.
    pub fn starting_at(self, step: u64, position: u64) -> Self {
        Self { origin: PlanStart { step, position }, ..self }
    }

    /// Replaces `out` with the examples that `slot` takes at `step`; none when the plan has ended.
    /// Taking the batches of an epoch together is fastest, because the plan remembers its order.
    pub fn batch(&mut self, step: u64, slot: usize, out: &mut Vec<u32>) {
        out.clear();
        let Range { mut start, end } = self.positions(step, slot);
        while start < end {
            let (epoch, at) = (start / self.examples, start % self.examples);
            let here = at..self.examples.min(at + (end - start));
            start += here.end - here.start;
            if !self.shuffle {
                out.extend(here.map(|example| example as u32));
                continue;
            }
            match &mut self.present {
                Some(present) if present.epoch == epoch => present.order.take(here, out),
                _ => {
                    let mut order = self.order(epoch);
                    order.take(here, out);
                    self.present = Some(PresentEpoch { epoch, order });
                }
            }
        }
    }

    /// The example at a position, even one after the end of the plan.
    pub fn example_at(&self, position: u64) -> PlannedExample {
        let (epoch, at) = (position / self.examples, position % self.examples);
        let example = if self.shuffle { self.order(epoch).at(at) } else { at };
        PlannedExample { epoch, example: example as u32 }
    }

    /// The number of slots.
    pub fn slots(&self) -> usize {
        self.slots as usize
    }

    /// The step at which the plan ends; close to 2^64 unless it ends after some epochs.
    pub fn steps(&self) -> u64 {
        let PlanStart { step, position } = self.origin;
        step.saturating_add(self.end.saturating_sub(position).div_ceil(self.slots * self.batch))
    }

    /// The positions that `slot` takes at `step`.
    pub fn positions(&self, step: u64, slot: usize) -> Range<u64> {
        let from = self.before(step).saturating_add(slot as u64 * self.batch).min(self.end);
        from..from.saturating_add(self.batch).min(self.end)
    }

    /// The first position of a step, even one after the end of the plan.
    fn before(&self, step: u64) -> u64 {
        let PlanStart { step: first, position } = self.origin;
        let steps = step.saturating_sub(first);
        steps.saturating_mul(self.slots * self.batch).saturating_add(position)
    }

    fn order(&self, epoch: u64) -> EpochOrder {
        EpochOrder::new(self.examples, self.window, mix(self.seed).wrapping_add(epoch))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(plan: &BatchPlan, step: u64, slot: usize) -> Vec<u32> {
        let mut out = Vec::new();
        plan.clone().batch(step, slot, &mut out);
        out
    }

    fn all(plan: &BatchPlan, slots: usize) -> Vec<u32> {
        (0..plan.steps()).flat_map(|t| (0..slots).flat_map(move |w| take(plan, t, w))).collect()
    }

    #[test]
    fn a_plan_with_another_start_continues_with_the_remaining_examples() {
        // Two slots of 3 take 7 steps; three slots of 5 continue to the end of 4 epochs of 20.
        let before = BatchPlan::new(20, 3, 2).shuffled(9).for_epochs(4);
        let after = BatchPlan::new(20, 5, 3).shuffled(9).for_epochs(4).starting_at(7, 42);
        let walk = |plan: &BatchPlan, steps: std::ops::Range<u64>, slots: usize| -> Vec<u32> {
            steps.flat_map(|t| (0..slots).flat_map(move |w| take(plan, t, w))).collect()
        };
        assert_eq!(after.steps(), 7 + (80u64 - 42).div_ceil(15));
        assert_eq!(after.positions(8, 0).start, 57);
        let all = walk(&before, 0..before.steps(), 2);
        let resumed = [walk(&before, 0..7, 2), walk(&after, 7..after.steps(), 3)].concat();
        assert_eq!(resumed, all);
    }

    proptest! {
        #[test]
        fn batches_do_not_depend_on_the_order_in_which_they_are_taken(
            examples in 1usize..300, batch in 1usize..40, window in 1usize..320, seed: u64,
            steps in proptest::collection::vec(0u64..60, 1..20),
        ) {
            let plan = BatchPlan::new(examples, batch, 2).shuffled_within(seed, window);
            let (mut walked, mut out) = (plan.clone(), Vec::new());
            for step in steps {
                walked.batch(step, 1, &mut out);
                prop_assert_eq!(&out, &take(&plan, step, 1));
            }
        }

        #[test]
        fn every_epoch_has_every_example_once(
            examples in 1usize..300, batch in 1usize..40, slots in 1usize..6,
            epochs in 1u64..4, seed: u64, shuffle: bool,
            window in proptest::option::of(1usize..320),
        ) {
            let mut plan = BatchPlan::new(examples, batch, slots).for_epochs(epochs);
            if shuffle {
                plan = match window {
                    Some(window) => plan.shuffled_within(seed, window),
                    None => plan.shuffled(seed),
                };
            }
            let taken = all(&plan, slots);
            prop_assert_eq!(taken.len(), examples * epochs as usize);
            for epoch in taken.chunks(examples) {
                let mut sorted = epoch.to_vec();
                sorted.sort_unstable();
                prop_assert_eq!(sorted, (0..examples as u32).collect::<Vec<_>>());
            }
            for w in 0..slots {
                prop_assert!(take(&plan, plan.steps(), w).is_empty());
            }
        }

        #[test]
        fn many_slots_together_take_what_one_wide_slot_takes(
            examples in 1usize..300, batch in 1usize..40, slots in 1usize..6,
            step in 0u64..50, seed: u64, window in 1usize..320,
        ) {
            let many = BatchPlan::new(examples, batch, slots).shuffled_within(seed, window);
            let one = BatchPlan::new(examples, batch * slots, 1).shuffled_within(seed, window);
            let together: Vec<u32> = (0..slots).flat_map(|w| take(&many, step, w)).collect();
            prop_assert_eq!(together, take(&one, step, 0));
        }

        #[test]
        fn a_window_of_all_examples_is_the_full_shuffle(
            examples in 1usize..300, more in 0usize..3, step in 0u64..5, seed: u64,
        ) {
            let plan = BatchPlan::new(examples, 37, 2);
            let full = plan.clone().shuffled(seed);
            let within = plan.shuffled_within(seed, examples + more);
            prop_assert_eq!(take(&within, step, 1), take(&full, step, 1));
        }

        #[test]
        fn windows_come_one_after_the_other(
            examples in 1usize..300, window in 1usize..100, seed: u64,
        ) {
            let plan = BatchPlan::new(examples, examples, 1).shuffled_within(seed, window);
            let mut windows: Vec<usize> =
                take(&plan, 0, 0).iter().map(|&example| example as usize / window).collect();
            windows.dedup();
            prop_assert_eq!(windows.len(), examples.div_ceil(window));
        }
    }

    #[test]
    fn windows_and_their_examples_are_reshuffled_every_epoch() {
        let plan = BatchPlan::new(1000, 1000, 1).shuffled_within(1, 100);
        let epochs: Vec<Vec<u32>> = (0..2).map(|epoch| take(&plan, epoch, 0)).collect();
        let windows = |epoch: &[u32]| -> Vec<u32> { epoch.iter().map(|e| e / 100).collect() };
        assert_ne!(windows(&epochs[0]), windows(&epochs[1]));
        let inside = |epoch: &[u32]| -> Vec<u32> {
            epoch.iter().filter(|&&example| example < 100).copied().collect()
        };
        assert_ne!(inside(&epochs[0]), inside(&epochs[1]));
    }

    #[test]
    fn positions_name_the_examples_of_a_batch() {
        let plan = BatchPlan::new(7, 3, 2).shuffled(4);
        for (step, slot) in [(0, 0), (0, 1), (1, 0), (9, 1)] {
            let at = plan.positions(step, slot).map(|position| plan.example_at(position));
            assert_eq!(at.map(|at| at.example).collect::<Vec<_>>(), take(&plan, step, slot));
        }
        assert_eq!((plan.example_at(6).epoch, plan.example_at(7).epoch), (0, 1));
    }

    #[test]
    fn shuffling_can_be_switched_off() {
        let plan = BatchPlan::new(5, 2, 2).for_epochs(2);
        let taken: Vec<_> = (0..3).map(|t| [take(&plan, t, 0), take(&plan, t, 1)]).collect();
        assert_eq!(taken[0], [vec![0, 1], vec![2, 3]]);
        assert_eq!(taken[1], [vec![4, 0], vec![1, 2]]);
        assert_eq!(taken[2], [vec![3, 4], vec![]]);
    }

    #[test]
    fn seeds_and_epochs_differ_in_their_order() {
        let order = |seed, epoch| {
            let plan = BatchPlan::new(1000, 1000, 1).shuffled(seed);
            take(&plan, epoch, 0)
        };
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(2, 0));
        assert_ne!(order(1, 0), order(1, 1));
        // Neighbouring seeds must not share epochs.
        assert_ne!(order(1, 1), order(2, 0));
    }

    /// With a good shuffle each example is equally likely in each tenth of an epoch.
    #[test]
    fn the_shuffle_is_uniform() {
        let mut counts = [[0u32; 10]; 10];
        for seed in 0..2000 {
            let plan = BatchPlan::new(100, 100, 1).shuffled(seed);
            for (position, example) in take(&plan, 0, 0).into_iter().enumerate() {
                counts[position / 10][example as usize / 10] += 1;
            }
        }
        // 2,000 expected; one standard deviation is about 40.
        for count in counts.into_iter().flatten() {
            assert!((1_800..2_200).contains(&count), "{counts:?}");
        }
    }
}
