//! `summary.json`: the run in numbers, for programs and for later.

use paceline_observe::{Phases, Rank, Totals, Verdict, process};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::resources::ResourceUse;

/// Everything a run came to. Seconds are of wall clock unless they say otherwise.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Summary {
    /// What the run was called.
    pub name: String,
    /// How workers shared the parameters.
    pub mode: String,
    /// How many workers there were.
    pub workers: usize,
    /// How many servers there were.
    pub servers: usize,
    /// Examples a worker took a step.
    pub batch: usize,
    /// Which condition ended the run: epochs, steps, seconds, test_loss or interrupted.
    pub stop_reason: String,
    /// The global step of the checkpoint that the run went on from; what follows counts from
    /// there, but for the global steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<u64>,
    /// Updates made to the parameters.
    pub global_steps: u64,
    /// Examples trained on.
    pub examples: u64,
    /// Gradients that were lost with a server, which had been applied since its last checkpoint.
    /// They were made again, and count as steps and examples of their workers twice.
    #[serde(default)]
    pub lost_pushes: u64,
    /// From the first step to the end of the last worker, tests included.
    pub seconds: f64,
    /// Mean loss of the last steps (at most 100 of them).
    pub train_loss: f64,
    /// Mean loss over the test examples, at the end.
    pub test_loss: f64,
    /// Share of the test examples that were right, from 0 to 1, at the end.
    pub test_accuracy: f64,
    /// Of a model of two classes: the mean loss again, under the name it has there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_log_loss: Option<f64>,
    /// Of a model of two classes: the area under the ROC curve, at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_auc: Option<f64>,
    /// Of a model of two classes: of the test examples said to be of class 1 the share that are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_precision: Option<f64>,
    /// Global steps a second.
    pub steps_per_second: f64,
    /// Examples trained on a second.
    pub examples_per_second: f64,
    /// Bytes moved between tasks for each global step.
    pub bytes_per_step: f64,
    /// What held the run back.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// The workers by their time to a gradient, the slowest first.
    #[serde(default)]
    pub ranking: Vec<Rank>,
    /// What each task did.
    pub tasks: Vec<TaskSummary>,
}

/// What one task did.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct TaskSummary {
    /// Its name, such as `worker:0`.
    pub task: String,
    /// Steps it took.
    pub steps: u64,
    /// Of its gradients, those that came too late and were not used.
    pub dropped: u64,
    /// Of a worker: those of its gradients that were lost with a server, and made again.
    #[serde(default)]
    pub lost: u64,
    /// Wall clock from its first step to its last.
    pub seconds: f64,
    /// Where those seconds went.
    pub phases: Map<String, Value>,
    /// Processor time of its whole life.
    pub cpu_seconds: Option<f64>,
    /// The most memory it held at any time.
    pub peak_rss_bytes: Option<u64>,
    /// Examples it trained on.
    pub examples: u64,
    /// Of a server: how many updates the applied gradients were late, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness_mean: Option<f64>,
    /// Of a server: the same, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness_max: Option<u64>,
    /// Bytes it sent to other tasks.
    pub sent_bytes: u64,
    /// Bytes it received from other tasks.
    pub received_bytes: u64,
    /// Of the chief: how long tests kept it from its steps; a part of `wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_seconds: Option<f64>,
    /// Of a worker: its mean time to a gradient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_ms: Option<f64>,
    /// Of a worker: how long its gradients lay at the first server until others came; a part of
    /// `wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_seconds: Option<f64>,
    /// What it and its machine used, if that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceUse>,
    /// In a report: the process that did it, as servers know it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub process: u64,
    /// In the first server's report: what it knows of the workers. The chief hands it on to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Seen>,
}

/// What a server has seen of a worker.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Seen {
    /// The worker's name.
    pub task: String,
    /// Its mean time from an answer to the next gradient.
    pub gradient_ms: f64,
    /// How long its gradients were held until others came.
    pub held_seconds: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TaskSummary {
    /// Adds what was done elsewhere: by another thread of the task, or by another process of it.
    pub fn absorb(&mut self, other: &Self) {
        self.steps += other.steps;
        self.dropped += other.dropped;
        self.lost += other.lost;
        self.examples += other.examples;
        self.seconds += other.seconds;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        for (phase, seconds) in &other.phases {
            let sum = self.phases.get(phase).and_then(Value::as_f64).unwrap_or(0.0);
            let sum = sum + seconds.as_f64().unwrap_or(0.0);
            self.phases.insert(phase.clone(), sum.into());
        }
        let add = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self.evaluation_seconds = add(self.evaluation_seconds, other.evaluation_seconds);
        self.cpu_seconds = add(self.cpu_seconds, other.cpu_seconds);
        self.peak_rss_bytes = self.peak_rss_bytes.max(other.peak_rss_bytes);
        self.resources = self.resources.take().or(other.resources.clone());
    }

    /// Multiplies the time of every phase.
    pub fn scale_phases(&mut self, factor: f64) {
        for seconds in self.phases.values_mut() {
            *seconds = (seconds.as_f64().unwrap_or(0.0) * factor).into();
        }
        self.evaluation_seconds = self.evaluation_seconds.map(|seconds| seconds * factor);
    }

    /// What a task did in the time that its clock has measured, with what this process used.
    pub fn of<P: Phases<N>, const N: usize>(task: &str, totals: &Totals<P, N>) -> Self {
        let phases = totals.seconds().map(|(phase, seconds)| (phase.to_owned(), seconds.into()));
        Self {
            task: task.to_owned(),
            seconds: totals.elapsed().as_secs_f64(),
            phases: phases.into_iter().collect(),
            ..Self::of_process()
        }
    }

    /// What this process used, and nothing else.
    pub fn of_process() -> Self {
        Self {
            cpu_seconds: process::cpu_seconds(),
            peak_rss_bytes: process::peak_rss_bytes(),
            ..Self::default()
        }
    }
}
