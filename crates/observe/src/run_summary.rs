//! The run in numbers.

use serde::{Deserialize, Deserializer, Serialize};

use crate::pace::Rank;
use crate::task_summary::TaskSummary;
use crate::verdict::Verdict;

/// The results of a run. Seconds are wall-clock seconds.
///
/// Absent fields have their defaults, so that summaries of older versions can be read. An absent
/// figure is NaN.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default)]
pub struct Summary {
    /// The name of the run.
    pub name: String,
    /// How workers shared the parameters.
    pub mode: String,
    /// The number of workers.
    pub workers: usize,
    /// The number of servers.
    pub servers: usize,
    /// Examples in a worker's batch.
    pub batch: usize,
    /// Which condition ended the run: epochs, steps, seconds, test_loss, patience or
    /// interrupted.
    pub stop_reason: String,
    /// The test that ended the run, if `stop_reason` is test_loss or patience.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_test: Option<StopTest>,
    /// The last test on the validation set, if the run has one. Tests during training then use it,
    /// and `test_loss` and the figures beside it are of the test set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<StopTest>,
    /// The global step of the checkpoint that this session started from. All other figures except
    /// `global_steps` count from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<u64>,
    /// Updates made to the parameters.
    pub global_steps: u64,
    /// Examples trained on.
    pub examples: u64,
    /// Gradients that a server had applied since its last checkpoint and that were lost with it.
    /// Their workers computed them again, so they count twice in steps and examples.
    pub lost_pushes: u64,
    /// From the first step to the end of the last worker, tests included except the final one.
    #[serde(deserialize_with = "figure_or_null", skip_serializing_if = "is_nan")]
    pub seconds: f64,
    /// Mean loss of the last steps, at most 100 of them; NaN without a step.
    #[serde(deserialize_with = "figure_or_null", skip_serializing_if = "is_nan")]
    pub train_loss: f64,
    /// Mean loss over the test examples at the end. NaN if the run was interrupted before its first
    /// test.
    #[serde(skip_serializing_if = "is_nan")]
    pub test_loss: f64,
    /// Share of the test examples that are classified correctly at the end, 0 to 1. NaN like the
    /// loss.
    #[serde(skip_serializing_if = "is_nan")]
    pub test_accuracy: f64,
    /// The global step of the last test, if the run was interrupted before a test of its final
    /// parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_step: Option<u64>,
    /// Two classes: the mean loss again, under its usual name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_log_loss: Option<f64>,
    /// Two classes: the area under the ROC curve at the end; null in the file, and `Some(None)`
    /// here, where it is undefined. Absent for other models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_auc: Option<Option<f64>>,
    /// Two classes: why there is no such area.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_auc_undefined: Option<String>,
    /// Two classes: the share of correct predictions among those of class 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_precision: Option<f64>,
    /// The SHA-256 of the model's file, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_sha256: Option<String>,
    /// The best test during the run, if its parameters are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<BestTest>,
    /// Global steps a second; NaN without a step.
    #[serde(deserialize_with = "figure_or_null", skip_serializing_if = "is_nan")]
    pub steps_per_second: f64,
    /// Examples trained on a second; NaN without a step.
    #[serde(deserialize_with = "figure_or_null", skip_serializing_if = "is_nan")]
    pub examples_per_second: f64,
    /// Bytes moved between tasks for each global step; NaN without a step.
    #[serde(deserialize_with = "figure_or_null", skip_serializing_if = "is_nan")]
    pub bytes_per_step: f64,
    /// What limited the run.
    pub verdict: Option<Verdict>,
    /// The workers by their time to a gradient, the slowest first.
    pub ranking: Vec<Rank>,
    /// What each task did.
    pub tasks: Vec<TaskSummary>,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            name: String::new(),
            mode: String::new(),
            workers: 0,
            servers: 0,
            batch: 0,
            stop_reason: String::new(),
            stop_test: None,
            validation: None,
            resumed_from: None,
            global_steps: 0,
            examples: 0,
            lost_pushes: 0,
            seconds: f64::NAN,
            train_loss: f64::NAN,
            test_loss: f64::NAN,
            test_accuracy: f64::NAN,
            test_step: None,
            test_log_loss: None,
            test_auc: None,
            test_auc_undefined: None,
            test_precision: None,
            model_sha256: None,
            best: None,
            steps_per_second: f64::NAN,
            examples_per_second: f64::NAN,
            bytes_per_step: f64::NAN,
            verdict: None,
            ranking: Vec::new(),
            tasks: Vec::new(),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_nan(figure: &f64) -> bool {
    figure.is_nan()
}

/// Reads a figure; null, which earlier versions wrote for NaN, is NaN.
fn figure_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// The test of the parameters that a run keeps as its best.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BestTest {
    /// The global step of the parameters.
    pub step: u64,
    /// What tests are compared by: loss, accuracy or auc.
    pub metric: String,
    /// Its value.
    pub value: f64,
}

/// A test of a run in short.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct StopTest {
    /// The global step of the parameters that were tested.
    pub step: u64,
    /// The mean loss over the test examples.
    pub loss: f64,
    /// The share of the test examples that are classified correctly, 0 to 1.
    pub accuracy: f64,
}

impl Summary {
    /// The tasks that train.
    pub fn worker_tasks(&self) -> impl Iterator<Item = &TaskSummary> {
        self.tasks.iter().filter(|task| task.is_worker())
    }

    /// Examples in a global step, on average since the session began; `None` before the first.
    pub fn examples_per_step(&self) -> Option<f64> {
        let steps = self.global_steps.saturating_sub(self.resumed_from.unwrap_or(0));
        (steps > 0).then(|| self.examples as f64 / steps as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_a_run_without_a_step_can_be_read() {
        let text = serde_json::to_string(&Summary::default()).unwrap();
        assert!(!text.contains("null,\"examples_per_second\""), "{text}");
        let read: Summary = serde_json::from_str(&text).unwrap();
        assert!(read.train_loss.is_nan() && read.steps_per_second.is_nan());
        // As earlier versions wrote it.
        let text = r#"{"seconds": 0.0, "train_loss": -0.0, "bytes_per_step": null}"#;
        let read: Summary = serde_json::from_str(text).unwrap();
        assert!(read.bytes_per_step.is_nan());
    }
}
