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

use paceline_generate::random::mix;

use self::order::EpochOrder;

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
    current: Option<CurrentEpoch>,
}

#[derive(Clone, Debug)]
struct CurrentEpoch {
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
        let (seed, shuffle, current) = (0, false, None);
        Self { examples, batch, slots, origin, end, seed, shuffle, window, current }
    }

    /// The same plan, with the examples in a new random order every epoch.
    pub fn shuffled(self, seed: u64) -> Self {
        Self { seed, shuffle: true, window: u64::MAX, current: None, ..self }
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
            match &mut self.current {
                Some(current) if current.epoch == epoch => current.order.take(here, out),
                _ => {
                    let mut order = self.order(epoch);
                    order.take(here, out);
                    self.current = Some(CurrentEpoch { epoch, order });
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
mod tests;
