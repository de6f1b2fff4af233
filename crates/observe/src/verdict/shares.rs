//! How the workers' time divides among six causes.

use serde::{Deserialize, Serialize};

use super::facts::{Facts, ServerFacts, WorkerFacts};
use crate::pace::{BEHIND, median_without};

/// What most of the workers' time goes to.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    /// Computing gradients: nothing else limits the run.
    Compute,
    /// Getting examples.
    Input,
    /// Moving gradients and parameters.
    Network,
    /// The servers' own work.
    Server,
    /// Workers that are slower than the others.
    Stragglers,
    /// Tests.
    Evaluation,
}

impl VerdictKind {
    /// All kinds, in the order of [`Shares`].
    pub const ALL: [VerdictKind; 6] = [
        VerdictKind::Compute,
        VerdictKind::Input,
        VerdictKind::Network,
        VerdictKind::Server,
        VerdictKind::Stragglers,
        VerdictKind::Evaluation,
    ];

    /// The name in `summary.json`.
    pub fn name(self) -> &'static str {
        match self {
            VerdictKind::Compute => "compute",
            VerdictKind::Input => "input",
            VerdictKind::Network => "network",
            VerdictKind::Server => "server",
            VerdictKind::Stragglers => "stragglers",
            VerdictKind::Evaluation => "evaluation",
        }
    }
}

/// Shares of the workers' time, 0 to 1 each. They sum to 1.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Shares {
    /// Computing gradients; without servers, applying them too.
    pub compute: f64,
    /// Getting examples.
    pub input: f64,
    /// Exchanging while no server worked on it: bytes in transit, and threads that wait to be
    /// woken.
    pub network: f64,
    /// Exchanging while a server worked on it, or on other workers' requests before it.
    pub server: f64,
    /// Waiting for slower workers, and being slower than the others.
    pub stragglers: f64,
    /// Testing, and waiting for a coordinator that tests.
    pub evaluation: f64,
}

impl Shares {
    pub(super) fn all_mut(&mut self) -> [&mut f64; 6] {
        let Self { compute, input, network, server, stragglers, evaluation } = self;
        [compute, input, network, server, stragglers, evaluation]
    }

    /// The greatest share. Network and server compete together, and the greater of the two is
    /// named if their sum wins.
    pub(super) fn kind(&self) -> VerdictKind {
        let is_server = self.server > self.network;
        let exchange = if is_server { VerdictKind::Server } else { VerdictKind::Network };
        let shares = [
            (VerdictKind::Compute, self.compute),
            (VerdictKind::Input, self.input),
            (exchange, self.network + self.server),
            (VerdictKind::Stragglers, self.stragglers),
            (VerdictKind::Evaluation, self.evaluation),
        ];
        let greater = |a: &(VerdictKind, f64), b: &(VerdictKind, f64)| a.1.total_cmp(&b.1);
        // Of equal shares the first is named; `max_by` takes the last.
        shares.into_iter().rev().max_by(greater).map_or(VerdictKind::Compute, |(kind, _)| kind)
    }
}

/// Divides all of the workers' time among the causes.
pub(super) fn divide_time(facts: &Facts) -> Shares {
    let division = Division::new(facts);
    let mut sum = Shares::default();
    for (index, worker) in facts.workers.iter().enumerate() {
        division.add_worker(index, worker, &mut sum);
    }
    let all: f64 = sum.all_mut().iter().map(|share| **share).sum();
    if all > 0.0 {
        sum.all_mut().into_iter().for_each(|share| *share /= all);
    }
    sum
}

/// What all workers have in common when their time is divided.
struct Division {
    /// The share of the time that the busiest server works for one worker.
    busy: f64,
    /// The share of a worker's exchange in which a server without a spare core works for others.
    queue: f64,
    /// How long the coordinator tested, in seconds.
    tested_s: f64,
    /// Each worker's time to a gradient.
    times_ms: Vec<f64>,
    /// One process without servers: it exchanges nothing and applies its gradients itself.
    is_single: bool,
}

impl Division {
    fn new(facts: &Facts) -> Self {
        let workers = &facts.workers;
        let busiest = facts.busiest_server();
        let busy = busiest.map_or(0.0, |server| server.busy);
        let others = workers.len().saturating_sub(1) as f64;
        let full = busiest.filter(|server| ServerFacts::is_full(server));
        Self {
            busy,
            queue: full.map_or(0.0, |_| others * busy),
            tested_s: workers.iter().map(|worker| worker.evaluation_s).fold(0.0, f64::max),
            times_ms: workers.iter().map(|worker| worker.gradient_ms).collect(),
            is_single: facts.servers.is_empty() && workers.len() == 1,
        }
    }

    /// Adds the seconds of one worker.
    fn add_worker(&self, index: usize, worker: &WorkerFacts, sum: &mut Shares) {
        let mut left = worker.exchange_s.max(0.0);
        let mut take = |seconds: f64| {
            let taken = seconds.clamp(0.0, left);
            left -= taken;
            taken
        };
        let mut held = take(worker.held_s);
        sum.evaluation += if worker.evaluation_s > 0.0 {
            take(worker.evaluation_s)
        } else {
            // A worker that waits for a testing coordinator does not wait for a slow worker.
            let for_coordinator = self.tested_s.min(held);
            held -= for_coordinator;
            for_coordinator
        };
        // The time that a slow worker takes beyond the median delays all of them.
        let median = median_without(&self.times_ms, index);
        let time = self.times_ms[index];
        let is_behind = median > 0.0 && time > BEHIND * median;
        let excess = if is_behind { 1.0 - median / time } else { 0.0 };
        sum.stragglers += held + excess * (worker.compute_s + worker.input_s);
        sum.compute += (1.0 - excess) * worker.compute_s;
        sum.input += (1.0 - excess) * worker.input_s;
        sum.server += take(self.busy * worker.seconds());
        let queued = self.queue.min(1.0) * left;
        sum.server += queued;
        left -= queued;
        *(if self.is_single { &mut sum.compute } else { &mut sum.network }) += left;
    }
}
