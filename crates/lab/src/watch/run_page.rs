//! Answers the requests of the page.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paceline_http::{Request, Response, StreamWriter};

use super::assets::serve_asset;
use super::page_limits::MAX_COMPARED_RUNS;
use super::run_list::RunList;
use super::run_reader::RunReader;
use super::run_updates::{SentState, zoom};
use super::series::CurveAxis;

/// Most runs in memory.
const MAX_OPEN_RUNS: usize = 24;
/// How often a page receives what has changed.
const UPDATE_INTERVAL: Duration = Duration::from_millis(500);
/// How often a page receives something at least, which shows whether it is still there.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Answers the requests of the page that shows the runs of a directory.
#[derive(Clone, Debug)]
pub struct RunPage {
    state: Arc<PageState>,
}

#[derive(Debug)]
struct PageState {
    list: Mutex<RunList>,
    /// By id.
    open_runs: Mutex<HashMap<String, OpenRun>>,
}

/// A run that a page shows, or showed until recently.
#[derive(Debug)]
struct OpenRun {
    run: Arc<Mutex<RunReader>>,
    last_used: Instant,
}

impl RunPage {
    /// Shows the runs below a directory, or the directory itself if it is a run. The directory
    /// need not exist yet.
    pub fn new(dir: &Path) -> Self {
        let state = PageState { list: Mutex::new(RunList::new(dir)), open_runs: Mutex::default() };
        Self { state: Arc::new(state) }
    }

    /// Answers a request: for a file of the page, for the list of runs, for updates of some runs
    /// or for a part of a run.
    pub fn answer(&self, request: &Request) -> Response {
        match request.path.as_str() {
            "/api/runs" => Response::json(self.state.list().json().as_bytes().to_vec()),
            "/api/stream" => self.stream_updates(request),
            "/api/zoom" => self.zoom(request),
            path => serve_asset(path),
        }
    }

    /// Streams the list of runs and updates of the requested runs as server-sent events.
    fn stream_updates(&self, request: &Request) -> Response {
        let ids = request.query.iter().filter(|(name, _)| name == "run");
        let ids: Vec<String> = ids.map(|(_, id)| id.clone()).take(MAX_COMPARED_RUNS).collect();
        let state = self.state.clone();
        Response::stream("text/event-stream", move |writer| state.write_updates(&ids, writer))
    }

    fn zoom(&self, request: &Request) -> Response {
        let number =
            |name: &str| request.param(name)?.parse::<f64>().ok().filter(|x| x.is_finite());
        let axis = match request.param("x") {
            Some("step") => CurveAxis::Step,
            Some("time") => CurveAxis::Time,
            _ => return Response::text(400, "x must be step or time\n"),
        };
        let (Some(from), Some(to)) = (number("from"), number("to")) else {
            return Response::text(400, "from and to must be numbers\n");
        };
        let run = request.param("run").and_then(|id| self.state.open_run(id));
        let Some(run) = run else { return Response::not_found() };
        let run = lock(&run);
        Response::json(zoom(&run, axis, from..to).into_bytes())
    }
}

impl PageState {
    fn list(&self) -> MutexGuard<'_, RunList> {
        lock(&self.list)
    }

    /// The reader of a run, if the list has this run. Closes the run that has not been used for
    /// the longest time if too many are open.
    fn open_run(&self, id: &str) -> Option<Arc<Mutex<RunReader>>> {
        let path = self.list().path(id)?;
        let mut open_runs = lock(&self.open_runs);
        if open_runs.len() >= MAX_OPEN_RUNS && !open_runs.contains_key(id) {
            let oldest = open_runs.iter().min_by_key(|(_, open)| open.last_used);
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.and_then(|id| open_runs.remove(&id));
        }
        let open = open_runs.entry(id.to_owned()).or_insert_with(|| OpenRun {
            run: Arc::new(Mutex::new(RunReader::new(&path))),
            last_used: Instant::now(),
        });
        open.last_used = Instant::now();
        Some(open.run.clone())
    }

    /// Writes updates until the page closes the connection.
    fn write_updates(&self, ids: &[String], writer: &mut StreamWriter<'_>) -> io::Result<()> {
        let mut sent_runs: Vec<SentState> = ids.iter().map(|_| SentState::default()).collect();
        let mut sent_list: Arc<str> = "".into();
        let mut last_write = Instant::now();
        loop {
            let list = self.list().json();
            if list != sent_list {
                writer.write(format!("event: runs\ndata: {list}\n\n").as_bytes())?;
                (sent_list, last_write) = (list, Instant::now());
            }
            for (id, sent) in ids.iter().zip(&mut sent_runs) {
                let Some(run) = self.open_run(id) else { continue };
                let mut run = lock(&run);
                run.refresh();
                let update = sent.next_update(id, &run);
                drop(run);
                if let Some(update) = update {
                    writer.write(format!("event: run\ndata: {update}\n\n").as_bytes())?;
                    last_write = Instant::now();
                }
            }
            if last_write.elapsed() >= KEEP_ALIVE_INTERVAL {
                writer.write(b": keep-alive\n\n")?;
                last_write = Instant::now();
            }
            writer.wait(UPDATE_INTERVAL)?;
        }
    }
}

/// Locks a mutex. A request that panicked must not end the page for the others.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
