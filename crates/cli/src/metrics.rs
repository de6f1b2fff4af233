//! `/metrics` for Prometheus, and `/healthz`: a task's figures while it runs.
//!
//! If `observe.http` is set, a task publishes its figures at most ten times a second. A request
//! gets the figures published last, and the processor time and memory used so far; so requests do
//! not slow a step.

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
use paceline_job::Plan;

/// The shortest time between two publications.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);

/// The type of a figure, as Prometheus defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricKind {
    /// It only grows.
    Counter,
    /// It rises and falls.
    Gauge,
}

/// All figures of one name.
#[derive(Debug)]
struct MetricFamily {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> MetricFamily {
    MetricFamily { name, kind: MetricKind::Counter, help }
}

const fn gauge(name: &'static str, help: &'static str) -> MetricFamily {
    MetricFamily { name, kind: MetricKind::Gauge, help }
}

/// Every figure; a task publishes those that it knows. `docs/observe.md` lists them.
const FAMILIES: [MetricFamily; 18] = [
    gauge("paceline_info", "1, with the task, the mode, the model and the version as labels"),
    gauge("paceline_global_step", "Updates made, as far as the task knows"),
    counter("paceline_steps_total", "Steps that the worker took"),
    counter("paceline_examples_total", "Examples that the worker trained on"),
    gauge("paceline_train_loss", "Loss of the worker's last batch"),
    gauge("paceline_test_loss", "Loss of the last test; coordinator and evaluator"),
    gauge(
        "paceline_test_accuracy_ratio",
        "Share of test examples classified correctly in the last test; coordinator and evaluator",
    ),
    counter(
        "paceline_phase_seconds_total",
        "Time that the worker or the server's threads spent in each phase",
    ),
    counter("paceline_sent_bytes_total", "Bytes sent to each other task"),
    counter("paceline_received_bytes_total", "Bytes received from each other task"),
    counter("paceline_applied_gradients_total", "Gradients that the server applied"),
    counter("paceline_dropped_gradients_total", "Gradients that came too late for the server"),
    gauge("paceline_staleness_mean_updates", "Mean staleness of applied gradients, in updates"),
    gauge("paceline_staleness_max_updates", "Greatest staleness of applied gradients, in updates"),
    gauge("paceline_gradient_seconds", "Mean time of each worker to a gradient; server 0 only"),
    counter("process_cpu_seconds_total", "Processor time of the task, user and system"),
    gauge("process_resident_memory_bytes", "Resident memory of the task"),
    gauge("process_start_time_seconds", "When the task was started, since 1970"),
];

/// The published figures of a task.
#[derive(Debug, Default)]
pub struct MetricFigures(Vec<MetricFigure>);

#[derive(Debug)]
struct MetricFigure {
    /// The name of its family.
    family: &'static str,
    label: Option<MetricLabel>,
    value: f64,
}

#[derive(Debug)]
struct MetricLabel {
    name: &'static str,
    value: String,
}

impl MetricFigures {
    /// Adds a figure without a label.
    pub fn add(&mut self, name: &'static str, figure: f64) {
        self.0.push(MetricFigure { family: name, label: None, value: figure });
    }

    /// Adds a figure with a label.
    pub fn add_of(
        &mut self,
        name: &'static str,
        label: &'static str,
        of: impl Into<String>,
        figure: f64,
    ) {
        let label = Some(MetricLabel { name: label, value: of.into() });
        self.0.push(MetricFigure { family: name, label, value: figure });
    }
}

/// What the task and the HTTP server share.
#[derive(Debug)]
struct MetricsState {
    info: String,
    started_s: f64,
    latest: Mutex<MetricFigures>,
}

/// The task whose metrics are served.
pub struct MetricsTask<'a> {
    /// The task's name.
    pub name: &'a str,
    /// The task's number in the run, which is added to the port.
    pub number: usize,
    /// The tasks it exchanges data with.
    pub peers: Vec<String>,
}

/// Serves a task's figures over HTTP.
pub struct Metrics {
    shared: Arc<MetricsState>,
    next: Instant,
    peers: Vec<String>,
    _server: HttpServer,
}

impl Metrics {
    /// Starts the server, if the plan sets `observe.http`. Writes its address to a file in
    /// `folder`.
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

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self._server.address()
    }

    /// Whether figures should be published again.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Publishes figures. `fill` receives them empty, and the names of the peers.
    pub fn publish(&mut self, now: Instant, fill: impl FnOnce(&mut MetricFigures, &[String])) {
        self.next = now + PUBLISH_EVERY;
        let mut latest = self.shared.latest();
        latest.0.clear();
        fill(&mut latest, &self.peers);
    }
}

/// The content type of Prometheus' text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The address of a task: unless the port is 0, the task's number is added to it.
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

    fn latest(&self) -> MutexGuard<'_, MetricFigures> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All figures in Prometheus' text format.
    fn render(&self) -> String {
        let latest = self.latest();
        let used = [
            ("process_cpu_seconds_total", process::cpu_seconds()),
            ("process_resident_memory_bytes", process::rss_bytes().map(|bytes| bytes as f64)),
            ("process_start_time_seconds", Some(self.started_s)),
        ];
        let mut text = String::new();
        for MetricFamily { name, kind, help } in &FAMILIES {
            let mut lines = String::new();
            if *name == "paceline_info" {
                let _ = writeln!(lines, "{name}{{{}}} 1", self.info);
            }
            for figure in latest.0.iter().filter(|figure| figure.family == *name) {
                if let Some(MetricLabel { name: label, value: of }) = &figure.label {
                    let _ = writeln!(lines, "{name}{{{label}=\"{of}\"}} {}", figure.value);
                } else {
                    let _ = writeln!(lines, "{name} {}", figure.value);
                }
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
    fn every_task_has_its_own_port() {
        assert_eq!(own_address("127.0.0.1:9400", 3), "127.0.0.1:9403");
        assert_eq!(own_address("127.0.0.1:0", 3), "127.0.0.1:0");
        assert_eq!(own_address("[::1]:65535", 1), "[::1]:65536", "which binding will refuse");
    }

    #[test]
    fn every_figure_is_documented_and_has_a_unique_name() {
        let docs = include_str!("../../../docs/observe.md");
        for (at, family) in FAMILIES.iter().enumerate() {
            assert!(docs.contains(&format!("`{}`", family.name)), "{}", family.name);
            assert!(FAMILIES[..at].iter().all(|other| other.name != family.name));
            let is_total = family.name.ends_with("_total");
            assert_eq!(is_total, family.kind == MetricKind::Counter, "{}", family.name);
        }
    }
}
