//! `summary.json`: the run in numbers, for programs and for later.

use serde::{Serialize, Serializer};

/// Everything a run came to. Seconds are of wall clock unless they say otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// What the run was called.
    pub name: String,
    /// How workers shared the parameters.
    pub mode: &'static str,
    /// How many workers there were.
    pub workers: usize,
    /// How many servers there were.
    pub servers: usize,
    /// Examples a worker took a step.
    pub batch: usize,
    /// Which condition ended the run: epochs, steps, seconds, test_loss or interrupted.
    pub stop_reason: &'static str,
    /// Updates made to the parameters.
    pub global_steps: u64,
    /// Examples trained on.
    pub examples: u64,
    /// From the first step to the end of training, tests included.
    pub seconds: f64,
    /// Mean loss of the last steps (at most 100 of them).
    pub train_loss: f64,
    /// Mean loss over the test examples, at the end.
    pub test_loss: f64,
    /// Share of the test examples that were right, from 0 to 1, at the end.
    pub test_accuracy: f64,
    /// Global steps a second.
    pub steps_per_second: f64,
    /// Examples trained on a second.
    pub examples_per_second: f64,
    /// Bytes moved between tasks for each global step.
    pub bytes_per_step: f64,
    /// What each task did.
    pub tasks: Vec<TaskSummary>,
}

/// What one task did.
#[derive(Clone, Debug, Serialize)]
pub struct TaskSummary {
    /// Its name, such as `worker:0`.
    pub task: String,
    /// Steps it took.
    pub steps: u64,
    /// Of its gradients, those that came too late and were not used.
    pub dropped: u64,
    /// Wall clock from its first step to its last.
    pub seconds: f64,
    /// Where those seconds went.
    #[serde(serialize_with = "in_order")]
    pub phases: Vec<(&'static str, f64)>,
    /// Processor time of its whole life.
    pub cpu_seconds: Option<f64>,
    /// The most memory it held at any time.
    pub peak_rss_bytes: Option<u64>,
    /// Bytes it sent to other tasks.
    pub sent_bytes: u64,
    /// Bytes it received from other tasks.
    pub received_bytes: u64,
}

/// As a JSON object whose keys keep their order.
fn in_order<S: Serializer>(phases: &[(&str, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(phases.iter().copied())
}
