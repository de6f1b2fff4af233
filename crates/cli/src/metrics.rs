//! `/metrics` for Prometheus, and `/healthz`: a task's figures while it runs.
//!
//! If `observe.http` is set, a task publishes its figures at most ten times a second. A request
//! gets the figures published last, and the processor time and memory used so far; so requests do
//! not slow a step.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use paceline_http::{Guard, HttpServer, Limits, Response, bind};
use paceline_observe::metrics::MetricFigures;
use paceline_place::{read_only_token, read_token};
use paceline_record::names::files;
use paceline_record::write_secret;

use crate::Failure;
use paceline_job::Plan;

/// The shortest time between two publications.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);

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
    /// The task's number on its host, which is added to the port.
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
            Some(path) => {
                let token = read_only_token(&read_token("cluster.token_file", path)?);
                write_secret(&folder.join(files::METRICS_TOKEN), token.as_bytes())?;
                Guard::with_token(&token)
            }
            None => Guard::without_token(),
        };
        // Probes of Kubernetes have no token.
        let guard = guard.opening("/healthz");
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
        latest.clear();
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
        self.latest().render(&self.info, self.started_s)
    }
}

#[cfg(test)]
mod tests;
