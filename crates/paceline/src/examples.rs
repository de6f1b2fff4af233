//! Where a dense worker's examples come from, step after step.

use paceline_data::{BatchBuffer, BatchPlan, Images, SparseBuffer, SparseRows};
use paceline_model::{Batch, Rows};

use crate::Failure;

/// Examples in the order of a plan, as blocks that a model takes.
pub trait Examples: Send {
    /// Goes to the batch of a step of the plan; how many examples it has, 0 when the plan is
    /// through.
    fn take(&mut self, step: u64) -> Result<usize, Failure>;

    /// The next at most so many examples of that batch.
    fn block(&mut self, most: usize) -> Result<Batch<'_>, Failure>;
}

/// One slot's walk through a plan.
#[derive(Clone, Debug)]
pub struct Walk {
    plan: BatchPlan,
    slot: usize,
    indices: Vec<u32>,
    /// Examples of the present batch that have been handed out.
    done: usize,
}

impl Walk {
    /// The walk of a slot.
    pub fn new(plan: BatchPlan, slot: usize) -> Self {
        Self { plan, slot, indices: Vec::new(), done: 0 }
    }

    #[inline]
    fn take(&mut self, step: u64) -> usize {
        self.plan.batch(step, self.slot, &mut self.indices);
        self.done = 0;
        self.indices.len()
    }

    #[inline]
    fn next(&mut self, most: usize) -> impl ExactSizeIterator<Item = usize> + Clone {
        let from = self.done;
        self.done = (from + most).min(self.indices.len());
        self.indices[from..self.done].iter().map(|&example| example as usize)
    }
}

/// Images that are all in memory.
pub struct ImageExamples<'a> {
    walk: Walk,
    images: &'a Images,
    buffer: BatchBuffer,
}

impl<'a> ImageExamples<'a> {
    /// Images in the order of a walk.
    pub fn new(walk: Walk, images: &'a Images) -> Self {
        Self { walk, images, buffer: BatchBuffer::default() }
    }
}

impl Examples for ImageExamples<'_> {
    #[inline]
    fn take(&mut self, step: u64) -> Result<usize, Failure> {
        Ok(self.walk.take(step))
    }

    #[inline]
    fn block(&mut self, most: usize) -> Result<Batch<'_>, Failure> {
        self.buffer.fill(self.images, self.walk.next(most));
        Ok(Batch::dense(&self.buffer.inputs, &self.buffer.labels))
    }
}

/// Sparse rows for a model that is shown all its parameters: features are places as they are.
pub struct RowExamples<'a> {
    walk: Walk,
    rows: &'a SparseRows,
    buffer: SparseBuffer,
}

impl<'a> RowExamples<'a> {
    /// Rows in the order of a walk.
    pub fn new(walk: Walk, rows: &'a SparseRows) -> Self {
        Self { walk, rows, buffer: SparseBuffer::default() }
    }
}

impl Examples for RowExamples<'_> {
    fn take(&mut self, step: u64) -> Result<usize, Failure> {
        Ok(self.walk.take(step))
    }

    fn block(&mut self, most: usize) -> Result<Batch<'_>, Failure> {
        self.buffer.fill(self.rows, self.walk.next(most));
        let SparseBuffer { starts, keys, values, labels } = &self.buffer;
        Ok(Batch::sparse(Rows { starts, places: keys, values }, labels))
    }
}
