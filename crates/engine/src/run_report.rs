//! The result of a run.

use paceline_model::Score;
use paceline_observe::{RunVerdict, Summary, TaskSummary, judge};

use crate::settings::TrainSettings;
use crate::stop_reason::StopReason;
use crate::task_place::TaskPlace;

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
    pub(crate) global_steps: u64,
    pub(crate) started_at: u64,
    pub(crate) train_loss: f64,
    pub(crate) score: Score,
    pub(crate) tasks: Vec<TaskSummary>,
}

/// The summary of a run, from what its tasks did and what the coordinator knows.
pub(crate) fn summarise(facts: RunFacts<'_>) -> Summary {
    let RunFacts { settings, place, score, started_at, mut tasks, .. } = facts;
    let RunVerdict { verdict, ranking } = judge(settings.mode.name(), &mut tasks);
    // Workers start together but need not end together.
    let trained = tasks.iter().filter(|task| task.examples > 0);
    let seconds = trained.map(|task| task.seconds).fold(0.0, f64::max);
    let examples = tasks.iter().map(|task| task.examples).sum();
    let steps = facts.global_steps.saturating_sub(started_at);
    let moved: u64 = tasks.iter().map(|task| task.sent_bytes).sum();
    Summary {
        name: facts.name.to_owned(),
        mode: settings.mode.name().to_owned(),
        workers: place.processes.len(),
        servers: place.servers.len(),
        batch: settings.batch,
        stop_reason: facts.reason.unwrap_or(StopReason::Steps).name().to_owned(),
        resumed_from: Some(started_at).filter(|&step| step > 0),
        global_steps: facts.global_steps,
        examples,
        lost_pushes: tasks.iter().map(|task| task.lost).sum(),
        seconds,
        train_loss: facts.train_loss,
        test_loss: score.loss,
        test_accuracy: score.accuracy,
        test_log_loss: score.is_two_class.then_some(score.loss),
        test_auc: score.auc,
        test_auc_undefined: score.auc_undefined().map(str::to_owned),
        test_precision: score.precision,
        steps_per_second: steps as f64 / seconds,
        examples_per_second: examples as f64 / seconds,
        bytes_per_step: moved as f64 / steps as f64,
        verdict: Some(verdict),
        ranking,
        tasks,
    }
}

/// How a run ended, in a line for the log.
pub(crate) fn ending(summary: &Summary) -> String {
    let verdict = summary.verdict.as_ref().map_or("", |verdict| &verdict.text);
    format!(
        "done ({}) at step {}: test loss {:.4}, accuracy {:.2} %; {verdict}",
        summary.stop_reason,
        summary.global_steps,
        summary.test_loss,
        100.0 * summary.test_accuracy,
    )
}
