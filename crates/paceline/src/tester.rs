//! Testing: how well the parameters of some step do on examples that were not trained on.

use paceline_data::{BatchBuffer, Images};
use paceline_model::{Batch, Model, Tally};

/// Examples that are tested at once: enough to be fast, few enough to stay in the cache.
pub(crate) const TEST_BATCH: usize = 100;

/// Tests parameters on the first examples of a set.
pub struct Tester<'a> {
    images: &'a Images,
    examples: usize,
    model: Box<dyn Model>,
    buffer: BatchBuffer,
}

impl<'a> Tester<'a> {
    /// A tester over the first `examples` of the images, or all.
    ///
    /// # Panics
    /// If the model cannot take batches of [`TEST_BATCH`].
    pub fn new(images: &'a Images, examples: Option<usize>, model: Box<dyn Model>) -> Self {
        assert!(model.max_batch() >= TEST_BATCH);
        let examples = examples.map_or(images.len(), |examples| examples.min(images.len()));
        Self { images, examples, model, buffer: BatchBuffer::default() }
    }

    /// Loss and accuracy of the parameters.
    pub fn test(&mut self, params: &[f32]) -> Tally {
        let mut tally = Tally::default();
        for from in (0..self.examples).step_by(TEST_BATCH) {
            let to = (from + TEST_BATCH).min(self.examples);
            self.buffer.fill(self.images, from..to);
            let batch = Batch { inputs: &self.buffer.inputs, labels: &self.buffer.labels };
            self.model.evaluate(params, batch, &mut tally);
        }
        tally
    }
}
