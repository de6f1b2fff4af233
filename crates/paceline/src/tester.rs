//! Testing: how well the parameters of some step do on examples that were not trained on.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::Scope;

use paceline_data::{BatchBuffer, Images};
use paceline_model::{Batch, Model, Score, Tally};

/// Tests parameters on the first examples of a set.
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

    /// How well the parameters do.
    pub fn test(&mut self, params: &[f32]) -> Score {
        let mut tally = Tally::default();
        let most = self.model.max_block();
        for from in (0..self.examples).step_by(most) {
            let to = (from + most).min(self.examples);
            self.buffer.fill(self.images, from..to);
            let block = Batch::dense(&self.buffer.inputs, &self.buffer.labels);
            self.model.evaluate(params, block, &mut tally);
        }
        tally.score()
    }
}

/// Tests that are made while training goes on, or in between.
pub trait Tests {
    /// Begins to test the parameters of a step; false if another test is still going on.
    fn begin(&mut self, step: u64, params: &[f32]) -> bool;

    /// The result of a test that has come to its end since the last call.
    fn result(&mut self) -> Option<(u64, Score)>;

    /// The result of the test that is going on, waited for; none if there is none.
    fn wait(&mut self) -> Option<(u64, Score)>;

    /// Tests now.
    fn test(&mut self, params: &[f32]) -> Score;
}

/// Tests between two steps: nothing else goes on meanwhile, so equal seeds stop at equal steps.
pub struct InBetween<'a> {
    tester: Tester<'a>,
    result: Option<(u64, Score)>,
}

impl<'a> InBetween<'a> {
    /// Tests made by this tester.
    pub fn new(tester: Tester<'a>) -> Self {
        Self { tester, result: None }
    }
}

impl Tests for InBetween<'_> {
    fn begin(&mut self, step: u64, params: &[f32]) -> bool {
        self.result = Some((step, self.tester.test(params)));
        true
    }

    fn result(&mut self) -> Option<(u64, Score)> {
        self.result.take()
    }

    fn wait(&mut self) -> Option<(u64, Score)> {
        self.result.take()
    }

    fn test(&mut self, params: &[f32]) -> Score {
        self.tester.test(params)
    }
}

/// Tests on a thread of their own, at most one at a time: training goes on meanwhile.
pub struct Aside {
    orders: SyncSender<(u64, Vec<f32>)>,
    results: Receiver<(u64, Score, Vec<f32>)>,
    /// The copy of the parameters, when the thread does not have it.
    copy: Option<Vec<f32>>,
}

impl Aside {
    /// Starts the thread, which ends when this is dropped.
    pub fn start<'scope, 'a: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        mut tester: Tester<'a>,
    ) -> Self {
        let (orders, incoming) = sync_channel::<(u64, Vec<f32>)>(1);
        let (outgoing, results) = sync_channel(1);
        scope.spawn(move || {
            for (step, params) in incoming {
                let score = tester.test(&params);
                if outgoing.send((step, score, params)).is_err() {
                    return;
                }
            }
        });
        Self { orders, results, copy: Some(Vec::new()) }
    }
}

impl Tests for Aside {
    fn begin(&mut self, step: u64, params: &[f32]) -> bool {
        let Some(mut copy) = self.copy.take() else { return false };
        copy.clear();
        copy.extend_from_slice(params);
        self.orders.send((step, copy)).is_ok()
    }

    fn result(&mut self) -> Option<(u64, Score)> {
        if self.copy.is_some() {
            return None;
        }
        match self.results.try_recv() {
            Ok((step, score, copy)) => {
                self.copy = Some(copy);
                Some((step, score))
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    fn wait(&mut self) -> Option<(u64, Score)> {
        if self.copy.is_some() {
            return None;
        }
        let (step, score, copy) = self.results.recv().ok()?;
        self.copy = Some(copy);
        Some((step, score))
    }

    fn test(&mut self, params: &[f32]) -> Score {
        self.wait();
        self.begin(0, params);
        self.wait().map_or_else(|| Tally::default().score(), |(_, score)| score)
    }
}
