//! The tests of a run so far, from which its coordinator continues after a rewind or a restart.

use std::collections::VecDeque;

use paceline_checkpoint::{LoggedTest, TestLog};
use paceline_model::Score;
use paceline_observe::{BestSettings, Patience};

use crate::error::TrainError;
use crate::test_runner::StepScore;

/// Most tests in memory.
const MAX_TESTS: usize = 4_096;
/// Most checkpoints whose tests stay in memory: more than a run keeps.
const MAX_MARKS: usize = 64;

/// The last tests of a run, and those that a rewind to a checkpoint needs.
#[derive(Default)]
pub(crate) struct TestHistory {
    tests: Vec<StepScore>,
    /// The steps of the last checkpoints.
    checkpoints: VecDeque<u64>,
    /// Where tests and times are kept for a later process of the run.
    log: Option<TestLog>,
    /// Whether tests are: the run's end depends on them.
    logs_tests: bool,
    /// For how many seconds earlier processes of the run have trained.
    trained_s: f64,
}

/// How tests are judged, if anything depends on it.
pub(crate) type JudgedBy = Option<BestSettings>;

impl TestHistory {
    /// The history of a run that continues from `step`, as an earlier process has logged it.
    pub(crate) fn restore(
        mut log: TestLog,
        step: u64,
        logs_tests: bool,
        judged_by: JudgedBy,
    ) -> Result<Self, TrainError> {
        let mut history = Self { logs_tests, ..Self::default() };
        for test in log.rewind(step)? {
            let tested = judged(of_log(&test), history.tests.last(), judged_by)?;
            history.push(tested);
        }
        history.trained_s = log.trained_s();
        history.log = Some(log);
        Ok(history)
    }

    /// Whether a later process learns of the tests.
    pub(crate) fn is_logged(&self) -> bool {
        self.log.is_some() && self.logs_tests
    }

    /// Writes a test down for a later process.
    pub(crate) fn log(&mut self, test: &StepScore) -> Result<(), TrainError> {
        let Some(log) = self.log.as_mut().filter(|_| self.logs_tests) else { return Ok(()) };
        let StepScore { step, score, .. } = *test;
        let Score { examples, loss, accuracy, auc, .. } = score;
        Ok(log.write(&LoggedTest { step, examples, loss, accuracy, auc })?)
    }

    /// For how many seconds earlier processes of the run have trained.
    pub(crate) fn trained_s(&self) -> f64 {
        self.trained_s
    }

    /// Writes down for how many seconds the run has trained, for a process that continues from the
    /// checkpoint of this step.
    pub(crate) fn log_trained(&mut self, step: u64, seconds: f64) -> Result<(), TrainError> {
        self.log.as_mut().map_or(Ok(()), |log| Ok(log.write_trained(step, seconds)?))
    }

    /// Makes sure that the tests so far survive the machine, as a checkpoint does.
    pub(crate) fn sync(&mut self) -> Result<(), TrainError> {
        self.log.as_mut().map_or(Ok(()), |log| Ok(log.sync()?))
    }

    /// The last test.
    pub(crate) fn last(&self) -> Option<StepScore> {
        self.tests.last().copied()
    }

    /// The test of a step.
    pub(crate) fn of(&self, step: u64) -> Option<StepScore> {
        self.tests.iter().copied().find(|test| test.step == step)
    }

    /// Adds a test.
    pub(crate) fn push(&mut self, test: StepScore) {
        self.tests.push(test);
        self.drop_old();
    }

    /// A checkpoint of this step is requested.
    pub(crate) fn mark(&mut self, step: u64) {
        if self.checkpoints.len() == MAX_MARKS {
            self.checkpoints.pop_front();
        }
        self.checkpoints.push_back(step);
    }

    /// Forgets the tests of later steps than this one.
    pub(crate) fn rewind(&mut self, step: u64) -> Result<(), TrainError> {
        self.tests.retain(|test| test.step <= step);
        self.tests.dedup_by_key(|test| test.step);
        if let Some(log) = &mut self.log {
            log.rewind(step)?;
        }
        Ok(())
    }

    /// Drops old tests if there are too many, except the two before each checkpoint, from which a
    /// rewind continues.
    fn drop_old(&mut self) {
        if self.tests.len() <= MAX_TESTS {
            return;
        }
        let before = |step: &u64| self.tests.partition_point(|test| test.step <= *step);
        let needed: Vec<_> = self.checkpoints.iter().map(before).collect();
        let recent = self.tests.len() - MAX_TESTS / 2;
        let mut at = 0;
        self.tests.retain(|_| {
            at += 1;
            at > recent || needed.iter().any(|&end| (end.saturating_sub(1)..=end).contains(&at))
        });
    }
}

/// A test with the patience after it, which follows from the test before.
pub(crate) fn judged(
    test: StepScore,
    before: Option<&StepScore>,
    judged_by: JudgedBy,
) -> Result<StepScore, TrainError> {
    let Some(settings) = judged_by else { return Ok(test) };
    let before = before.map_or(Patience::default(), |before| before.patience);
    let patience = before.after(&test.score, &settings).map_err(TrainError::Settings)?;
    Ok(StepScore { patience, ..test })
}

fn of_log(test: &LoggedTest) -> StepScore {
    let LoggedTest { step, examples, loss, accuracy, auc } = *test;
    let (precision, recall, is_two_class) = (None, None, auc.is_some());
    let score = Score { examples, loss, accuracy, is_two_class, precision, recall, auc };
    StepScore::new(step, score)
}
