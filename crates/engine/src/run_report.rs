//! The result of a run.

use paceline_observe::{BestTest, RunVerdict, StopReason, StopTest, Summary, TaskSummary, judge};

use crate::settings::TrainSettings;
use crate::task_place::TaskPlace;
use crate::test_runner::StepScore;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// The run in numbers.
    pub summary: Summary,
    /// Why it ended.
    pub reason: Option<StopReason>,
}

impl RunReport {
    /// The share of test examples that the final parameters classify correctly, from 0 to 1.
    pub fn accuracy(&self) -> f64 {
        self.summary.test_accuracy
    }

    /// The mean loss of the final parameters on the test examples.
    pub fn test_loss(&self) -> f64 {
        self.summary.test_loss
    }

    /// Updates made to the parameters.
    pub fn steps(&self) -> u64 {
        self.summary.global_steps
    }

    /// What held the run back, in words.
    pub fn verdict(&self) -> &str {
        self.summary.verdict.as_ref().map_or("", |verdict| &verdict.text)
    }
}

/// What the coordinator knows at the end of a run.
pub(crate) struct RunFacts<'a> {
    pub(crate) name: &'a str,
    pub(crate) settings: &'a TrainSettings,
    pub(crate) place: &'a TaskPlace,
    pub(crate) reason: Option<StopReason>,
    pub(crate) stop_test: Option<StepScore>,
    pub(crate) global_steps: u64,
    pub(crate) started_at: u64,
    pub(crate) train_loss: f64,
    /// The best test, if its parameters are kept.
    pub(crate) best: Option<BestTest>,
    /// The last test during training, if it did not use the examples of the test set.
    pub(crate) validation: Option<StepScore>,
    /// The test of the last parameters on the test set, unless there was none.
    pub(crate) test: Option<StepScore>,
    pub(crate) tasks: Vec<TaskSummary>,
}

/// The summary of a run, from what its tasks did and what the coordinator knows.
pub(crate) fn summarise(facts: RunFacts<'_>) -> Summary {
    let RunFacts { settings, place, test, started_at, mut tasks, .. } = facts;
    let RunVerdict { verdict, ranking } = judge(settings.mode.name(), &mut tasks);
    // Workers start together but need not end together.
    let trained = tasks.iter().filter(|task| task.examples > 0);
    let seconds = trained.map(TaskSummary::training_seconds).fold(0.0, f64::max);
    let examples = tasks.iter().map(|task| task.examples).sum();
    let steps = facts.global_steps.saturating_sub(started_at);
    let score = test.map(|test| test.score);
    let moved: u64 = tasks.iter().map(|task| task.sent_bytes).sum();
    Summary {
        model_sha256: None,
        name: facts.name.to_owned(),
        mode: settings.mode.name().to_owned(),
        workers: place.processes.len(),
        servers: place.servers.len(),
        batch: settings.batch,
        stop_reason: facts.reason.unwrap_or(StopReason::Steps).name().to_owned(),
        stop_test: facts.stop_test.map(stop_test),
        validation: facts.validation.map(stop_test),
        resumed_from: Some(started_at).filter(|&step| step > 0),
        global_steps: facts.global_steps,
        examples,
        lost_pushes: tasks.iter().map(|task| task.lost).sum(),
        seconds,
        train_loss: facts.train_loss,
        test_loss: test.map_or(f64::NAN, |test| test.score.loss),
        test_accuracy: test.map_or(f64::NAN, |test| test.score.accuracy),
        test_log_loss: score.filter(|score| score.is_two_class).map(|score| score.loss),
        test_auc: score.filter(|score| score.is_two_class).map(|score| score.auc),
        test_auc_undefined: score.and_then(|score| score.auc_undefined()).map(str::to_owned),
        test_precision: score.and_then(|score| score.precision),
        test_step: test.map(|test| test.step).filter(|&step| step != facts.global_steps),
        best: facts.best,
        steps_per_second: per(steps, seconds),
        examples_per_second: per(examples, seconds),
        bytes_per_step: per(moved, steps as f64),
        verdict: Some(verdict),
        ranking,
        tasks,
    }
}

/// A quotient; NaN if there is nothing to divide by, as in a run without a step.
fn per(amount: u64, by: f64) -> f64 {
    if by > 0.0 { amount as f64 / by } else { f64::NAN }
}

fn stop_test(test: StepScore) -> StopTest {
    let StepScore { step, score, .. } = test;
    StopTest { step, loss: score.loss, accuracy: score.accuracy }
}

/// How a run ended, in a line for the log.
pub(crate) fn ending(summary: &Summary) -> String {
    let verdict = summary.verdict.as_ref().map_or("", |verdict| &verdict.text);
    let (loss, accuracy) = (summary.test_loss, 100.0 * summary.test_accuracy);
    let test = match summary.test_step {
        _ if loss.is_nan() => "not tested".to_owned(),
        None => format!("test loss {loss:.4}, accuracy {accuracy:.2} %"),
        Some(step) => format!("test loss {loss:.4}, accuracy {accuracy:.2} % at step {step}"),
    };
    format!("done ({}) at step {}: {test}; {verdict}", summary.stop_reason, summary.global_steps)
}
