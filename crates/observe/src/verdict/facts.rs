//! What a verdict is based on.

/// A machine whose cores are at least this busy has none to spare.
const FULL: f64 = 0.9;

/// Where a worker's time went, in seconds.
#[derive(Clone, Debug, Default)]
pub struct WorkerFacts {
    /// Its name.
    pub task: String,
    /// Getting examples.
    pub input_s: f64,
    /// Computing gradients.
    pub compute_s: f64,
    /// Push, pull and wait together, without tests.
    pub exchange_s: f64,
    /// Tests between steps; 0 except for the coordinator.
    pub evaluation_s: f64,
    /// The part of `exchange_s` in which its gradients waited at a server for those of others.
    pub held_s: f64,
    /// How long its training loop was ready to run but had no core; 0 if unknown.
    pub run_delay_s: f64,
    /// The part of `compute_s` in which the threads that compute for the loop had no core.
    pub compute_delay_s: f64,
    /// How long its training loop was on a core, if known.
    pub loop_cpu_s: Option<f64>,
    /// Its mean time to a gradient.
    pub gradient_ms: f64,
    /// Bytes it sent a second.
    pub sent_bytes_per_s: f64,
}

impl WorkerFacts {
    /// The part of the time without a core that fell into steps and not into tests.
    pub(super) fn step_delay_s(&self) -> f64 {
        let seconds = self.seconds();
        let steps = if seconds > 0.0 { 1.0 - self.evaluation_s / seconds } else { 1.0 };
        self.run_delay_s * steps
    }

    /// The time of its steps in which it, or a thread that computes for it, had no core.
    pub(super) fn all_delay_s(&self) -> f64 {
        self.step_delay_s() + self.compute_delay_s
    }

    /// The time of its steps and of the tests between them.
    pub(super) fn seconds(&self) -> f64 {
        self.input_s + self.compute_s + self.exchange_s + self.evaluation_s
    }
}

/// What a server did.
#[derive(Clone, Debug, Default)]
pub struct ServerFacts {
    /// Its name.
    pub task: String,
    /// The share of the time that it worked for a worker, averaged over the workers, 0 to 1.
    pub busy: f64,
    /// The share of the time that its threads were ready to run but had no core, averaged over the
    /// workers, 0 to 1; 0 if unknown.
    pub run_delay: f64,
    /// How busy the cores of its machine were on average, 0 to 1, if known.
    pub cores_busy: Option<f64>,
    /// Its own part of what its machine's cores did, 0 to 1; 0 if unknown.
    pub own_load: f64,
    /// Bytes it sent a second.
    pub sent_bytes_per_s: f64,
    /// The speed of its machine's fastest network link, in millions of bits a second, if known.
    pub link_mbit_per_s: Option<f64>,
}

impl ServerFacts {
    /// The part of `run_delay` in which its threads wait for a core that it uses itself: it is busy
    /// with other workers.
    pub(super) fn own_delay(&self) -> f64 {
        self.run_delay * self.own_load.clamp(0.0, 1.0)
    }

    /// Whether the machine has no core to spare.
    pub(super) fn is_full(&self) -> bool {
        is_full(self.cores_busy)
    }
}

/// Everything that a verdict is based on.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// How workers share the parameters, as in job files.
    pub mode: String,
    /// The workers, at least one.
    pub workers: Vec<WorkerFacts>,
    /// The servers, if there are any.
    pub servers: Vec<ServerFacts>,
    /// How busy the cores of the workers' machines were on average, 0 to 1, if known.
    pub cores_busy: Option<f64>,
    /// The part of those cores' busy time that other programs took, at least, 0 to 1; 0 if unknown.
    pub others_load: f64,
    /// The share of the time that cores were idle because they waited for a disk, 0 to 1.
    pub disk_wait: f64,
    /// The mean staleness of applied gradients, in updates.
    pub staleness: Option<f64>,
    /// How long the coordinator tested after the last step, while all workers waited.
    pub final_test_s: f64,
}

impl Facts {
    /// The server that worked most.
    pub(super) fn busiest_server(&self) -> Option<&ServerFacts> {
        self.servers.iter().max_by(|a, b| a.busy.total_cmp(&b.busy))
    }

    /// The server whose threads waited longest for a core.
    pub(super) fn most_delayed_server(&self) -> Option<&ServerFacts> {
        self.servers.iter().max_by(|a, b| a.run_delay.total_cmp(&b.run_delay))
    }

    /// How long the steps took, of the worker that took longest.
    pub(super) fn training_s(&self) -> f64 {
        self.workers.iter().map(WorkerFacts::seconds).fold(0.0, f64::max)
    }

    /// One process without servers: it exchanges nothing and applies its gradients itself.
    pub(super) fn is_single(&self) -> bool {
        self.servers.is_empty() && self.workers.len() == 1
    }

    /// Whether the workers' machines work mostly for other programs.
    pub(super) fn serves_others(&self) -> bool {
        self.others_load > 0.5
    }

    /// Whether the workers' machines have no core to spare.
    pub(super) fn is_full(&self) -> bool {
        is_full(self.cores_busy)
    }
}

fn is_full(cores_busy: Option<f64>) -> bool {
    cores_busy.is_some_and(|busy| busy >= FULL)
}
