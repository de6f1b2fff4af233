//! Making the batch of a step: example by example, and what stands in for a bad one.
//!
//! Which example stands in is as fixed as the plan: the next good one in the row of positions,
//! wherever a slot's share of that row ends. So the number of slots and of threads makes no
//! difference to what is learnt from, and two runs over the same damaged collection are equal.

use std::sync::Arc;

use crate::{BatchBuffer, BatchPlan, DataError, DenseSource, OnBad};

/// Bad examples that others stood in for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How often; an example counts anew in each epoch.
    pub count: u64,
    /// What was wrong with the first.
    pub first: Option<String>,
}

impl Skipped {
    /// Adds those of a later batch.
    pub(crate) fn add(&mut self, later: Skipped) {
        self.count += later.count;
        self.first = self.first.take().or(later.first);
    }
}

/// So many bad examples in a row are not skipped but an error.
const MOST_BAD_IN_A_ROW: usize = 100;

/// What it takes to make a batch.
pub(crate) struct Maker {
    pub(crate) source: Arc<dyn DenseSource>,
    pub(crate) plan: BatchPlan,
    pub(crate) slot: usize,
    pub(crate) on_bad: OnBad,
}

impl Maker {
    /// Makes the batch of a step, or leaves off when nobody wants it any more.
    pub(crate) fn make(
        &self,
        step: u64,
        buffer: &mut BatchBuffer,
        given_up: impl Fn() -> bool,
    ) -> Result<Skipped, DataError> {
        let positions = self.plan.positions(step, self.slot);
        let width = self.source.inputs();
        let examples = (positions.end - positions.start) as usize;
        buffer.labels.clear();
        buffer.inputs.resize(examples * width, 0.0);
        let mut skipped = Skipped::default();
        for (position, row) in positions.zip(buffer.inputs.chunks_exact_mut(width)) {
            if given_up() {
                break;
            }
            buffer.labels.push(self.example(position, row, &mut skipped)?);
        }
        Ok(skipped)
    }

    /// Makes the example at a position, or the next good one after it.
    fn example(
        &self,
        position: u64,
        row: &mut [f32],
        skipped: &mut Skipped,
    ) -> Result<u32, DataError> {
        let mut tried = 0;
        loop {
            let (epoch, example) = self.plan.at(position.saturating_add(tried as u64));
            let error = match self.source.fill(example, epoch, row) {
                Ok(label) => return Ok(label),
                Err(error) => error,
            };
            if self.on_bad == OnBad::Fail || !error.is_bad_example() {
                return Err(error);
            }
            if tried == 0 {
                skipped.count += 1;
                skipped.first.get_or_insert_with(|| error.to_string());
            }
            tried += 1;
            if tried == MOST_BAD_IN_A_ROW.min(self.source.len()) {
                return Err(DataError::AllBad { count: tried, last: Box::new(error) });
            }
        }
    }
}
