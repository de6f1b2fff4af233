//! What one task did and used: its report to the coordinator, and its part of `summary.json`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::machine::link_mbit_per_s;
use crate::phases::{EVALUATION, Phase, Phases, Totals};
use crate::process;
use crate::resources::{Usage, column};
use crate::role;
use crate::touched_keys::{TableUse, TouchedKeys};

/// What one task did. Seconds are wall-clock seconds unless they say otherwise.
///
/// Absent fields have their defaults, so that reports of older versions can be read.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct TaskSummary {
    /// Its name, such as `worker:0`.
    pub task: String,
    /// Steps that a worker made, or gradients that a server applied.
    pub steps: u64,
    /// Gradients that arrived too late and were not used.
    pub dropped: u64,
    /// Worker: gradients that were lost with a server and computed again.
    pub lost: u64,
    /// From its first step to its last; of the coordinator, to the end of the final test.
    pub seconds: f64,
    /// The seconds of each phase, by the phase's name.
    pub phases: Map<String, Value>,
    /// Processor time since the process started.
    pub cpu_seconds: Option<f64>,
    /// The most memory it held at any time, including all that it shares with other processes.
    pub peak_rss_bytes: Option<u64>,
    /// The most memory it held in any sample and at the end, with its part of what it shares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_pss_bytes: Option<u64>,
    /// Examples that a worker trained on.
    pub examples: u64,
    /// Worker of a sparse model: the keys of its batches.
    #[serde(skip_serializing_if = "is_zero")]
    pub keys: u64,
    /// Bytes of these keys: as they were sent, 4 each if they were not.
    #[serde(skip_serializing_if = "is_zero")]
    pub key_bytes: u64,
    /// Bytes of the parameters of these keys, once for each batch.
    #[serde(skip_serializing_if = "is_zero")]
    pub value_bytes: u64,
    /// Task that holds parameters of a sparse model: the keys that have them in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// Bytes of these parameters, with their optimizer's state and their index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_bytes: Option<u64>,
    /// Server: the mean staleness of the gradients it applied, in updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness_mean: Option<f64>,
    /// Server: the greatest staleness of a gradient it applied, in updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness_max: Option<u64>,
    /// Bytes sent to other tasks.
    pub sent_bytes: u64,
    /// Server: the part of `sent_bytes` before the first gradient, such as the first parameters.
    #[serde(skip_serializing_if = "is_zero")]
    pub sent_before_bytes: u64,
    /// Bytes received from other tasks.
    pub received_bytes: u64,
    /// Coordinator: how long it tested or waited for a test, as in phase `evaluation`. In files of
    /// older versions, which lack that phase, it is part of phase `wait`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation_seconds: Option<f64>,
    /// Coordinator: the part of `evaluation_seconds` after the last step. All workers wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_test_seconds: Option<f64>,
    /// How long its training loop, or a server's thread on average, was ready to run but had no
    /// core, if the system counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_delay_seconds: Option<f64>,
    /// Worker: the part of phase `compute` in which other threads computed for the loop and had no
    /// core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_delay_seconds: Option<f64>,
    /// Worker: how long its training loop was on a core, if the system counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_cpu_seconds: Option<f64>,
    /// Worker: its mean time to a gradient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_ms: Option<f64>,
    /// Worker: how long its gradients waited at server 0 for those of others; included in phase
    /// `wait`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_seconds: Option<f64>,
    /// What the task and its machine used, if they were sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceUse>,
    /// The id of the process that sends the report; 0 in `summary.json`.
    #[serde(skip_serializing_if = "is_zero")]
    pub process: u64,
    /// Server 0: what it measured of each worker. The coordinator moves this into the workers' own
    /// summaries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerTiming>,
}

/// What server 0 measured of one worker.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct WorkerTiming {
    /// The worker's name.
    pub task: String,
    /// Its mean time from a reply to its next gradient.
    pub gradient_ms: f64,
    /// How long its gradients waited for those of other workers.
    pub held_seconds: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TaskSummary {
    /// Adds what another thread or an earlier process of the same task did.
    pub fn absorb(&mut self, other: &Self) {
        self.steps += other.steps;
        self.dropped += other.dropped;
        self.lost += other.lost;
        self.examples += other.examples;
        self.keys += other.keys;
        self.key_bytes += other.key_bytes;
        self.value_bytes += other.value_bytes;
        // Of processes in succession, the later one has what there is.
        self.entries = other.entries.or(self.entries);
        self.entry_bytes = other.entry_bytes.or(self.entry_bytes);
        self.seconds += other.seconds;
        self.sent_bytes += other.sent_bytes;
        self.sent_before_bytes += other.sent_before_bytes;
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
        self.final_test_seconds = add(self.final_test_seconds, other.final_test_seconds);
        self.run_delay_seconds = add(self.run_delay_seconds, other.run_delay_seconds);
        self.compute_delay_seconds = add(self.compute_delay_seconds, other.compute_delay_seconds);
        self.loop_cpu_seconds = add(self.loop_cpu_seconds, other.loop_cpu_seconds);
        self.cpu_seconds = add(self.cpu_seconds, other.cpu_seconds);
        self.peak_rss_bytes = self.peak_rss_bytes.max(other.peak_rss_bytes);
        self.peak_pss_bytes = self.peak_pss_bytes.max(other.peak_pss_bytes);
        self.resources = self.resources.take().or(other.resources.clone());
    }

    /// States what the task's batches touched and what it holds of a sparse model.
    pub fn set_sparse(&mut self, touched: TouchedKeys, table: Option<TableUse>) {
        (self.keys, self.key_bytes) = (touched.keys, touched.key_bytes);
        self.value_bytes = touched.value_bytes();
        self.entries = table.map(|table| table.entries);
        self.entry_bytes = table.map(|table| table.bytes);
    }

    /// Moves the time of tests from phase `wait` to phase `evaluation`, which every worker has.
    pub fn set_tested(&mut self, seconds: f64) {
        let wait = self.phase_seconds(Phase::Wait.name());
        let tested = seconds.clamp(0.0, wait);
        self.phases.insert(Phase::Wait.name().into(), (wait - tested).into());
        self.phases.insert(EVALUATION.into(), tested.into());
        self.evaluation_seconds = (tested > 0.0).then_some(tested);
    }

    /// Counts everything except input and tests as computation, for a task without peers: it
    /// applies its gradients itself, and waits for no other task.
    pub fn fold_into_compute(&mut self) {
        let parts = [Phase::Compute, Phase::Pull, Phase::Push, Phase::Wait];
        let sum: f64 = parts.iter().map(|phase| self.phase_seconds(phase.name())).sum();
        for phase in parts {
            let seconds = if phase == Phase::Compute { sum } else { 0.0 };
            self.phases.insert(phase.name().into(), seconds.into());
        }
    }

    /// Adds the test that the coordinator makes after its last step.
    pub fn add_final_test(&mut self, seconds: f64) {
        let tested = self.phase_seconds(EVALUATION) + seconds;
        self.phases.insert(EVALUATION.into(), tested.into());
        self.evaluation_seconds = Some(tested);
        self.final_test_seconds = Some(seconds);
        self.seconds += seconds;
    }

    /// The time of its steps: without the final test.
    pub fn training_seconds(&self) -> f64 {
        self.seconds - self.final_test_seconds.unwrap_or(0.0)
    }

    /// Multiplies the time of every phase, and that of tests and without a core.
    pub fn scale_phases(&mut self, factor: f64) {
        for seconds in self.phases.values_mut() {
            *seconds = (seconds.as_f64().unwrap_or(0.0) * factor).into();
        }
        for seconds in [
            &mut self.evaluation_seconds,
            &mut self.run_delay_seconds,
            &mut self.compute_delay_seconds,
            &mut self.loop_cpu_seconds,
        ] {
            *seconds = seconds.map(|seconds| seconds * factor);
        }
    }

    /// The summary of a task whose clock reads these totals, with what this process used.
    pub fn of<P: Phases<N>, const N: usize>(task: &str, totals: &Totals<P, N>) -> Self {
        let phases = totals.seconds().map(|(phase, seconds)| (phase.to_owned(), seconds.into()));
        Self {
            task: task.to_owned(),
            seconds: totals.elapsed().as_secs_f64(),
            phases: phases.into_iter().collect(),
            ..Self::of_process()
        }
    }

    /// The most memory of its own that it held, as far as the system says.
    pub fn peak_memory_bytes(&self) -> Option<u64> {
        self.peak_pss_bytes.or(self.peak_rss_bytes)
    }

    /// Whether the task trains: a worker, or a worker that is called chief.
    pub fn is_worker(&self) -> bool {
        role::TRAINING.iter().any(|role| self.task.starts_with(role))
    }

    /// The seconds of a phase; 0 if the task does not have it.
    pub fn phase_seconds(&self, phase: &str) -> f64 {
        self.phases.get(phase).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// The processor time and memory of this process; every other field is empty.
    pub fn of_process() -> Self {
        Self {
            cpu_seconds: process::cpu_seconds(),
            peak_rss_bytes: process::peak_rss_bytes(),
            peak_pss_bytes: process::peak_pss_bytes(),
            ..Self::default()
        }
    }
}

/// One summary per task, from the reports of processes and their slots. Each report of a process
/// covers everything it has done so far, so the one with the most steps stands for the process. A
/// task that was several processes in succession is the sum of them.
pub fn merge_reports(reports: Vec<TaskSummary>) -> Vec<TaskSummary> {
    let mut lives: Vec<TaskSummary> = Vec::new();
    for report in reports {
        let same = |life: &&mut TaskSummary| {
            report.process != 0 && (life.process, &life.task) == (report.process, &report.task)
        };
        match lives.iter_mut().find(same) {
            Some(life) if life.steps <= report.steps => *life = report,
            Some(_) => {}
            None => lives.push(report),
        }
    }
    let mut tasks: Vec<TaskSummary> = Vec::new();
    for life in lives {
        match tasks.iter_mut().find(|task| task.task == life.task) {
            Some(task) => task.absorb(&life),
            None => tasks.push(TaskSummary { process: 0, ..life }),
        }
    }
    let place = |task: &TaskSummary| {
        let (role, index) = task.task.split_once(':').unwrap_or((&task.task, "0"));
        let rank = role::TRAINING.iter().position(|name| *name == role).unwrap_or(2);
        (rank, index.parse::<usize>().unwrap_or(0))
    };
    tasks.sort_by_key(place);
    tasks
}

/// What a task and its machine used while the task trained.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct ResourceUse {
    /// The number of samples.
    pub samples: u64,
    /// The number of cores that the task may use: the machine's, or its container's limit.
    pub cores: f64,
    /// The speed of its machine's fastest network link, in millions of bits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_mbit_per_s: Option<f64>,
    /// The mean of each column of `resources.csv`.
    pub mean: Map<String, Value>,
    /// The greatest figure of each column.
    pub peak: Map<String, Value>,
}

impl ResourceUse {
    /// The use that a sampler measured, by column.
    pub fn of(usage: &Usage, columns: &[String]) -> Self {
        let named = |figures: &[f64]| {
            let rounded = figures.iter().map(|figure| (figure * 10.0).round() / 10.0);
            columns
                .iter()
                .zip(rounded)
                .map(|(name, figure)| (name.clone(), figure.into()))
                .collect()
        };
        Self {
            samples: usage.samples,
            cores: usage.cores,
            link_mbit_per_s: link_mbit_per_s("/".as_ref()),
            mean: named(&usage.means()),
            peak: named(usage.peaks()),
        }
    }

    /// The mean of a column.
    pub fn mean_of(&self, column: &str) -> Option<f64> {
        self.mean.get(column)?.as_f64()
    }

    /// The greatest figure of a column.
    pub fn peak_of(&self, column: &str) -> Option<f64> {
        self.peak.get(column)?.as_f64()
    }

    /// How busy the machine's cores were on average, in percent.
    pub fn busy_percent(&self) -> Option<f64> {
        Some(self.mean_of(column::CPU_USR_PERCENT)? + self.mean_of(column::CPU_SYS_PERCENT)?)
    }

    /// How busy the machine's cores were at most, in percent, up to 100. User and system time may
    /// peak at different times, so this is an upper bound.
    pub fn peak_busy_percent(&self) -> Option<f64> {
        let sum = self.peak_of(column::CPU_USR_PERCENT)? + self.peak_of(column::CPU_SYS_PERCENT)?;
        Some(sum.min(100.0))
    }

    /// The most bytes a second that the task sent or received over one sample.
    pub fn peak_network_bytes_per_s(&self) -> Option<f64> {
        let columns = [column::TASK_SENT_BYTES_PER_S, column::TASK_RECEIVED_BYTES_PER_S];
        columns.iter().filter_map(|column| self.peak_of(column)).reduce(f64::max)
    }
}
