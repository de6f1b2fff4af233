//! Runs tests between steps, or on a separate thread.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use paceline_model::Score;
use paceline_observe::Patience;

use crate::error::TrainError;
use crate::evaluator::Evaluator;
use crate::test_watch::TestWatch;

/// A test's score and the global step of the parameters that were tested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepScore {
    pub(crate) step: u64,
    pub(crate) score: Score,
    /// How long the test took.
    pub(crate) took: Duration,
    /// How long tests have not become better, once the coordinator has judged this one.
    pub(crate) patience: Patience,
}

impl StepScore {
    /// A test that took no time and is not judged yet.
    pub(crate) fn new(step: u64, score: Score) -> Self {
        Self { step, score, took: Duration::ZERO, patience: Patience::default() }
    }
}

/// The result of a test.
pub(crate) type TestResult = Result<StepScore, TrainError>;

/// A copy of the parameters of a step, on its way to the thread that tests them.
struct TestRequest {
    step: u64,
    params: Vec<f32>,
}

/// The result of a test, with the memory of the parameters for the next one.
struct TestReply {
    /// Or the panic that ended the test, which the waiting thread passes on.
    result: thread::Result<TestResult>,
    params: Vec<f32>,
}

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
}

/// Tests between two steps. Nothing runs meanwhile, so equal seeds stop at equal steps.
pub(crate) struct InlineEvaluator<'a> {
    evaluator: Box<dyn Evaluator + 'a>,
    watch: TestWatch,
    result: Option<TestResult>,
}

impl<'a> InlineEvaluator<'a> {
    /// Tests with this evaluator.
    pub(crate) fn new(evaluator: Box<dyn Evaluator + 'a>, watch: TestWatch) -> Self {
        Self { evaluator, watch, result: None }
    }
}

impl TestRunner for InlineEvaluator<'_> {
    fn keys(&self) -> Option<Arc<[u32]>> {
        self.evaluator.keys()
    }

    fn begin(&mut self, step: u64, params: &[f32]) {
        self.result = Some(timed_test(&mut *self.evaluator, &mut self.watch, step, params));
    }

    fn result(&mut self) -> Option<TestResult> {
        self.result.take()
    }

    fn wait(&mut self) -> Option<TestResult> {
        self.result.take()
    }
}

fn timed_test(
    evaluator: &mut dyn Evaluator,
    watch: &mut TestWatch,
    step: u64,
    params: &[f32],
) -> TestResult {
    let start = Instant::now();
    watch.begin();
    let score = evaluator.test(params, watch)?;
    Ok(StepScore { took: start.elapsed(), ..StepScore::new(step, score) })
}

/// Tests on a separate thread while training continues.
pub(crate) struct BackgroundEvaluator {
    requests: SyncSender<TestRequest>,
    results: Receiver<TestReply>,
    /// The copy of the parameters, while the thread does not have it.
    copy: Option<Vec<f32>>,
    keys: Option<Arc<[u32]>>,
    watch: TestWatch,
}

impl BackgroundEvaluator {
    /// Starts the thread, which ends when this is dropped.
    pub(crate) fn start<'scope, 'a: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        mut evaluator: Box<dyn Evaluator + 'a>,
        watch: TestWatch,
    ) -> Self {
        let keys = evaluator.keys();
        watch.set_awaited(false);
        let mut watching = watch.clone();
        let (requests, incoming) = sync_channel::<TestRequest>(1);
        let (outgoing, results) = sync_channel(1);
        scope.spawn(move || {
            for TestRequest { step, params } in incoming {
                let test = || timed_test(&mut *evaluator, &mut watching, step, &params);
                let result = catch_unwind(AssertUnwindSafe(test));
                if outgoing.send(TestReply { result, params }).is_err() {
                    return;
                }
            }
        });
        Self { requests, results, copy: Some(Vec::new()), keys, watch }
    }

    fn take(&mut self, TestReply { result, params }: TestReply) -> TestResult {
        self.copy = Some(params);
        result.unwrap_or_else(|panic| resume_unwind(panic))
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
        // The thread ends only when this is dropped, or after it has reported a panic.
        let _ = self.requests.send(TestRequest { step, params: copy });
    }

    fn result(&mut self) -> Option<TestResult> {
        if self.copy.is_some() {
            return None;
        }
        match self.results.try_recv() {
            Ok(reply) => Some(self.take(reply)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    fn wait(&mut self) -> Option<TestResult> {
        if self.copy.is_some() {
            return None;
        }
        self.watch.set_awaited(true);
        let reply = self.results.recv();
        self.watch.set_awaited(false);
        Some(self.take(reply.ok()?))
    }
}
