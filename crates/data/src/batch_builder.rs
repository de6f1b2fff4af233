//! Builds the batch of a step, example by example, and replaces bad examples.
//!
//! The replacement is as fixed as the plan: the next good example in the plan's sequence of
//! positions, even beyond the slot's own positions. So the numbers of slots and threads do not
//! change what is learned from, and two runs over the same damaged data are equal.

use std::sync::Arc;

use crate::batch::BatchBuffer;
use crate::error::DataError;
use crate::examples::Examples;
use crate::on_bad::OnBad;
use crate::plan::{BatchPlan, PlannedExample};

/// The batches that one slot of a plan takes from a set of examples.
#[derive(Clone)]
pub struct SlotBatches {
    /// The examples.
    pub examples: Arc<dyn Examples>,
    /// Which examples each slot takes at each step.
    pub plan: BatchPlan,
    /// The slot.
    pub slot: usize,
}

/// Bad examples that were replaced by others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedExamples {
    /// How many; an example counts again in each epoch.
    pub count: u64,
    /// What was wrong with the first one.
    pub first: Option<String>,
}

impl SkippedExamples {
    /// Adds the ones of a later batch.
    pub(crate) fn add(&mut self, later: SkippedExamples) {
        self.count += later.count;
        self.first = self.first.take().or(later.first);
    }
}

/// What is known of an example besides its values.
struct ReadExample {
    label: u32,
    /// `None` if the examples have no weights.
    weight: Option<f32>,
}

/// This many consecutive bad examples are an error even where bad examples are skipped.
const MAX_CONSECUTIVE_BAD: usize = 100;

/// Builds the batches of one slot.
pub(crate) struct BatchBuilder {
    pub(crate) batches: SlotBatches,
    pub(crate) on_bad: OnBad,
}

impl BatchBuilder {
    /// Builds the batch of a step, or stops early once `cancelled` returns true.
    pub(crate) fn build(
        &self,
        step: u64,
        buffer: &mut BatchBuffer,
        cancelled: impl Fn() -> bool,
    ) -> Result<SkippedExamples, DataError> {
        let SlotBatches { examples, plan, slot } = &self.batches;
        let positions = plan.positions(step, *slot);
        let width = examples.inputs();
        let count = (positions.end - positions.start) as usize;
        buffer.labels.clear();
        buffer.weights.clear();
        buffer.inputs.resize(count * width, 0.0);
        let mut skipped = SkippedExamples::default();
        for (position, row) in positions.zip(buffer.inputs.chunks_exact_mut(width)) {
            if cancelled() {
                break;
            }
            let ReadExample { label, weight } = self.example(position, row, &mut skipped)?;
            buffer.labels.push(label);
            buffer.weights.extend(weight);
        }
        Ok(skipped)
    }

    /// Reads the example at a position, or the next good one after it.
    fn example(
        &self,
        position: u64,
        row: &mut [f32],
        skipped: &mut SkippedExamples,
    ) -> Result<ReadExample, DataError> {
        let SlotBatches { examples, plan, .. } = &self.batches;
        let mut tried = 0;
        loop {
            let PlannedExample { epoch, example } =
                plan.example_at(position.saturating_add(tried as u64));
            let error = match examples.fill(example, epoch, row) {
                Ok(label) => {
                    let weight = examples.has_weights().then(|| examples.weight_of(example));
                    return Ok(ReadExample { label, weight });
                }
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
            if tried == MAX_CONSECUTIVE_BAD.min(examples.len()) {
                return Err(DataError::AllBad { count: tried, last: Box::new(error) });
            }
        }
    }
}
