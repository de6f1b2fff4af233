//! `summary.json`: the run in numbers.

use std::ops::Deref;

use paceline_observe::{Rank, TaskSummary, Verdict};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::RunFileError;
use crate::names::files;
use crate::run_dir::RunDir;

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
    /// Which condition ended the run: epochs, steps, seconds, test_loss or interrupted.
    pub stop_reason: String,
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
    /// From the first step to the end of the last worker, tests included.
    pub seconds: f64,
    /// Mean loss of the last steps, at most 100 of them.
    pub train_loss: f64,
    /// Mean loss over the test examples at the end.
    pub test_loss: f64,
    /// Share of the test examples that are classified correctly at the end, 0 to 1.
    pub test_accuracy: f64,
    /// Two classes: the mean loss again, under its usual name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_log_loss: Option<f64>,
    /// Two classes: the area under the ROC curve at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_auc: Option<f64>,
    /// Two classes: the share of correct predictions among those of class 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_precision: Option<f64>,
    /// Global steps a second.
    pub steps_per_second: f64,
    /// Examples trained on a second.
    pub examples_per_second: f64,
    /// Bytes moved between tasks for each global step.
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
            resumed_from: None,
            global_steps: 0,
            examples: 0,
            lost_pushes: 0,
            seconds: f64::NAN,
            train_loss: f64::NAN,
            test_loss: f64::NAN,
            test_accuracy: f64::NAN,
            test_log_loss: None,
            test_auc: None,
            test_precision: None,
            steps_per_second: f64::NAN,
            examples_per_second: f64::NAN,
            bytes_per_step: f64::NAN,
            verdict: None,
            ranking: Vec::new(),
            tasks: Vec::new(),
        }
    }
}

impl Summary {
    /// Writes [`files::SUMMARY`] of a run. The file is complete or absent.
    pub fn write(&self, run: &RunDir) -> Result<(), RunFileError> {
        let path = run.path().join(files::SUMMARY);
        let json = serde_json::to_vec_pretty(self);
        let mut json = json.map_err(|error| RunFileError::at("write", &path)(error.into()))?;
        json.push(b'\n');
        run.write(files::SUMMARY, &json)
    }

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

/// A summary that was read from a file of any version: what the file does not say has its default
/// in the [`Summary`], and figures of unknown names can be read by [`number`](Self::number).
#[derive(Clone, Debug, Default)]
pub struct StoredSummary {
    summary: Summary,
    fields: Map<String, Value>,
}

impl StoredSummary {
    /// Reads the text of a summary file; `None` if it is not a JSON object.
    pub fn parse(text: &str) -> Option<Self> {
        let Ok(Value::Object(fields)) = serde_json::from_str(text) else { return None };
        let tasks = fields.get("tasks").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let tasks = tasks.iter().filter_map(Value::as_object).map(read_fields).collect();
        Some(Self { summary: Summary { tasks, ..read_fields(&fields) }, fields })
    }

    /// A figure by its name in the file; `None` if it is absent or not a finite number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.fields.get(name)?.as_f64().filter(|number| number.is_finite())
    }

    /// The verdict's sentence; empty if the file has none. In old files it is the whole verdict.
    pub fn verdict_text(&self) -> &str {
        let verdict = self.fields.get("verdict");
        let text = verdict.and_then(|verdict| verdict.as_str().or(verdict["text"].as_str()));
        text.unwrap_or_default()
    }

    /// All fields of the file.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }
}

impl Deref for StoredSummary {
    type Target = Summary;

    fn deref(&self) -> &Summary {
        &self.summary
    }
}

/// Reads the fields that have the right type, and leaves the others at their defaults.
fn read_fields<T: DeserializeOwned + Default>(fields: &Map<String, Value>) -> T {
    let read = |fields: Map<String, Value>| serde_json::from_value(Value::Object(fields));
    read(fields.clone()).unwrap_or_else(|_| {
        let is_sound = |(name, value): &(&String, &Value)| {
            read(Map::from_iter([((*name).clone(), (*value).clone())])).is_ok_and(|_: T| true)
        };
        let sound = fields.iter().filter(is_sound);
        let sound = sound.map(|(name, value)| (name.clone(), value.clone())).collect();
        read(sound).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_null_figures_are_unknown() {
        let text = r#"{"mode": "sync", "seconds": null, "later": [1], "tasks": [{"task": "ps:0",
            "steps": "many", "sent_bytes": 5}]}"#;
        let summary = StoredSummary::parse(text).unwrap();
        assert_eq!((summary.mode.as_str(), summary.workers), ("sync", 0));
        assert_eq!(summary.number("seconds"), None);
        assert!(summary.seconds.is_nan() && summary.test_loss.is_nan());
        assert!(summary.verdict_text().is_empty());
        let [task] = &summary.tasks[..] else { panic!("{summary:?}") };
        assert_eq!((task.task.as_str(), task.steps, task.sent_bytes), ("ps:0", 0, 5));
        assert!(StoredSummary::parse("[]").is_none() && StoredSummary::parse("{").is_none());
    }

    #[test]
    fn a_verdict_is_text_or_has_one() {
        for text in [r#"{"verdict": "network"}"#, r#"{"verdict": {"text": "network"}}"#] {
            assert_eq!(StoredSummary::parse(text).unwrap().verdict_text(), "network");
        }
    }

    #[test]
    fn a_summary_reads_as_it_was_written() {
        let tasks = vec![TaskSummary { task: "worker:0".into(), steps: 7, ..Default::default() }];
        let written = Summary {
            global_steps: 30,
            resumed_from: Some(10),
            examples: 200,
            tasks,
            test_auc: Some(0.75),
            ..Summary::default()
        };
        let text = serde_json::to_string(&written).unwrap();
        let read = StoredSummary::parse(&text).unwrap();
        assert_eq!(serde_json::to_string(&*read).unwrap(), text);
        assert_eq!(read.examples_per_step(), Some(10.0));
        assert_eq!((read.number("test_auc"), read.tasks[0].steps), (Some(0.75), 7));
    }
}
