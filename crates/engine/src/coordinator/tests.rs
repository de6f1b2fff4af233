use std::io;
use std::sync::Arc;

use paceline_model::Score;
use paceline_observe::{ProgressReport, TestLoad};

use super::*;

#[derive(Default)]
struct ProgressLog(Vec<ProgressReport>);

impl Recorder for ProgressLog {
    fn progress(&mut self, _now: Instant, report: &dyn Fn() -> ProgressReport) -> io::Result<()> {
        self.0.push(report());
        Ok(())
    }
}

struct NoTests;

impl TestRunner for NoTests {
    fn keys(&self) -> Option<Arc<[u32]>> {
        None
    }
    fn begin(&mut self, _step: u64, _params: &[f32]) {}
    fn result(&mut self) -> Option<TestResult> {
        None
    }
    fn wait(&mut self) -> Option<TestResult> {
        None
    }
}

fn coordinator() -> Coordinator<'static> {
    let load = TestLoad { examples: 1, relative_cost: 1.0, threads: 1, loop_threads: 1, batch: 10 };
    Coordinator::new(CoordinatorConfig {
        stop: Stop { steps: Some(5_000), ..Stop::default() },
        best: BestSettings::default(),
        keeper: None,
        history: TestHistory::default(),
        pacer: TestPacer::new(Some(1_000), load, 0),
        checkpoint: None,
        started_at: 0,
        joined_at: 0,
        epoch_steps: None,
        examples_per_step: 10,
        has_exact_steps: true,
        tests: Box::new(NoTests),
        reproducible: false,
        context: &(),
    })
}

#[test]
fn progress_begins_with_a_long_first_step() {
    let mut log = ProgressLog::default();
    let mut coordinator = coordinator();
    let now = coordinator.started + Duration::from_secs(2);
    coordinator.report_progress(1, now, &mut log).unwrap();
    assert_eq!(log.0[0].examples_per_second, 5.0);
    coordinator.report_progress(2, now + Duration::from_secs(1), &mut log).unwrap();
    assert_eq!(log.0[1].examples_per_second, 10.0, "without the first step");
}

#[test]
fn a_short_first_step_does_not_count_for_the_rate() {
    let mut log = ProgressLog::default();
    let mut coordinator = coordinator();
    // Most of it goes to memory that is used for the first time.
    let first = coordinator.started + Duration::from_millis(600);
    coordinator.report_progress(1, first, &mut log).unwrap();
    assert!(log.0.is_empty(), "there is no rate yet");
    coordinator.report_progress(101, first + Duration::from_millis(100), &mut log).unwrap();
    assert_eq!(log.0[0].examples_per_second.round(), 10_000.0);
    assert_eq!(log.0[0].left.unwrap().as_millis(), 4_899);
}

#[test]
fn progress_does_not_count_what_others_did_before() {
    let mut log = ProgressLog::default();
    let mut coordinator = coordinator();
    // When worker 0 has made its first step, other workers have made 3,000.
    let first = coordinator.started + Duration::from_micros(50);
    coordinator.report_progress(3_000, first, &mut log).unwrap();
    assert!(log.0.is_empty(), "there is no rate yet");
    let later = first + Duration::from_secs(1);
    coordinator.report_progress(3_020, later, &mut log).unwrap();
    assert_eq!(log.0[0].examples_per_second, 200.0);
    assert_eq!(log.0[0].left, Some(Duration::from_secs(99)));
}

#[test]
fn a_test_during_training_is_the_last_one_only_if_the_step_defines_the_parameters() {
    let mut coordinator = coordinator();
    let (precision, recall, auc, is_two_class) = (None, None, None, false);
    let score =
        Score { examples: 9, loss: 0.5, accuracy: 0.8, is_two_class, precision, recall, auc };
    coordinator.last_test = Some(StepScore::new(7, score));
    assert!(coordinator.has_tested(7) && !coordinator.has_tested(8));
    // Another server may have applied a push that the test has not seen.
    coordinator.config.has_exact_steps = false;
    assert!(!coordinator.has_tested(7));
}
