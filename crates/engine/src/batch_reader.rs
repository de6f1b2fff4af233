//! Where a dense worker's batches come from, step after step.

use std::sync::Arc;

use paceline_data::random::mix;
use paceline_data::{
    BatchBuffer, BatchPlan, BatchWeights, Examples, Images, Loader, LoaderOptions, Patches,
    ReadObserver, SlotBatches, SparseBuffer, SparseRows,
};
use paceline_model::{Batch, Rows, SharedPatches};

use crate::error::TrainError;
use crate::gradient::BlockSource;

/// Reads a slot's batches in the order of a plan, in blocks that the model takes.
pub(crate) trait BatchReader: BlockSource + Send {
    /// Moves to the batch of `step`. Returns its number of examples: 0 at the end of the plan.
    fn begin_step(&mut self, step: u64) -> Result<usize, TrainError>;
}

/// One slot's walk through a batch plan.
#[derive(Clone, Debug)]
pub(crate) struct SlotWalk {
    plan: BatchPlan,
    slot: usize,
    /// Added to an example's position to seed the model's random choices.
    draw: u64,
    /// Where the current batch starts in the plan.
    position: u64,
    indices: Vec<u32>,
    /// Examples of the current batch already handed out.
    done: usize,
}

impl SlotWalk {
    /// The walk of `slot`. The model's random choices are drawn from `seed`.
    pub(crate) fn new(plan: BatchPlan, slot: usize, seed: u64) -> Self {
        Self { plan, slot, draw: mix(seed), position: 0, indices: Vec::new(), done: 0 }
    }

    #[inline]
    fn begin_step(&mut self, step: u64) -> usize {
        self.plan.batch(step, self.slot, &mut self.indices);
        self.position = self.plan.positions(step, self.slot).start;
        self.done = 0;
        self.indices.len()
    }

    /// The next examples of the batch, and the seed of the first one's random choices.
    #[inline]
    fn next(&mut self, most: usize) -> (u64, impl ExactSizeIterator<Item = usize> + Clone) {
        let from = self.done;
        self.done = (from + most).min(self.indices.len());
        let draw = self.draw.wrapping_add(self.position + from as u64);
        (draw, self.indices[from..self.done].iter().map(|&example| example as usize))
    }
}

/// Batches of images in memory.
pub(crate) struct ImageBatches<'a> {
    walk: SlotWalk,
    images: &'a Images,
    buffer: BatchBuffer,
    weights: BatchWeights,
}

impl<'a> ImageBatches<'a> {
    /// Reads `images` in the order of `walk`.
    pub(crate) fn new(walk: SlotWalk, images: &'a Images, weights: BatchWeights) -> Self {
        Self { walk, images, buffer: BatchBuffer::default(), weights }
    }
}

impl BatchReader for ImageBatches<'_> {
    #[inline]
    fn begin_step(&mut self, step: u64) -> Result<usize, TrainError> {
        Ok(self.walk.begin_step(step))
    }
}

impl BlockSource for ImageBatches<'_> {
    #[inline]
    fn next_block(&mut self, most: usize) -> Result<Batch<'_>, TrainError> {
        let (draw, examples) = self.walk.next(most);
        self.buffer.fill(self.images, examples);
        let BatchBuffer { inputs, labels, .. } = &self.buffer;
        let weights = self.weights.of(labels, &[]);
        Ok(Batch { draw, ..Batch::dense(inputs, labels).weighted(weights) })
    }
}

/// Batches of mostly empty images, which the model reads in place: nothing is copied.
pub(crate) struct PatchBatches {
    walk: SlotWalk,
    patches: Patches,
    labels: Vec<u32>,
    weights: BatchWeights,
}

impl PatchBatches {
    /// Reads `patches` in the order of `walk`.
    pub(crate) fn new(walk: SlotWalk, patches: Patches, weights: BatchWeights) -> Self {
        Self { walk, patches, labels: Vec::new(), weights }
    }
}

impl BatchReader for PatchBatches {
    #[inline]
    fn begin_step(&mut self, step: u64) -> Result<usize, TrainError> {
        Ok(self.walk.begin_step(step))
    }
}

impl BlockSource for PatchBatches {
    #[inline]
    fn next_block(&mut self, most: usize) -> Result<Batch<'_>, TrainError> {
        let from = self.walk.done;
        let (draw, examples) = self.walk.next(most);
        self.labels.clear();
        self.labels.extend(examples.map(|example| self.patches.labels()[example]));
        let which = &self.walk.indices[from..self.walk.done];
        let (words, starts) = (self.patches.words(), self.patches.starts());
        let examples = SharedPatches { words, starts, which };
        let weights = self.weights.of(&self.labels, &[]);
        Ok(Batch { draw, ..Batch::patches(examples, &self.labels).weighted(weights) })
    }
}

/// Batches of sparse rows for a model that sees all its parameters: a feature's number is its
/// parameter's place.
pub(crate) struct SparseRowBatches<'a> {
    walk: SlotWalk,
    rows: &'a SparseRows,
    buffer: SparseBuffer,
    weights: BatchWeights,
}

impl<'a> SparseRowBatches<'a> {
    /// Reads `rows` in the order of `walk`.
    pub(crate) fn new(walk: SlotWalk, rows: &'a SparseRows, weights: BatchWeights) -> Self {
        Self { walk, rows, buffer: SparseBuffer::default(), weights }
    }
}

impl BatchReader for SparseRowBatches<'_> {
    fn begin_step(&mut self, step: u64) -> Result<usize, TrainError> {
        Ok(self.walk.begin_step(step))
    }
}

impl BlockSource for SparseRowBatches<'_> {
    fn next_block(&mut self, most: usize) -> Result<Batch<'_>, TrainError> {
        let (_, examples) = self.walk.next(most);
        self.buffer.fill(self.rows, examples);
        let SparseBuffer { starts, keys, values, labels, weights: own, .. } = &self.buffer;
        let weights = self.weights.of(labels, own);
        Ok(Batch::sparse(Rows { starts, places: keys, values }, labels).weighted(weights))
    }
}

/// Batches that other threads read ahead of the step that needs them.
pub(crate) struct LoadedBatches {
    source: Arc<dyn Examples>,
    walk: SlotWalk,
    options: LoaderOptions,
    /// Starts with the first step, which need not be step 0.
    loader: Option<Loader>,
    observer: Option<ReadObserver>,
    step: u64,
    weights: BatchWeights,
}

impl LoadedBatches {
    /// Reads `source` in the order of `walk`. `observer` sees every read.
    pub(crate) fn new(
        walk: SlotWalk,
        source: Arc<dyn Examples>,
        options: LoaderOptions,
        observer: Option<ReadObserver>,
        weights: BatchWeights,
    ) -> Self {
        Self { source, walk, options, loader: None, observer, step: 0, weights }
    }
}

impl BatchReader for LoadedBatches {
    fn begin_step(&mut self, step: u64) -> Result<usize, TrainError> {
        let examples = self.walk.begin_step(step);
        if step < self.step {
            // The run was rewound.
            self.loader = None;
        }
        self.step = step;
        if examples > 0 {
            let SlotWalk { plan, slot, .. } = &self.walk;
            let start = || {
                let (examples, plan) = (self.source.clone(), plan.clone());
                let batches = SlotBatches { examples, plan, slot: *slot };
                Loader::with_observer(batches, step, self.options, self.observer.take())
            };
            self.loader.get_or_insert_with(start).batch(step)?;
        }
        Ok(examples)
    }
}

impl BlockSource for LoadedBatches {
    fn next_block(&mut self, most: usize) -> Result<Batch<'_>, TrainError> {
        let from = self.walk.done;
        let (draw, _) = self.walk.next(most);
        let (to, width) = (self.walk.done, self.source.inputs());
        let Some(loader) = &mut self.loader else { unreachable!("begin_step started the loader") };
        let batch = loader.batch(self.step)?;
        let inputs = &batch.inputs[from * width..to * width];
        let labels = &batch.labels[from..to];
        let own = if batch.weights.is_empty() { &[] } else { &batch.weights[from..to] };
        let weights = self.weights.of(labels, own);
        Ok(Batch { draw, ..Batch::dense(inputs, labels).weighted(weights) })
    }
}
