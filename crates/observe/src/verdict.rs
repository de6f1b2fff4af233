//! What holds a run back, in a sentence, with the shares that led to it.
//!
//! All of the workers' time is shared out among six causes, and the greatest is named. What a
//! worker's clock calls push, pull and wait is told apart by what others know: the chief how long
//! it tested, the servers how long they held answers back for somebody else, and how long they
//! were at work themselves. Where a server has no core to spare, who waits while it is at work for
//! others waits for his turn, and that is the server's too. What then remains of an exchange is the
//! network's, in the widest sense: bytes on their way and threads that wait to be woken.

use serde::{Deserialize, Serialize};

use crate::pace::{BEHIND, Rank, median_without, ranking};

mod words;

/// What a worker's time went to, in seconds.
#[derive(Clone, Debug, Default)]
pub struct WorkerFacts {
    /// Its name.
    pub task: String,
    /// Getting examples.
    pub input_s: f64,
    /// Computing gradients.
    pub compute_s: f64,
    /// Push, pull and wait together.
    pub exchange_s: f64,
    /// Of that: testing, which only a chief does.
    pub evaluation_s: f64,
    /// Of that: its gradients lay at the server until others came.
    pub held_s: f64,
    /// Its mean time to a gradient.
    pub gradient_ms: f64,
}

impl WorkerFacts {
    fn seconds(&self) -> f64 {
        self.input_s + self.compute_s + self.exchange_s
    }
}

/// Cores that are busier than this have no room for more.
const FULL: f64 = 0.9;

/// What a server did.
#[derive(Clone, Debug, Default)]
pub struct ServerFacts {
    /// Its name.
    pub task: String,
    /// The share of the time that it was at work for a worker, averaged over them: 0 to 1.
    pub busy: f64,
    /// How busy the cores of its machine were on average, 0 to 1, if that is known.
    pub cores_busy: Option<f64>,
    /// What it sent.
    pub sent_bytes_per_s: f64,
    /// What the fastest link of its machine carries, in millions of bits, if the system says so.
    pub link_mbit_per_s: Option<f64>,
}

/// All that a verdict is made from.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// How workers share the parameters, by its name in job files.
    pub mode: String,
    /// The workers; one at least.
    pub workers: Vec<WorkerFacts>,
    /// The servers, if there are any.
    pub servers: Vec<ServerFacts>,
    /// How busy the cores of the workers' machines were on average, 0 to 1, if that is known.
    pub cores_busy: Option<f64>,
    /// How long cores did nothing because a disk had to come first, 0 to 1.
    pub disk_wait: f64,
    /// How many updates behind the parameters gradients were on average when they were applied.
    pub staleness: Option<f64>,
}

/// What most of the time goes to.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    /// Computing gradients, as it should be.
    Compute,
    /// Getting examples.
    Input,
    /// Moving gradients and parameters.
    Network,
    /// Servers that are at work.
    Server,
    /// Workers that are slower than others.
    Stragglers,
    /// Tests.
    Evaluation,
}

impl VerdictKind {
    /// Its name, as in `summary.json`.
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

/// Shares of the workers' time, from 0 to 1, that sum to 1.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Shares {
    /// Computing gradients; without servers, applying them too.
    pub compute: f64,
    /// Getting examples.
    pub input: f64,
    /// Exchanging, while no server was at work on it.
    pub network: f64,
    /// Exchanging, while a server was at work on it, or had to be for others first.
    pub server: f64,
    /// Waiting for slower workers, and being slower than the others.
    pub stragglers: f64,
    /// Testing, and waiting for a chief that does.
    pub evaluation: f64,
}

impl Shares {
    fn all_mut(&mut self) -> [&mut f64; 6] {
        let Self { compute, input, network, server, stragglers, evaluation } = self;
        [compute, input, network, server, stragglers, evaluation]
    }

    /// The greatest; an exchange counts as one until it has won.
    fn kind(&self) -> VerdictKind {
        let exchange = match self.server > self.network {
            true => VerdictKind::Server,
            false => VerdictKind::Network,
        };
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

/// What holds a run back.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Verdict {
    /// In a word.
    pub kind: VerdictKind,
    /// In a sentence: the word, the evidence and what would help.
    pub text: String,
    /// The shares that led to it.
    pub shares: Shares,
    /// What would help, the likeliest first.
    pub advice: Vec<String>,
}

/// Names what holds a run back.
pub fn verdict(facts: &Facts) -> Verdict {
    let ranks = ranks(facts);
    let shares = shares(facts);
    let kind = shares.kind();
    let advice = words::advice(kind, facts, ranks.first());
    let text = format!(
        "{}: {}; try {}",
        kind.name(),
        words::evidence(kind, &shares, facts, ranks.first()),
        words::either(&advice)
    );
    Verdict { kind, text, shares, advice }
}

fn ranks(facts: &Facts) -> Vec<Rank> {
    let times = facts.workers.iter().map(|worker| (worker.task.clone(), worker.gradient_ms));
    ranking(&times.collect::<Vec<_>>())
}

fn busiest(facts: &Facts) -> Option<&ServerFacts> {
    facts.servers.iter().max_by(|a, b| a.busy.total_cmp(&b.busy))
}

fn is_full(cores_busy: Option<f64>) -> bool {
    cores_busy.is_some_and(|busy| busy >= FULL)
}

/// Shares all of the workers' time out.
fn shares(facts: &Facts) -> Shares {
    let workers = &facts.workers;
    let busiest = busiest(facts);
    let busy = busiest.map_or(0.0, |server| server.busy);
    let others = workers.len().saturating_sub(1) as f64;
    let queue = busiest.filter(|server| is_full(server.cores_busy)).map_or(0.0, |_| others * busy);
    let tested = workers.iter().map(|worker| worker.evaluation_s).fold(0.0, f64::max);
    let times: Vec<_> = workers.iter().map(|worker| worker.gradient_ms).collect();
    let alone = facts.servers.is_empty() && workers.len() == 1;
    let mut sum = Shares::default();
    for (i, worker) in workers.iter().enumerate() {
        let mut left = worker.exchange_s.max(0.0);
        let mut take = |seconds: f64| {
            let taken = seconds.clamp(0.0, left);
            left -= taken;
            taken
        };
        let mut held = take(worker.held_s);
        sum.evaluation += match worker.evaluation_s > 0.0 {
            true => take(worker.evaluation_s),
            // Who waits for a chief that tests does not wait for a slow worker.
            false => {
                let for_the_chief = tested.min(held);
                held -= for_the_chief;
                for_the_chief
            }
        };
        // What a slow worker takes longer than the others it takes from all.
        let median = median_without(&times, i);
        let is_behind = median > 0.0 && times[i] > BEHIND * median;
        let excess = if is_behind { 1.0 - median / times[i] } else { 0.0 };
        sum.stragglers += held + excess * (worker.compute_s + worker.input_s);
        sum.compute += (1.0 - excess) * worker.compute_s;
        sum.input += (1.0 - excess) * worker.input_s;
        sum.server += take(busy * worker.seconds());
        let queued = queue.min(1.0) * left;
        sum.server += queued;
        left -= queued;
        // A process by itself exchanges nothing: it applies its gradients.
        *(if alone { &mut sum.compute } else { &mut sum.network }) += left;
    }
    let all: f64 = sum.all_mut().iter().map(|share| **share).sum();
    if all > 0.0 {
        sum.all_mut().into_iter().for_each(|share| *share /= all);
    }
    sum
}

#[cfg(test)]
mod tests;
