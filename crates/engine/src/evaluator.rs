//! Tests parameters on examples that were not trained on.

use std::sync::Arc;

use paceline_data::{BatchBuffer, Examples, Images, OnBad, Patches, SparseBuffer, SparseRows};
use paceline_model::{Batch, Model, Rows, Score, SharedPatches, Tally};

use crate::error::TrainError;
use crate::test_watch::TestWatch;

/// Measures how good parameters are.
pub trait Evaluator: Send {
    /// The keys of the parameters to test, sorted; `None` for all parameters.
    fn keys(&self) -> Option<Arc<[u32]>> {
        None
    }

    /// Tests those parameters. The watch learns how far the test has come, and may end it.
    fn test(&mut self, params: &[f32], watch: &TestWatch) -> Result<Score, TrainError>;
}

/// The score of a test of `tested` examples. The model must have counted at least one of them.
pub(crate) fn counted(tally: &Tally, tested: usize) -> Result<Score, TrainError> {
    if tally.examples > 0 || tested == 0 {
        return Ok(tally.score());
    }
    Err(TrainError::Settings(format!(
        "Model::evaluate counted none of {tested} test examples; let it call Tally::count_block, \
         or another method that counts"
    )))
}

/// Tests on images in memory.
pub(crate) struct ImageEvaluator<'a> {
    images: &'a Images,
    examples: usize,
    model: Box<dyn Model>,
    buffer: BatchBuffer,
}

impl<'a> ImageEvaluator<'a> {
    /// Tests on the first `examples` of the images, or all.
    pub(crate) fn new(images: &'a Images, examples: Option<usize>, model: Box<dyn Model>) -> Self {
        let examples = examples.map_or(images.len(), |examples| examples.min(images.len()));
        Self { images, examples, model, buffer: BatchBuffer::default() }
    }
}

impl Evaluator for ImageEvaluator<'_> {
    fn test(&mut self, params: &[f32], watch: &TestWatch) -> Result<Score, TrainError> {
        let mut tally = watch.scores.tally();
        let most = self.model.max_block();
        for from in (0..self.examples).step_by(most) {
            let to = (from + most).min(self.examples);
            self.buffer.fill(self.images, from..to);
            let block = Batch::dense(&self.buffer.inputs, &self.buffer.labels);
            self.model.evaluate(params, block, &mut tally);
            watch.scores.hand_over(&mut tally, &self.buffer.labels);
            watch.tested(to, self.examples)?;
        }
        counted(&tally, self.examples)
    }
}

/// Tests on mostly empty images.
pub(crate) struct PatchEvaluator {
    patches: Patches,
    /// The numbers of the examples, in order.
    which: Vec<u32>,
    model: Box<dyn Model>,
}

impl PatchEvaluator {
    /// Tests on the first `examples` of the images, or all.
    pub(crate) fn new(patches: Patches, examples: Option<usize>, model: Box<dyn Model>) -> Self {
        let all = patches.labels().len();
        let which = (0..examples.unwrap_or(all).min(all) as u32).collect();
        Self { patches, which, model }
    }
}

impl Evaluator for PatchEvaluator {
    fn test(&mut self, params: &[f32], watch: &TestWatch) -> Result<Score, TrainError> {
        let mut tally = watch.scores.tally();
        let most = self.model.max_block();
        let (words, starts) = (self.patches.words(), self.patches.starts());
        let mut tested = 0;
        for (which, labels) in self.which.chunks(most).zip(self.patches.labels().chunks(most)) {
            let examples = SharedPatches { words, starts, which };
            let labels = &labels[..which.len()];
            self.model.evaluate(params, Batch::patches(examples, labels), &mut tally);
            watch.scores.hand_over(&mut tally, labels);
            tested += which.len();
            watch.tested(tested, self.which.len())?;
        }
        counted(&tally, self.which.len())
    }
}

/// Tests on any dense examples, read one by one.
pub(crate) struct ExamplesEvaluator {
    source: Arc<dyn Examples>,
    examples: usize,
    on_bad: OnBad,
    model: Box<dyn Model>,
    inputs: Vec<f32>,
    labels: Vec<u32>,
}

impl ExamplesEvaluator {
    /// Tests on the first `examples` of the source, or all. `on_bad` decides whether examples that
    /// cannot be read are skipped or end the run.
    pub(crate) fn new(
        source: Arc<dyn Examples>,
        examples: Option<usize>,
        on_bad: OnBad,
        model: Box<dyn Model>,
    ) -> Self {
        let examples = examples.map_or(source.len(), |examples| examples.min(source.len()));
        Self { source, examples, on_bad, model, inputs: Vec::new(), labels: Vec::new() }
    }
}

impl Evaluator for ExamplesEvaluator {
    fn test(&mut self, params: &[f32], watch: &TestWatch) -> Result<Score, TrainError> {
        let (width, most) = (self.source.inputs(), self.model.max_block());
        let mut tally = watch.scores.tally();
        self.inputs.resize(most * width, 0.0);
        self.labels.clear();
        let mut read = 0;
        for example in 0..self.examples {
            let at = self.labels.len() * width;
            match self.source.fill(example as u32, 0, &mut self.inputs[at..at + width]) {
                Ok(label) => self.labels.push(label),
                Err(error) if self.on_bad == OnBad::Skip && error.is_bad_example() => {}
                Err(error) => return Err(error.into()),
            }
            let is_last = example + 1 == self.examples;
            if self.labels.len() == most || is_last && !self.labels.is_empty() {
                let block = Batch::dense(&self.inputs[..self.labels.len() * width], &self.labels);
                self.model.evaluate(params, block, &mut tally);
                watch.scores.hand_over(&mut tally, &self.labels);
                read += self.labels.len();
                self.labels.clear();
                watch.tested(example + 1, self.examples)?;
            }
        }
        counted(&tally, read)
    }
}

/// Tests on sparse rows with a model that sees all its parameters.
pub(crate) struct RowEvaluator {
    rows: SparseRows,
    examples: usize,
    model: Box<dyn Model>,
    buffer: SparseBuffer,
}

impl RowEvaluator {
    /// Tests on the first `examples` of the rows, or all.
    pub(crate) fn new(rows: SparseRows, examples: Option<usize>, model: Box<dyn Model>) -> Self {
        let examples = examples.map_or(rows.len(), |examples| examples.min(rows.len()));
        Self { rows, examples, model, buffer: SparseBuffer::default() }
    }
}

impl Evaluator for RowEvaluator {
    fn test(&mut self, params: &[f32], watch: &TestWatch) -> Result<Score, TrainError> {
        let mut tally = watch.scores.tally();
        let most = self.model.max_block();
        for from in (0..self.examples).step_by(most) {
            let to = (from + most).min(self.examples);
            self.buffer.fill(&self.rows, from..to);
            let SparseBuffer { starts, keys, values, labels, fields, .. } = &self.buffer;
            let rows = Rows { starts, places: keys, values };
            let batch = Batch::sparse(rows, labels).with_fields(fields);
            self.model.evaluate(params, batch, &mut tally);
            watch.scores.hand_over(&mut tally, labels);
            watch.tested(to, self.examples)?;
        }
        counted(&tally, self.examples)
    }
}
