//! Where a dense worker's examples come from, step after step.

use std::sync::Arc;

use paceline_data::random::mix;
use paceline_data::{
    BatchBuffer, BatchPlan, Images, Loader, LoaderOptions, Patches, ReadObserver, SlotBatches,
    SparseBuffer, SparseRows,
};
use paceline_model::{Batch, Rows, SharedPatches};

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
    /// What the models' lots are drawn from, before the position is added.
    draw: u64,
    /// Where the present batch begins in the plan.
    position: u64,
    indices: Vec<u32>,
    /// Examples of the present batch that have been handed out.
    done: usize,
}

impl Walk {
    /// The walk of a slot, with lots drawn from a seed.
    pub fn new(plan: BatchPlan, slot: usize, seed: u64) -> Self {
        Self { plan, slot, draw: mix(seed), position: 0, indices: Vec::new(), done: 0 }
    }

    #[inline]
    fn take(&mut self, step: u64) -> usize {
        self.plan.batch(step, self.slot, &mut self.indices);
        self.position = self.plan.positions(step, self.slot).start;
        self.done = 0;
        self.indices.len()
    }

    /// The next examples of the batch, and what their lots are drawn from.
    #[inline]
    fn next(&mut self, most: usize) -> (u64, impl ExactSizeIterator<Item = usize> + Clone) {
        let from = self.done;
        self.done = (from + most).min(self.indices.len());
        let draw = self.draw.wrapping_add(self.position + from as u64);
        (draw, self.indices[from..self.done].iter().map(|&example| example as usize))
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
        let (draw, examples) = self.walk.next(most);
        self.buffer.fill(self.images, examples);
        Ok(Batch { draw, ..Batch::dense(&self.buffer.inputs, &self.buffer.labels) })
    }
}

/// Images that are mostly empty: a model reads them where they lie, so nothing is copied.
pub struct PatchyExamples {
    walk: Walk,
    patches: Patches,
    labels: Vec<u32>,
}

impl PatchyExamples {
    /// Images in the order of a walk.
    pub fn new(walk: Walk, patches: Patches) -> Self {
        Self { walk, patches, labels: Vec::new() }
    }
}

impl Examples for PatchyExamples {
    #[inline]
    fn take(&mut self, step: u64) -> Result<usize, Failure> {
        Ok(self.walk.take(step))
    }

    #[inline]
    fn block(&mut self, most: usize) -> Result<Batch<'_>, Failure> {
        let from = self.walk.done;
        let (draw, examples) = self.walk.next(most);
        self.labels.clear();
        self.labels.extend(examples.map(|example| self.patches.labels()[example]));
        let which = &self.walk.indices[from..self.walk.done];
        let examples =
            SharedPatches { words: self.patches.words(), starts: self.patches.starts(), which };
        Ok(Batch { draw, ..Batch::patches(examples, &self.labels) })
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
        let (_, examples) = self.walk.next(most);
        self.buffer.fill(self.rows, examples);
        let SparseBuffer { starts, keys, values, labels } = &self.buffer;
        Ok(Batch::sparse(Rows { starts, places: keys, values }, labels))
    }
}

/// Pictures that are read or made on other threads, ahead of the step that takes them.
pub struct PictureExamples {
    source: Arc<dyn paceline_data::Examples>,
    walk: Walk,
    options: LoaderOptions,
    /// Made with the first step, which need not be step 0.
    loader: Option<Loader>,
    watch: Option<ReadObserver>,
    step: u64,
}

impl PictureExamples {
    /// Pictures in the order of a walk, with somebody who may watch them being read.
    pub fn new(
        walk: Walk,
        source: Arc<dyn paceline_data::Examples>,
        options: LoaderOptions,
        watch: Option<ReadObserver>,
    ) -> Self {
        Self { source, walk, options, loader: None, watch, step: 0 }
    }
}

impl Examples for PictureExamples {
    fn take(&mut self, step: u64) -> Result<usize, Failure> {
        let examples = self.walk.take(step);
        if step < self.step {
            // The run has gone back.
            self.loader = None;
        }
        self.step = step;
        if examples > 0 {
            let Walk { plan, slot, .. } = &self.walk;
            let start = || {
                let batches =
                    SlotBatches { examples: self.source.clone(), plan: plan.clone(), slot: *slot };
                Loader::with_observer(batches, step, self.options, self.watch.take())
            };
            self.loader.get_or_insert_with(start).batch(step)?;
        }
        Ok(examples)
    }

    fn block(&mut self, most: usize) -> Result<Batch<'_>, Failure> {
        let from = self.walk.done;
        let (draw, _) = self.walk.next(most);
        let (to, width) = (self.walk.done, self.source.inputs());
        let Some(loader) = &mut self.loader else { unreachable!("a batch was taken") };
        let batch = loader.batch(self.step)?;
        let inputs = &batch.inputs[from * width..to * width];
        Ok(Batch { draw, ..Batch::dense(inputs, &batch.labels[from..to]) })
    }
}
