//! `/metrics` for Prometheus, and `/healthz`: a task's figures for whoever asks while it runs.
//!
//! A task writes its figures down ten times a second at most, if `observe.http` says where to
//! listen, and does nothing otherwise. Who asks gets what was written down last, with what the
//! process has used up to then; so nobody's question is felt by a step.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use paceline_http::{Guard, HttpServer, Limits, Response, bind};
use paceline_observe::process;
use paceline_place::read_token;
use paceline_record::names::files;

use crate::Failure;
use crate::job::Plan;

/// How often figures are written down.
const EVERY: Duration = Duration::from_millis(100);

/// What a figure is to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricKind {
    /// Only ever grows.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// Figures of one name.
#[derive(Debug)]
struct Family {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> Family {
    Family { name, kind: MetricKind::Counter, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family { name, kind: MetricKind::Gauge, help }
}

/// Every figure that there is; a task has those that it can tell. `docs/observe.md` lists them.
const FAMILIES: [Family; 18] = [
    gauge("paceline_info", "1, with the task, the mode, the model and the version as labels"),
    gauge("paceline_global_step", "Updates made, as far as the task knows"),
    counter("paceline_steps_total", "Steps that the worker took"),
    counter("paceline_examples_total", "Examples that the worker trained on"),
    gauge("paceline_train_loss", "Loss of the worker's last batch"),
    gauge("paceline_test_loss", "Loss of the last test; chief and evaluator"),
    gauge(
        "paceline_test_accuracy_ratio",
        "Share of the last test that was right; chief and evaluator",
    ),
    counter(
        "paceline_phase_seconds_total",
        "Where the time of a worker, or of a server's threads, went",
    ),
    counter("paceline_sent_bytes_total", "Bytes sent to each other task"),
    counter("paceline_received_bytes_total", "Bytes received from each other task"),
    counter("paceline_applied_gradients_total", "Gradients that the server applied"),
    counter("paceline_dropped_gradients_total", "Gradients that came too late for the server"),
    gauge("paceline_staleness_mean_updates", "Updates that applied gradients were late by"),
    gauge("paceline_staleness_max_updates", "The same at most"),
    gauge("paceline_gradient_seconds", "Mean time of each worker to a gradient; server 0 only"),
    counter("process_cpu_seconds_total", "Processor time of the task, user and system"),
    gauge("process_resident_memory_bytes", "Resident memory of the task"),
    gauge("process_start_time_seconds", "When the task was started, since 1970"),
];

/// Figures that a task has written down: names and figures, with a label if there is one.
#[derive(Debug, Default)]
pub struct Figures(Vec<(&'static str, Option<Label>, f64)>);

/// What a figure is labelled with: the label's name and value.
type Label = (&'static str, String);

impl Figures {
    /// A figure without a label.
    pub fn add(&mut self, name: &'static str, figure: f64) {
        self.0.push((name, None, figure));
    }

    /// A figure of one of several.
    pub fn add_of(
        &mut self,
        name: &'static str,
        label: &'static str,
        of: impl Into<String>,
        figure: f64,
    ) {
        self.0.push((name, Some((label, of.into())), figure));
    }
}

/// What the task and those who ask share.
#[derive(Debug)]
struct MetricsState {
    info: String,
    started_s: f64,
    latest: Mutex<Figures>,
}

/// The task whose metrics are served.
pub struct MetricsTask<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its number among all tasks of the run, which its port is counted by.
    pub number: usize,
    /// The tasks it exchanges bytes with.
    pub peers: Vec<String>,
}

/// A task's figures, and where they can be asked for.
pub struct Metrics {
    shared: Arc<MetricsState>,
    next: Instant,
    peers: Vec<String>,
    _server: HttpServer,
}

impl Metrics {
    /// Starts to answer, if the plan wants it. `number` is the task's place among all tasks of the
    /// run, which its port is counted by, and `peers` are the tasks that bytes go to.
    pub fn start(
        plan: &Plan,
        task: MetricsTask<'_>,
        folder: &Path,
    ) -> Result<Option<Self>, Failure> {
        let MetricsTask { name: task, number, peers } = task;
        let Some(wanted) = &plan.observe_http else { return Ok(None) };
        let address = own_address(wanted, number);
        let guard = match &plan.cluster.token_file {
            Some(path) => Guard::with_token(&read_token("cluster.token_file", path)?),
            None => Guard::without_token(),
        };
        let cannot = |error: std::io::Error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied => "; set cluster.token_file, or 127.0.0.1",
                _ => "",
            };
            Failure::Usage(format!("observe.http = {wanted:?}: {task} at {address}: {error}{hint}"))
        };
        let listener = bind(&address, &guard).map_err(cannot)?;
        let shared = Arc::new(MetricsState::new(plan, task));
        let theirs = shared.clone();
        let answer = move |request: &paceline_http::Request| match request.path.as_str() {
            "/metrics" => Response::new(200, CONTENT_TYPE, theirs.render().into_bytes()),
            "/healthz" => Response::text(200, "ok\n"),
            _ => Response::not_found(),
        };
        let server =
            HttpServer::start(listener, guard, Limits::default(), answer).map_err(cannot)?;
        let url = format!("http://{}/metrics\n", server.address());
        let path = folder.join(files::METRICS_ADDRESS);
        fs::write(&path, url).map_err(Failure::at("write", &path))?;
        Ok(Some(Self { shared, next: Instant::now(), peers, _server: server }))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self._server.address()
    }

    /// Whether figures are to be written down again.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Writes figures down.
    pub fn publish(&mut self, now: Instant, tell: impl FnOnce(&mut Figures, &[String])) {
        self.next = now + EVERY;
        let mut latest = self.shared.latest();
        latest.0.clear();
        tell(&mut latest, &self.peers);
    }
}

/// What Prometheus calls its format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The address of a task: with a port other than 0, each task of the run has one of its own, in
/// their order.
fn own_address(wanted: &str, number: usize) -> String {
    match wanted.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
        Some((host, Ok(port))) if port > 0 => {
            format!("{host}:{}", u32::from(port) + number as u32)
        }
        _ => wanted.to_owned(),
    }
}

impl MetricsState {
    fn new(plan: &Plan, task: &str) -> Self {
        let info = format!(
            "task=\"{task}\",mode=\"{}\",model=\"{}\",version=\"{}\"",
            plan.cluster.mode.name(),
            plan.model.name(),
            env!("CARGO_PKG_VERSION")
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let started_s = now.map_or(0.0, |since| since.as_secs_f64());
        Self { info, started_s, latest: Mutex::default() }
    }

    fn latest(&self) -> MutexGuard<'_, Figures> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All figures, as Prometheus reads them.
    fn render(&self) -> String {
        let latest = self.latest();
        let used = [
            ("process_cpu_seconds_total", process::cpu_seconds()),
            ("process_resident_memory_bytes", process::rss_bytes().map(|bytes| bytes as f64)),
            ("process_start_time_seconds", Some(self.started_s)),
        ];
        let mut text = String::new();
        for Family { name, kind, help } in &FAMILIES {
            let mut lines = String::new();
            if *name == "paceline_info" {
                let _ = writeln!(lines, "{name}{{{}}} 1", self.info);
            }
            for (_, label, figure) in latest.0.iter().filter(|figure| figure.0 == *name) {
                let _ = match label {
                    Some((label, of)) => writeln!(lines, "{name}{{{label}=\"{of}\"}} {figure}"),
                    None => writeln!(lines, "{name} {figure}"),
                };
            }
            for (_, figure) in used.iter().filter(|(used, _)| used == name) {
                let _ = figure.map(|figure| writeln!(lines, "{name} {figure}"));
            }
            if !lines.is_empty() {
                let kind = if *kind == MetricKind::Counter { "counter" } else { "gauge" };
                let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_of_a_machine_has_a_port_of_its_own() {
        assert_eq!(own_address("127.0.0.1:9400", 3), "127.0.0.1:9403");
        assert_eq!(own_address("127.0.0.1:0", 3), "127.0.0.1:0");
        assert_eq!(own_address("[::1]:65535", 1), "[::1]:65536", "which binding will refuse");
    }

    #[test]
    fn every_figure_is_documented_and_has_a_name_of_its_own() {
        let docs = include_str!("../../../docs/observe.md");
        for (at, family) in FAMILIES.iter().enumerate() {
            assert!(docs.contains(&format!("`{}`", family.name)), "{}", family.name);
            assert!(FAMILIES[..at].iter().all(|other| other.name != family.name));
            let is_total = family.name.ends_with("_total");
            assert_eq!(is_total, family.kind == MetricKind::Counter, "{}", family.name);
        }
    }
}
