//! What the links of an emulated cluster allow, beside what was measured.
//!
//! A worker's gradient goes to the servers and fresh parameters come back part by part, both at
//! once. So an exchange of M bytes each way over links of B bytes a second takes max(M/B, nM/(kB))
//! with n workers and k servers, whichever link is the fullest: a worker's or a server's. A server
//! beside a worker spares both that worker's part. Without servers a worker sends 2(n - 1)/n of M.
//! Before the exchange comes the gradient, whose time is the measured one.
//!
//! In step all workers compute and then exchange. Left to themselves some compute while others
//! exchange, so that the fullest link never rests: then it alone counts, or the worker that has a
//! link for itself.

use crate::cell::Cell;
use crate::run::Run;
use crate::summary::TaskSummary;

/// Seconds a step of a run on emulated hosts, as they should be and as they were.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkPrediction {
    /// What each link carries each way.
    pub link_bytes_per_s: f64,
    /// What a worker sends a step.
    pub bytes: f64,
    /// Measured: a worker's time to a gradient.
    pub gradient_s: f64,
    /// What the fullest link needs.
    pub link_s: f64,
    /// A worker's step by these.
    pub step_s: f64,
    /// A worker's step as it was, tests left out.
    pub measured_s: f64,
}

impl LinkPrediction {
    /// Of a run that was emulated with limited links, each task alone on its host but for servers.
    pub fn of(run: &Run) -> Option<Self> {
        let key = |name: &str| run.job.get(name).map(String::as_str);
        let link_bytes_per_s = parse_rate(key("cluster.emulate.link")?)? / 8.0;
        let hosts: usize = key("cluster.emulate.hosts")?.parse().ok()?;
        let is_apart = key("cluster.emulate.server") == Some("own");
        let workers: Vec<_> = run.summary.workers().filter(|task| task.steps > 0).collect();
        let (n, k) = (workers.len(), run.summary.tasks.len() - run.summary.workers().count());
        if n == 0 || hosts < n + if is_apart { k } else { 0 } {
            return None;
        }
        let mean = |of: &dyn Fn(&TaskSummary) -> f64| {
            workers.iter().map(|task| of(task) / task.steps as f64).sum::<f64>() / n as f64
        };
        let phase = |task: &TaskSummary, names: &[&str]| -> f64 {
            let phases = task.phases.iter().filter(|(name, _)| names.contains(&name.as_str()));
            phases.map(|(_, seconds)| seconds).sum()
        };
        let bytes = mean(&|task| task.sent_bytes);
        let gradient_s = mean(&|task| phase(task, &["input", "compute"]));
        let measured_s = mean(&|task| task.seconds - task.evaluation_seconds);
        let link_s = share(n as f64, k as f64, is_apart) * bytes / link_bytes_per_s;
        let step_s = match run.summary.mode.as_str() {
            "sync" | "mirrored" => gradient_s + link_s,
            _ => link_s.max(gradient_s + bytes / link_bytes_per_s),
        };
        Some(Self { link_bytes_per_s, bytes, gradient_s, link_s, step_s, measured_s })
    }

    /// Of a cell's first run.
    pub fn of_cell(cell: &Cell) -> Option<Self> {
        Self::of(cell.runs.first()?)
    }
}

/// How many times a worker's bytes the fullest link carries.
fn share(n: f64, k: f64, is_apart: bool) -> f64 {
    match k {
        0.0 => 1.0,
        _ if is_apart => (n / k).max(1.0),
        // The host of a server and a worker: the other workers' parts of this shard, and this
        // worker's parts of the others.
        _ => (((n - 1.0) + (k - 1.0)) / k).max(if n > k { 1.0 } else { 0.0 }),
    }
}

/// Bits a second, as job files write them.
fn parse_rate(text: &str) -> Option<f64> {
    let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    let (unit, scale) = units.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Summary;

    /// A run in which each worker computes 1 s and sends 125 MB a step, over 1 Gbit/s.
    fn run(mode: &str, workers: usize, servers: usize, placed: &str, seconds: f64) -> Run {
        let task = |name: String| {
            format!(
                r#"{{"task": "{name}", "steps": 4, "seconds": {seconds}, "sent_bytes": 5e8,
                     "phases": {{"compute": 4.0, "wait": 1.0}}}}"#
            )
        };
        let tasks = (0..workers).map(|i| task(format!("worker:{i}")));
        let tasks = tasks.chain((0..servers).map(|i| task(format!("ps:{i}"))));
        let tasks = tasks.collect::<Vec<_>>().join(",");
        let summary = format!(r#"{{"mode": "{mode}", "tasks": [{tasks}]}}"#);
        let job = [("link", "1gbit"), ("hosts", "8"), ("server", placed)];
        let job = job.map(|(key, value)| (format!("cluster.emulate.{key}"), value.to_owned()));
        let summary = Summary::parse(&summary).unwrap();
        Run { summary, job: job.into_iter().collect(), ..Run::default() }
    }

    #[test]
    fn the_fullest_link_decides() {
        let step =
            |mode, n, k, placed| LinkPrediction::of(&run(mode, n, k, placed, 9.0)).unwrap().step_s;
        assert_eq!(step("sync", 4, 1, "own"), 1.0 + 4.0);
        assert_eq!(step("sync", 4, 2, "own"), 1.0 + 2.0);
        assert_eq!(step("sync", 2, 4, "own"), 1.0 + 1.0, "a worker's own link");
        assert_eq!(step("sync", 4, 1, "beside"), 1.0 + 3.0, "worker 0 needs no link");
        assert_eq!(step("sync", 2, 2, "beside"), 1.0 + 1.0);
        assert_eq!(step("async", 4, 1, "own"), 4.0, "the server's link never rests");
        assert_eq!(step("async", 1, 1, "own"), 2.0);
        assert_eq!(step("mirrored", 2, 0, "own"), 2.0);
    }

    #[test]
    fn what_was_measured_stands_beside_it() {
        let found = LinkPrediction::of(&run("sync", 2, 1, "own", 12.0)).unwrap();
        assert_eq!((found.step_s, found.measured_s, found.bytes), (3.0, 3.0, 125e6));
        let mut plain = run("sync", 2, 1, "own", 12.0);
        plain.job.remove("cluster.emulate.link");
        assert_eq!(LinkPrediction::of(&plain), None);
    }
}
