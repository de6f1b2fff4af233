//! Predicts the time of a step from the links of an emulated cluster.
//!
//! A worker's gradient travels to the servers while updated parameters come back, chunk by chunk.
//! So an exchange of M bytes in each direction over links of B bytes a second takes
//! max(M/B, nM/(kB)) with n workers and k servers: the first term is a worker's link, the second a
//! server's. A server on a worker's host needs no link for that worker's chunks. Without servers a
//! worker sends 2(n - 1)/n of M. The gradient, whose time is measured, precedes the exchange.
//!
//! In `sync` and `mirrored` all workers compute and then all exchange. In the other modes some
//! compute while others exchange, so the busiest link may never be idle. A step then takes the
//! longer of two times: what that link needs, and what a worker with a link of its own needs.

use paceline_observe::{Phase, parse_bit_rate};
use paceline_record::TaskSummary;

use crate::run::Run;

/// The predicted and the measured time of a step on emulated hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkPrediction {
    /// Capacity of each link, in each direction.
    pub link_bytes_per_s: f64,
    /// Bytes that a worker sends in a step.
    pub bytes: f64,
    /// Measured time that a worker needs for a gradient.
    pub gradient_s: f64,
    /// Time that the busiest link needs for a step.
    pub link_s: f64,
    /// Predicted time of a worker's step.
    pub step_s: f64,
    /// Measured time of a worker's step, without tests.
    pub measured_s: f64,
}

impl LinkPrediction {
    /// Predicts the steps of a run. Returns none unless the run was emulated with limited links
    /// and no host had two workers.
    pub fn of(run: &Run) -> Option<Self> {
        let key = |name: &str| run.job.get(name).map(String::as_str);
        let link_bytes_per_s = parse_bit_rate(key("cluster.emulate.link")?)? / 8.0;
        let hosts: usize = key("cluster.emulate.hosts")?.parse().ok()?;
        let own_hosts = key("cluster.emulate.server") == Some("own");
        let workers: Vec<_> = run.summary.worker_tasks().filter(|task| task.steps > 0).collect();
        let servers = run.summary.tasks.len() - run.summary.worker_tasks().count();
        if workers.is_empty() || hosts < workers.len() + if own_hosts { servers } else { 0 } {
            return None;
        }
        let mean = |of: &dyn Fn(&TaskSummary) -> f64| {
            let per_step = workers.iter().map(|task| of(task) / task.steps as f64);
            per_step.sum::<f64>() / workers.len() as f64
        };
        let bytes = mean(&|task| task.sent_bytes as f64);
        let gradient_s = mean(&|task| {
            [Phase::Input, Phase::Compute]
                .map(|phase| task.phase_seconds(phase.name()))
                .iter()
                .sum()
        });
        let measured_s = mean(&|task| task.seconds - task.evaluation_seconds.unwrap_or(0.0));
        let busiest = busiest_link(workers.len() as f64, servers as f64, own_hosts);
        let link_s = busiest * bytes / link_bytes_per_s;
        let step_s = match run.summary.mode.as_str() {
            "sync" | "mirrored" => gradient_s + link_s,
            _ => link_s.max(gradient_s + bytes / link_bytes_per_s),
        };
        Some(Self { link_bytes_per_s, bytes, gradient_s, link_s, step_s, measured_s })
    }
}

/// Load of the busiest link in a step, relative to the bytes that one worker sends, with `n`
/// workers and `k` servers.
fn busiest_link(n: f64, k: f64, servers_have_own_hosts: bool) -> f64 {
    if k == 0.0 {
        return 1.0;
    }
    if servers_have_own_hosts {
        return (n / k).max(1.0);
    }
    // The host of a server and a worker carries the other workers' chunks of this shard, and this
    // worker's chunks of the other shards.
    (((n - 1.0) + (k - 1.0)) / k).max(if n > k { 1.0 } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use paceline_record::StoredSummary;

    use super::*;

    /// A run in which each worker computes for 1 s and sends 125 MB in a step, over 1 Gbit/s.
    fn run(mode: &str, workers: usize, servers: usize, placed: &str, seconds: f64) -> Run {
        let task = |name: String| {
            format!(
                r#"{{"task": "{name}", "steps": 4, "seconds": {seconds}, "sent_bytes": 500000000,
                     "phases": {{"compute": 4.0, "wait": 1.0}}}}"#
            )
        };
        let tasks = (0..workers).map(|i| task(format!("worker:{i}")));
        let tasks = tasks.chain((0..servers).map(|i| task(format!("ps:{i}"))));
        let tasks = tasks.collect::<Vec<_>>().join(",");
        let summary = format!(r#"{{"mode": "{mode}", "tasks": [{tasks}]}}"#);
        let job = [("link", "1gbit"), ("hosts", "8"), ("server", placed)];
        let job = job.map(|(key, value)| (format!("cluster.emulate.{key}"), value.to_owned()));
        let summary = StoredSummary::parse(&summary).unwrap();
        Run { summary, job: job.into_iter().collect(), ..Run::default() }
    }

    #[test]
    fn the_busiest_link_determines_the_time_of_a_step() {
        let step =
            |mode, n, k, placed| LinkPrediction::of(&run(mode, n, k, placed, 9.0)).unwrap().step_s;
        assert_eq!(step("sync", 4, 1, "own"), 1.0 + 4.0);
        assert_eq!(step("sync", 4, 2, "own"), 1.0 + 2.0);
        assert_eq!(step("sync", 2, 4, "own"), 1.0 + 1.0, "the workers' links are the busiest");
        assert_eq!(step("sync", 4, 1, "beside"), 1.0 + 3.0, "worker 0 is on the server's host");
        assert_eq!(step("sync", 2, 2, "beside"), 1.0 + 1.0);
        assert_eq!(step("async", 4, 1, "own"), 4.0, "the server's link is never idle");
        assert_eq!(step("async", 1, 1, "own"), 2.0);
        assert_eq!(step("mirrored", 2, 0, "own"), 2.0);
    }

    #[test]
    fn the_prediction_has_the_measured_time_beside_it() {
        let found = LinkPrediction::of(&run("sync", 2, 1, "own", 12.0)).unwrap();
        assert_eq!((found.step_s, found.measured_s, found.bytes), (3.0, 3.0, 125e6));
        let mut plain = run("sync", 2, 1, "own", 12.0);
        plain.job.remove("cluster.emulate.link");
        assert_eq!(LinkPrediction::of(&plain), None);
    }
}
