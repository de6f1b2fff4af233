//! How the workers' time divides among seven causes.

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
    /// Waiting for a core.
    Cores,
    /// Nothing: the run is too short to judge.
    #[serde(rename = "too short")]
    TooShort,
}

impl VerdictKind {
    /// All causes, in the order of [`Shares`].
    pub const ALL: [VerdictKind; 7] = [
        VerdictKind::Compute,
        VerdictKind::Input,
        VerdictKind::Network,
        VerdictKind::Server,
        VerdictKind::Stragglers,
        VerdictKind::Evaluation,
        VerdictKind::Cores,
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
            VerdictKind::Cores => "cores",
            VerdictKind::TooShort => "too short",
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
    /// Being ready to run without a core, and waiting for other tasks that are. 0 in files of
    /// versions that did not measure it.
    #[serde(default)]
    pub cores: f64,
}

impl Shares {
    pub(super) fn all_mut(&mut self) -> [&mut f64; 7] {
        let Self { compute, input, network, server, stragglers, evaluation, cores } = self;
        [compute, input, network, server, stragglers, evaluation, cores]
    }

    /// What most of the time goes to, except computation. Network and server compete together, and
    /// the greater of the two is named.
    pub(super) fn greatest_lost_time(&self) -> LostTime {
        let is_server = self.server > self.network;
        let exchange = if is_server { VerdictKind::Server } else { VerdictKind::Network };
        let losses = [
            (VerdictKind::Input, self.input),
            (exchange, self.network + self.server),
            (VerdictKind::Stragglers, self.stragglers),
            (VerdictKind::Evaluation, self.evaluation),
            (VerdictKind::Cores, self.cores),
        ];
        let losses = losses.map(|(kind, share)| LostTime { kind, share });
        // Of equal shares the first is named; `max_by` takes the last.
        let greatest = losses.into_iter().rev().max_by(|a, b| a.share.total_cmp(&b.share));
        greatest.unwrap_or(LostTime { kind: exchange, share: 0.0 })
    }

    /// What the verdict names. Computation is what a run is for: it is named if it takes at least
    /// half of the time, or if nothing else takes more or is worth looking for. But where tasks
    /// lack cores, the computation of more workers would only lack more of them.
    pub(super) fn kind(&self) -> VerdictKind {
        let loss = self.greatest_lost_time();
        if loss.kind == VerdictKind::Cores && loss.share >= LACK_OF_CORES {
            return VerdictKind::Cores;
        }
        let is_small = loss.share < WORTH_NAMING && loss.share <= self.compute;
        let computes = self.compute >= 0.5 || loss.share <= 0.0 || is_small;
        if computes { VerdictKind::Compute } else { loss.kind }
    }
}

/// The least share of a cause that is named before a computation that takes longer.
const WORTH_NAMING: f64 = 0.25;

/// The least share of a lack of cores that is named before any computation.
const LACK_OF_CORES: f64 = 0.2;

/// A cause other than computation, and its share of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LostTime {
    pub(super) kind: VerdictKind,
    pub(super) share: f64,
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
struct Division<'a> {
    /// The share of the time that the busiest server works for one worker.
    busy: f64,
    /// The share of a worker's exchange in which a server without a spare core works for others.
    queue: f64,
    /// The share of the time that a server's thread waits for a core that others use.
    server_delay: f64,
    /// The same for a core that the server itself uses.
    own_server_delay: f64,
    /// How long the coordinator tested, in seconds.
    tested_s: f64,
    /// How long it tested after the last step, in seconds.
    final_test_s: f64,
    workers: &'a [WorkerFacts],
    /// Each worker's time to a gradient, as far as it had a core.
    times_ms: Vec<f64>,
    is_single: bool,
}

/// The seconds of an exchange that are not attributed yet.
struct Remaining(f64);

impl Remaining {
    /// Takes up to this many of them.
    fn take(&mut self, seconds: f64) -> f64 {
        let taken = seconds.clamp(0.0, self.0);
        self.0 -= taken;
        taken
    }
}

impl<'a> Division<'a> {
    fn new(facts: &'a Facts) -> Self {
        let workers = &facts.workers;
        let busiest = facts.busiest_server();
        let busy = busiest.map_or(0.0, |server| server.busy);
        let others = workers.len().saturating_sub(1) as f64;
        let full = busiest.filter(|server| ServerFacts::is_full(server));
        let most_delayed = facts.most_delayed_server();
        let own_server_delay = most_delayed.map_or(0.0, ServerFacts::own_delay);
        Self {
            busy,
            queue: full.map_or(0.0, |_| others * busy),
            server_delay: most_delayed.map_or(0.0, |server| server.run_delay) - own_server_delay,
            own_server_delay,
            tested_s: workers.iter().map(|worker| worker.evaluation_s).fold(0.0, f64::max),
            final_test_s: facts.final_test_s.max(0.0),
            workers,
            times_ms: workers.iter().map(Own::gradient_ms).collect(),
            is_single: facts.is_single(),
        }
    }

    /// Adds the seconds of one worker.
    fn add_worker(&self, index: usize, worker: &WorkerFacts, sum: &mut Shares) {
        sum.evaluation += worker.evaluation_s.max(0.0) + self.final_test_s;
        let mut left = Remaining(worker.exchange_s.max(0.0));
        let mut held = Remaining(left.take(worker.held_s));
        if worker.evaluation_s <= 0.0 {
            // A worker that waits for a testing coordinator does not wait for a slow worker.
            sum.evaluation += held.take(self.tested_s);
        }
        // Nor does one that waits for a worker without a core.
        sum.cores += held.take(self.others_delay(index));
        sum.stragglers += held.0;
        let own = Own::of(worker);
        sum.cores += own.delay_s + left.take(worker.all_delay_s() - own.delay_s);
        if !self.is_single {
            sum.cores += left.take(self.server_delay * worker.seconds());
        }
        // The time that a slow worker takes beyond the median delays all of them.
        let median = median_without(&self.times_ms, index);
        let time = self.times_ms[index];
        let is_behind = median > 0.0 && time > BEHIND * median;
        let excess = if is_behind { 1.0 - median / time } else { 0.0 };
        sum.stragglers += excess * (own.compute_s + own.input_s);
        sum.compute += (1.0 - excess) * own.compute_s;
        sum.input += (1.0 - excess) * own.input_s;
        sum.server += left.take((self.busy + self.own_server_delay) * worker.seconds());
        sum.server += left.take(self.queue.min(1.0) * left.0);
        *(if self.is_single { &mut sum.compute } else { &mut sum.network }) += left.0;
    }

    /// The longest that a worker other than this one was without a core, in seconds.
    fn others_delay(&self, index: usize) -> f64 {
        let others = self.workers.iter().enumerate().filter(|(other, _)| *other != index);
        others.map(|(_, other)| other.all_delay_s()).fold(0.0, f64::max)
    }
}

/// A worker's own work, without the time in which it had no core.
struct Own {
    compute_s: f64,
    input_s: f64,
    /// The part of its own work that it spent without a core.
    delay_s: f64,
}

impl Own {
    /// A thread that wakes finds its core taken more often than one that runs loses it. So the time
    /// without a core is taken from the exchange first, and the rest from input and computation.
    /// But a loop that computes needs a core: where it was on one for less than its own work took,
    /// the difference was lacking there. An exchange that travels while the loop computes, for
    /// which the loop only sleeps, would hide it otherwise.
    fn of(worker: &WorkerFacts) -> Self {
        // Other threads compute while the loop waits for them.
        let pool_s = worker.compute_delay_s.clamp(0.0, worker.compute_s.max(0.0));
        let compute_s = worker.compute_s - pool_s;
        let own_s = (compute_s + worker.input_s).max(0.0);
        let exchange_s = (worker.exchange_s - worker.held_s).max(0.0);
        let step_delay_s = worker.step_delay_s().max(0.0);
        let off_core_s = worker.loop_cpu_s.map_or(0.0, |on_core_s| own_s - on_core_s);
        let least_s = off_core_s.clamp(0.0, step_delay_s);
        let delay_s = (step_delay_s - exchange_s).max(least_s).clamp(0.0, own_s);
        let rest = if own_s > 0.0 { 1.0 - delay_s / own_s } else { 1.0 };
        let (compute_s, input_s) = (rest * compute_s, rest * worker.input_s);
        Self { compute_s, input_s, delay_s: pool_s + delay_s }
    }

    fn gradient_ms(worker: &WorkerFacts) -> f64 {
        let (own, all_s) = (Self::of(worker), worker.compute_s + worker.input_s);
        let rest = if all_s > 0.0 { (own.compute_s + own.input_s) / all_s } else { 1.0 };
        rest * worker.gradient_ms
    }
}
