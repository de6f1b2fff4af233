//! Runs on a page, while they run and afterwards.
//!
//! A [`Watch`] stands in front of a directory and answers the page's questions: which runs there
//! are, and everything about those that somebody has chosen, first as a whole and then, over
//! server-sent events, what has come since. It only reads files, so a run does not know whether
//! anybody looks.
//!
//! From a file to the screen: `book` reads a run's files on from where they were left into
//! `series`, which hold any number of points in bounded memory; `live` judges what is not
//! over yet; `feed` writes down what the page has not been told; `page` is the page itself.

mod book;
mod feed;
mod files;
mod live;
mod page;
mod runs;
mod series;
mod table;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paceline_http::{Outlet, Request, Response};

use book::Book;
use feed::Told;
use runs::Runs;
use series::{Axis, Series};

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
pub struct Watch {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    runs: Mutex<Runs>,
    books: Mutex<HashMap<String, Opened>>,
}

/// A run that somebody looks at, and when it was last looked at.
#[derive(Debug)]
struct Opened {
    book: Arc<Mutex<Book>>,
    used: Instant,
}

impl Watch {
    /// Watches the runs below this directory, or the one that it is. It need not be there yet.
    pub fn new(dir: &Path) -> Self {
        let shared = Shared { runs: Mutex::new(Runs::new(dir)), books: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Answers a question.
    pub fn answer(&self, request: &Request) -> Response {
        match request.path.as_str() {
            "/api/runs" => Response::json(self.shared.runs().list().as_bytes().to_vec()),
            "/api/stream" => self.stream(request),
            "/api/zoom" => self.zoom(request),
            path => page::file(path),
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
            Some("step") => Axis::Step,
            Some("time") => Axis::Time,
            _ => return Response::text(400, "x is step or time\n"),
        };
        let (Some(from), Some(to)) = (number("from"), number("to")) else {
            return Response::text(400, "from and to are numbers\n");
        };
        let book = request.param("run").and_then(|id| self.shared.book(id));
        let Some(book) = book else { return Response::not_found() };
        let book = book.lock().unwrap_or_else(PoisonError::into_inner);
        Response::json(feed::zoom(&book, axis, from..to).into_bytes())
    }
}

impl Shared {
    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The book of a run, if there is such a run.
    fn book(&self, id: &str) -> Option<Arc<Mutex<Book>>> {
        let path = self.runs().path(id)?;
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        if books.len() >= MOST_BOOKS && !books.contains_key(id) {
            let oldest = books.iter().min_by_key(|(_, opened)| opened.used);
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.and_then(|id| books.remove(&id));
        }
        let new = || Opened { book: Arc::new(Mutex::new(Book::new(&path))), used: Instant::now() };
        let opened = books.entry(id.to_owned()).or_insert_with(new);
        opened.used = Instant::now();
        Some(opened.book.clone())
    }

    /// Tells of runs until the reader goes.
    fn tell(&self, ids: &[String], outlet: &mut Outlet<'_>) -> io::Result<()> {
        let mut told: Vec<Told> = ids.iter().map(|_| Told::default()).collect();
        let mut list: Arc<str> = "".into();
        let mut spoken = Instant::now();
        loop {
            let now = self.runs().list();
            if now != list {
                outlet.write(format!("event: runs\ndata: {now}\n\n").as_bytes())?;
                (list, spoken) = (now, Instant::now());
            }
            for (id, told) in ids.iter().zip(&mut told) {
                let Some(book) = self.book(id) else { continue };
                let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
                book.refresh();
                let news = told.news(id, &book);
                drop(book);
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
