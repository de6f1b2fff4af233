//! Testing: how well the parameters of some step do on examples that were not trained on.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::Scope;

use paceline_data::{BatchBuffer, Examples, Images, OnBad, Patches};
use paceline_model::{Batch, Model, Score, SharedPatches, Tally};

use crate::Failure;

/// Somebody who can tell how good parameters are.
pub trait Examiner: Send {
    /// The keys of the parameters that it wants to see, sorted; none if it wants to see all.
    fn keys(&self) -> Option<Arc<[u32]>>;

    /// How well those parameters do.
    fn test(&mut self, params: &[f32]) -> Result<Score, Failure>;
}

/// Tests parameters on the first examples of a set of images.
pub struct Tester<'a> {
    images: &'a Images,
    examples: usize,
    model: Box<dyn Model>,
    buffer: BatchBuffer,
}

impl<'a> Tester<'a> {
    /// A tester over the first `examples` of the images, or all.
    pub fn new(images: &'a Images, examples: Option<usize>, model: Box<dyn Model>) -> Self {
        let examples = examples.map_or(images.len(), |examples| examples.min(images.len()));
        Self { images, examples, model, buffer: BatchBuffer::default() }
    }
}

impl Examiner for Tester<'_> {
    fn keys(&self) -> Option<Arc<[u32]>> {
        None
    }

    fn test(&mut self, params: &[f32]) -> Result<Score, Failure> {
        let mut tally = Tally::default();
        let most = self.model.max_block();
        for from in (0..self.examples).step_by(most) {
            let to = (from + most).min(self.examples);
            self.buffer.fill(self.images, from..to);
            let block = Batch::dense(&self.buffer.inputs, &self.buffer.labels);
            self.model.evaluate(params, block, &mut tally);
        }
        Ok(tally.score())
    }
}

/// Tests parameters on the first of a set of images that are mostly empty.
pub struct PatchyTester {
    patches: Patches,
    /// The numbers of the examples, one after the other.
    which: Vec<u32>,
    model: Box<dyn Model>,
}

impl PatchyTester {
    /// A tester over the first `examples` of the images, or all.
    pub fn new(patches: Patches, examples: Option<usize>, model: Box<dyn Model>) -> Self {
        let all = patches.labels().len();
        let which = (0..examples.unwrap_or(all).min(all) as u32).collect();
        Self { patches, which, model }
    }
}

impl Examiner for PatchyTester {
    fn keys(&self) -> Option<Arc<[u32]>> {
        None
    }

    fn test(&mut self, params: &[f32]) -> Result<Score, Failure> {
        let mut tally = Tally::default();
        let most = self.model.max_block();
        let (words, starts) = (self.patches.words(), self.patches.starts());
        for (which, labels) in self.which.chunks(most).zip(self.patches.labels().chunks(most)) {
            let block =
                Batch::patches(SharedPatches { words, starts, which }, &labels[..which.len()]);
            self.model.evaluate(params, block, &mut tally);
        }
        Ok(tally.score())
    }
}

/// Tests parameters on the first examples of any dense source.
pub struct SourceTester {
    source: Arc<dyn Examples>,
    examples: usize,
    on_bad: OnBad,
    model: Box<dyn Model>,
    inputs: Vec<f32>,
    labels: Vec<u32>,
}

impl SourceTester {
    /// A tester over the first `examples` of the source, or all. Examples that cannot be read
    /// are left out, or end the program's run at the first test.
    pub fn new(
        source: Arc<dyn Examples>,
        examples: Option<usize>,
        on_bad: OnBad,
        model: Box<dyn Model>,
    ) -> Self {
        let examples = examples.map_or(source.len(), |examples| examples.min(source.len()));
        Self { source, examples, on_bad, model, inputs: Vec::new(), labels: Vec::new() }
    }
}

impl Examiner for SourceTester {
    fn keys(&self) -> Option<Arc<[u32]>> {
        None
    }

    fn test(&mut self, params: &[f32]) -> Result<Score, Failure> {
        let (width, most) = (self.source.inputs(), self.model.max_block());
        let mut tally = Tally::default();
        self.inputs.resize(most * width, 0.0);
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
                self.labels.clear();
            }
        }
        Ok(tally.score())
    }
}

/// What a test came to: the step whose parameters were tested, and how well they did.
pub type Tested = Result<(u64, Score), Failure>;

/// Tests that are made while training goes on, or in between.
pub trait Tests {
    /// The keys of the parameters that are tested, sorted; none for all.
    fn keys(&self) -> Option<Arc<[u32]>>;

    /// Whether no other test is going on, so that one can begin.
    fn is_free(&self) -> bool {
        true
    }

    /// Begins to test the parameters of a step.
    fn begin(&mut self, step: u64, params: &[f32]);

    /// The result of a test that has come to its end since the last call.
    fn result(&mut self) -> Option<Tested>;

    /// The result of the test that is going on, waited for; none if there is none.
    fn wait(&mut self) -> Option<Tested>;

    /// Tests now.
    fn test(&mut self, params: &[f32]) -> Result<Score, Failure>;
}

/// Tests between two steps: nothing else goes on meanwhile, so equal seeds stop at equal steps.
pub struct InBetween<'a> {
    examiner: Box<dyn Examiner + 'a>,
    result: Option<Tested>,
}

impl<'a> InBetween<'a> {
    /// Tests made by this examiner.
    pub fn new(examiner: Box<dyn Examiner + 'a>) -> Self {
        Self { examiner, result: None }
    }
}

impl Tests for InBetween<'_> {
    fn keys(&self) -> Option<Arc<[u32]>> {
        self.examiner.keys()
    }

    fn begin(&mut self, step: u64, params: &[f32]) {
        self.result = Some(self.examiner.test(params).map(|score| (step, score)));
    }

    fn result(&mut self) -> Option<Tested> {
        self.result.take()
    }

    fn wait(&mut self) -> Option<Tested> {
        self.result.take()
    }

    fn test(&mut self, params: &[f32]) -> Result<Score, Failure> {
        self.examiner.test(params)
    }
}

/// Tests on a thread of their own, at most one at a time: training goes on meanwhile.
pub struct Aside {
    orders: SyncSender<(u64, Vec<f32>)>,
    results: Receiver<(Tested, Vec<f32>)>,
    /// The copy of the parameters, when the thread does not have it.
    copy: Option<Vec<f32>>,
    keys: Option<Arc<[u32]>>,
}

impl Aside {
    /// Starts the thread, which ends when this is dropped.
    pub fn start<'scope, 'a: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        mut examiner: Box<dyn Examiner + 'a>,
    ) -> Self {
        let keys = examiner.keys();
        let (orders, incoming) = sync_channel::<(u64, Vec<f32>)>(1);
        let (outgoing, results) = sync_channel(1);
        scope.spawn(move || {
            for (step, params) in incoming {
                let tested = examiner.test(&params).map(|score| (step, score));
                if outgoing.send((tested, params)).is_err() {
                    return;
                }
            }
        });
        Self { orders, results, copy: Some(Vec::new()), keys }
    }
}

impl Tests for Aside {
    fn keys(&self) -> Option<Arc<[u32]>> {
        self.keys.clone()
    }

    fn is_free(&self) -> bool {
        self.copy.is_some()
    }

    fn begin(&mut self, step: u64, params: &[f32]) {
        let Some(mut copy) = self.copy.take() else { unreachable!("a test is going on") };
        copy.clear();
        copy.extend_from_slice(params);
        // A thread that is gone has panicked, which the end of its scope tells.
        let _ = self.orders.send((step, copy));
    }

    fn result(&mut self) -> Option<Tested> {
        if self.copy.is_some() {
            return None;
        }
        match self.results.try_recv() {
            Ok((tested, copy)) => {
                self.copy = Some(copy);
                Some(tested)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    fn wait(&mut self) -> Option<Tested> {
        if self.copy.is_some() {
            return None;
        }
        let (tested, copy) = self.results.recv().ok()?;
        self.copy = Some(copy);
        Some(tested)
    }

    fn test(&mut self, params: &[f32]) -> Result<Score, Failure> {
        self.wait();
        self.begin(0, params);
        let Some(tested) = self.wait() else { unreachable!("a test is going on") };
        tested.map(|(_, score)| score)
    }
}
