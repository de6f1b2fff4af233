//! `summary.json` as a reader of many versions sees it: what is not there is not known.

use serde_json::Value;

/// What a run came to, as far as its summary says.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How workers shared the parameters.
    pub mode: String,
    /// How many workers there were.
    pub workers: u64,
    /// Examples a worker took a step.
    pub batch: u64,
    /// Which condition ended the run.
    pub stop_reason: String,
    /// What held the run back, in a sentence; empty if nobody has said.
    pub verdict: String,
    /// What each task did.
    pub tasks: Vec<TaskSummary>,
    whole: Value,
}

/// What one task did.
#[derive(Clone, Debug, Default)]
pub struct TaskSummary {
    /// Its name, such as `worker:0`.
    pub name: String,
    /// Steps it took.
    pub steps: u64,
    /// Wall clock from its first step to its last.
    pub seconds: f64,
    /// Where those seconds went.
    pub phases: Vec<(String, f64)>,
    /// Of those, how long tests kept it from its steps.
    pub evaluation_seconds: f64,
    /// Bytes it sent to other tasks.
    pub sent_bytes: f64,
    /// How busy its machine's cores were, on average.
    pub cpu_percent: Option<f64>,
    /// The same at the busiest.
    pub peak_cpu_percent: Option<f64>,
    /// The most that it sent or received in one look's time.
    pub peak_network_bytes_per_s: Option<f64>,
    /// Processor time of its whole life.
    pub cpu_seconds: Option<f64>,
    /// The most memory it held at any time.
    pub peak_rss_bytes: Option<f64>,
}

impl TaskSummary {
    /// Whether it trains.
    pub fn is_worker(&self) -> bool {
        self.name.starts_with("worker") || self.name.starts_with("chief")
    }
}

impl Summary {
    /// Reads the file's text; none if it is not a summary.
    pub fn parse(text: &str) -> Option<Self> {
        let whole: Value = serde_json::from_str(text).ok()?;
        whole.as_object()?;
        let word = |key: &str| whole[key].as_str().unwrap_or_default().to_owned();
        let verdict = match &whole["verdict"] {
            Value::String(text) => text.clone(),
            other => other["text"].as_str().unwrap_or_default().to_owned(),
        };
        let tasks = whole["tasks"].as_array().map_or(&[][..], Vec::as_slice);
        Some(Self {
            mode: word("mode"),
            workers: whole["workers"].as_u64().unwrap_or_default(),
            batch: whole["batch"].as_u64().unwrap_or_default(),
            stop_reason: word("stop_reason"),
            verdict,
            tasks: tasks.iter().map(task).collect(),
            whole,
        })
    }

    /// A figure by its name; none if it is not there or not a finite number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.whole[name].as_f64().filter(|number| number.is_finite())
    }

    /// The tasks that train.
    pub fn workers(&self) -> impl Iterator<Item = &TaskSummary> {
        self.tasks.iter().filter(|task| task.is_worker())
    }
}

fn task(value: &Value) -> TaskSummary {
    let phases = value["phases"].as_object();
    let phases = phases.into_iter().flatten();
    TaskSummary {
        name: value["task"].as_str().unwrap_or_default().to_owned(),
        steps: value["steps"].as_u64().unwrap_or_default(),
        seconds: value["seconds"].as_f64().unwrap_or_default(),
        phases: phases
            .map(|(phase, seconds)| (phase.clone(), seconds.as_f64().unwrap_or_default()))
            .collect(),
        evaluation_seconds: value["evaluation_seconds"].as_f64().unwrap_or_default(),
        sent_bytes: value["sent_bytes"].as_f64().unwrap_or_default(),
        cpu_percent: busy(&value["resources"]["mean"]),
        peak_cpu_percent: busy(&value["resources"]["peak"]).map(|percent| percent.min(100.0)),
        peak_network_bytes_per_s: ["task_sent_bytes_per_s", "task_received_bytes_per_s"]
            .iter()
            .filter_map(|column| value["resources"]["peak"][column].as_f64())
            .reduce(f64::max),
        cpu_seconds: value["cpu_seconds"].as_f64(),
        peak_rss_bytes: value["peak_rss_bytes"].as_f64(),
    }
}

/// How busy cores were, of a table of means or peaks.
fn busy(columns: &Value) -> Option<f64> {
    Some(columns["cpu_usr_percent"].as_f64()? + columns["cpu_sys_percent"].as_f64()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_summary_does_not_say_is_not_known() {
        let summary = Summary::parse(r#"{"mode": "sync", "seconds": null, "later": [1]}"#).unwrap();
        assert_eq!((summary.mode.as_str(), summary.workers), ("sync", 0));
        assert_eq!(summary.number("seconds"), None);
        assert!(summary.verdict.is_empty() && summary.tasks.is_empty());
        assert!(Summary::parse("[]").is_none() && Summary::parse("{").is_none());
    }

    #[test]
    fn a_verdict_is_text_or_has_one() {
        for text in [r#"{"verdict": "network"}"#, r#"{"verdict": {"text": "network"}}"#] {
            assert_eq!(Summary::parse(text).unwrap().verdict, "network");
        }
    }
}
