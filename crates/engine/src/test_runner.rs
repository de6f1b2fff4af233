//! Runs tests between steps, or on a thread of their own.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::Scope;

use paceline_model::Score;

use crate::error::TrainError;
use crate::evaluator::Evaluator;

/// The result of a test: the step whose parameters were tested, and their score.
pub(crate) type TestResult = Result<(u64, Score), TrainError>;

/// Runs one test at a time.
pub(crate) trait TestRunner {
    /// The keys of the parameters to test, sorted; `None` for all.
    fn keys(&self) -> Option<Arc<[u32]>>;

    /// Whether a new test can start.
    fn is_free(&self) -> bool {
        true
    }

    /// Starts to test the parameters of `step`.
    fn begin(&mut self, step: u64, params: &[f32]);

    /// The result of a test that has ended since the last call.
    fn result(&mut self) -> Option<TestResult>;

    /// Waits for the running test; `None` if no test is running.
    fn wait(&mut self) -> Option<TestResult>;

    /// Tests now, and waits for the score.
    fn test(&mut self, params: &[f32]) -> Result<Score, TrainError>;
}

/// Tests between two steps. Nothing runs meanwhile, so equal seeds stop at equal steps.
pub(crate) struct InlineEvaluator<'a> {
    evaluator: Box<dyn Evaluator + 'a>,
    result: Option<TestResult>,
}

impl<'a> InlineEvaluator<'a> {
    /// Tests with this evaluator.
    pub(crate) fn new(evaluator: Box<dyn Evaluator + 'a>) -> Self {
        Self { evaluator, result: None }
    }
}

impl TestRunner for InlineEvaluator<'_> {
    fn keys(&self) -> Option<Arc<[u32]>> {
        self.evaluator.keys()
    }

    fn begin(&mut self, step: u64, params: &[f32]) {
        self.result = Some(self.evaluator.test(params).map(|score| (step, score)));
    }

    fn result(&mut self) -> Option<TestResult> {
        self.result.take()
    }

    fn wait(&mut self) -> Option<TestResult> {
        self.result.take()
    }

    fn test(&mut self, params: &[f32]) -> Result<Score, TrainError> {
        self.evaluator.test(params)
    }
}

/// Tests on a thread of its own while training continues.
pub(crate) struct BackgroundEvaluator {
    requests: SyncSender<(u64, Vec<f32>)>,
    results: Receiver<(TestResult, Vec<f32>)>,
    /// The copy of the parameters, while the thread does not have it.
    copy: Option<Vec<f32>>,
    keys: Option<Arc<[u32]>>,
}

impl BackgroundEvaluator {
    /// Starts the thread, which ends when this is dropped.
    pub(crate) fn start<'scope, 'a: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        mut evaluator: Box<dyn Evaluator + 'a>,
    ) -> Self {
        let keys = evaluator.keys();
        let (requests, incoming) = sync_channel::<(u64, Vec<f32>)>(1);
        let (outgoing, results) = sync_channel(1);
        scope.spawn(move || {
            for (step, params) in incoming {
                let result = evaluator.test(&params).map(|score| (step, score));
                if outgoing.send((result, params)).is_err() {
                    return;
                }
            }
        });
        Self { requests, results, copy: Some(Vec::new()), keys }
    }
}

impl TestRunner for BackgroundEvaluator {
    fn keys(&self) -> Option<Arc<[u32]>> {
        self.keys.clone()
    }

    fn is_free(&self) -> bool {
        self.copy.is_some()
    }

    fn begin(&mut self, step: u64, params: &[f32]) {
        let Some(mut copy) = self.copy.take() else { unreachable!("a test is running") };
        copy.clear();
        copy.extend_from_slice(params);
        // If the thread has panicked, the end of its scope reports it.
        let _ = self.requests.send((step, copy));
    }

    fn result(&mut self) -> Option<TestResult> {
        if self.copy.is_some() {
            return None;
        }
        match self.results.try_recv() {
            Ok((result, copy)) => {
                self.copy = Some(copy);
                Some(result)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    fn wait(&mut self) -> Option<TestResult> {
        if self.copy.is_some() {
            return None;
        }
        let (result, copy) = self.results.recv().ok()?;
        self.copy = Some(copy);
        Some(result)
    }

    fn test(&mut self, params: &[f32]) -> Result<Score, TrainError> {
        self.wait();
        self.begin(0, params);
        let Some(result) = self.wait() else { unreachable!("a test is running") };
        result.map(|(_, score)| score)
    }
}
