//! Runs on a page, while they run and afterwards.
//!
//! A [`RunPage`] stands in front of a directory and answers the page's questions: which runs there
//! are, and everything about those that somebody has chosen, first as a whole and then, over
//! server-sent events, what has come since. It only reads files, so a run does not know whether
//! anybody looks.
//!
//! From a file to the screen: `run` reads a run's files on from where they were left into
//! `series`, which hold any number of points in bounded memory; `live_verdict` judges what is not
//! over yet; `run_updates` writes down what the page has not been told; `page` is the page itself.

mod assets;
mod live_verdict;
mod resource_table;
mod run_list;
mod run_reader;
mod run_updates;
mod series;
mod text_file;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paceline_http::{Request, Response, StreamWriter};

use run_list::RunList;
use run_reader::RunReader;
use run_updates::SentState;
use series::{CurveAxis, Series};

/// Runs that one page may show side by side.
const MOST_SIDE_BY_SIDE: usize = 12;
/// Runs that are held in memory.
const MOST_BOOKS: usize = 24;
/// How often a page is told what is new.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// How often something is said when nothing is new, so that a reader who has gone is noticed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// Answers questions about the runs of a directory.
#[derive(Clone, Debug)]
pub struct RunPage {
    shared: Arc<PageState>,
}

#[derive(Debug)]
struct PageState {
    runs: Mutex<RunList>,
    open_runs: Mutex<HashMap<String, OpenRun>>,
}

/// A run that somebody looks at, and when it was last looked at.
#[derive(Debug)]
struct OpenRun {
    run: Arc<Mutex<RunReader>>,
    used: Instant,
}

impl RunPage {
    /// Watches the runs below this directory, or the one that it is. It need not be there yet.
    pub fn new(dir: &Path) -> Self {
        let shared = PageState { runs: Mutex::new(RunList::new(dir)), open_runs: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Answers a question.
    pub fn answer(&self, request: &Request) -> Response {
        match request.path.as_str() {
            "/api/runs" => Response::json(self.shared.runs().list().as_bytes().to_vec()),
            "/api/stream" => self.stream(request),
            "/api/zoom" => self.zoom(request),
            path => assets::file(path),
        }
    }

    /// Server-sent events: what is new of the runs that are asked for, and of the list.
    fn stream(&self, request: &Request) -> Response {
        let asked = request.query.iter().filter(|(name, _)| name == "run");
        let ids: Vec<String> = asked.map(|(_, id)| id.clone()).take(MOST_SIDE_BY_SIDE).collect();
        let shared = self.shared.clone();
        Response::stream("text/event-stream", move |outlet| shared.tell(&ids, outlet))
    }

    fn zoom(&self, request: &Request) -> Response {
        let number =
            |name: &str| request.param(name)?.parse::<f64>().ok().filter(|x| x.is_finite());
        let axis = match request.param("x") {
            Some("step") => CurveAxis::Step,
            Some("time") => CurveAxis::Time,
            _ => return Response::text(400, "x is step or time\n"),
        };
        let (Some(from), Some(to)) = (number("from"), number("to")) else {
            return Response::text(400, "from and to are numbers\n");
        };
        let run = request.param("run").and_then(|id| self.shared.run(id));
        let Some(run) = run else { return Response::not_found() };
        let run = run.lock().unwrap_or_else(PoisonError::into_inner);
        Response::json(run_updates::zoom(&run, axis, from..to).into_bytes())
    }
}

impl PageState {
    fn runs(&self) -> MutexGuard<'_, RunList> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The book of a run, if there is such a run.
    fn run(&self, id: &str) -> Option<Arc<Mutex<RunReader>>> {
        let path = self.runs().path(id)?;
        let mut open_runs = self.open_runs.lock().unwrap_or_else(PoisonError::into_inner);
        if open_runs.len() >= MOST_BOOKS && !open_runs.contains_key(id) {
            let oldest = open_runs.iter().min_by_key(|(_, opened)| opened.used);
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.and_then(|id| open_runs.remove(&id));
        }
        let new =
            || OpenRun { run: Arc::new(Mutex::new(RunReader::new(&path))), used: Instant::now() };
        let opened = open_runs.entry(id.to_owned()).or_insert_with(new);
        opened.used = Instant::now();
        Some(opened.run.clone())
    }

    /// Tells of runs until the reader goes.
    fn tell(&self, ids: &[String], outlet: &mut StreamWriter<'_>) -> io::Result<()> {
        let mut told: Vec<SentState> = ids.iter().map(|_| SentState::default()).collect();
        let mut list: Arc<str> = "".into();
        let mut spoken = Instant::now();
        loop {
            let now = self.runs().list();
            if now != list {
                outlet.write(format!("event: runs\ndata: {now}\n\n").as_bytes())?;
                (list, spoken) = (now, Instant::now());
            }
            for (id, told) in ids.iter().zip(&mut told) {
                let Some(run) = self.run(id) else { continue };
                let mut run = run.lock().unwrap_or_else(PoisonError::into_inner);
                run.refresh();
                let news = told.news(id, &run);
                drop(run);
                if let Some(news) = news {
                    outlet.write(format!("event: run\ndata: {news}\n\n").as_bytes())?;
                    spoken = Instant::now();
                }
            }
            if spoken.elapsed() >= SIGN_OF_LIFE {
                outlet.write(b": still here\n\n")?;
                spoken = Instant::now();
            }
            outlet.wait(TELL_EVERY)?;
        }
    }
}
