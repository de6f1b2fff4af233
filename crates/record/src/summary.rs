//! `summary.json`: the run in numbers.

use std::io;
use std::ops::Deref;
use std::path::Path;

use paceline_filemap::read_regular;
use paceline_observe::Summary;
use paceline_observe::verdict::evidence_in;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::RunFileError;
use crate::names::files;
use crate::run_dir::RunDir;

/// The longest summary that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// The text of a summary file.
///
/// # Errors
/// If it cannot be read, is not a regular file, or is longer than 64 MiB.
pub fn read_summary(path: &Path) -> io::Result<String> {
    String::from_utf8(read_regular(path, MAX_BYTES)?).map_err(io::Error::other)
}

/// Writes [`files::SUMMARY`] of a run. The file is complete or absent.
pub fn write_summary(run: &RunDir, summary: &Summary) -> Result<(), RunFileError> {
    let path = run.path().join(files::SUMMARY);
    let json = serde_json::to_vec_pretty(summary);
    let mut json = json.map_err(|error| RunFileError::at("write", &path)(error.into()))?;
    json.push(b'\n');
    run.write(files::SUMMARY, &json)
}

/// A summary that was read from a file of any version: what the file does not say has its default
/// in the [`Summary`], and figures of unknown names can be read by [`number`](Self::number).
///
/// ```
/// use paceline_record::StoredSummary;
///
/// let text = r#"{"mode": "sync", "test_loss": 0.25, "seconds": null}"#;
/// let summary = StoredSummary::parse(text).unwrap();
/// assert_eq!((summary.mode.as_str(), summary.test_loss), ("sync", 0.25));
/// assert_eq!(summary.number("seconds"), None);
/// ```
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

    /// The evidence for the verdict; empty if the file has no verdict.
    pub fn verdict_evidence(&self) -> &str {
        let verdict = self.fields.get("verdict");
        let evidence = verdict.and_then(|verdict| verdict["evidence"].as_str());
        evidence.unwrap_or_else(|| evidence_in(self.verdict_text()))
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
    use paceline_observe::TaskSummary;

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
    fn evidence_is_a_field_or_a_part_of_the_text() {
        for (text, evidence) in [
            (r#"{"verdict": "network: full; try less"}"#, "full"),
            (r#"{"verdict": {"text": "input: slow; try more"}}"#, "slow"),
            (r#"{"verdict": {"text": "input: slow; try more", "evidence": "so"}}"#, "so"),
            ("{}", ""),
        ] {
            assert_eq!(StoredSummary::parse(text).unwrap().verdict_evidence(), evidence);
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
            test_auc: Some(Some(0.75)),
            ..Summary::default()
        };
        let text = serde_json::to_string(&written).unwrap();
        let read = StoredSummary::parse(&text).unwrap();
        assert_eq!(serde_json::to_string(&*read).unwrap(), text);
        assert_eq!(read.examples_per_step(), Some(10.0));
        assert_eq!((read.number("test_auc"), read.tasks[0].steps), (Some(0.75), 7));
    }
}
