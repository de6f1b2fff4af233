//! The thread that looks at the machine now and then, and writes down what it sees.
//!
//! `resources.csv` gets a line each time, written at one go and without a buffer: whenever the
//! task ends, and however, the file is whole up to the last line. The lines are also kept for
//! whoever writes the task's event file, which must have one writer only, and summed up for the
//! run's summary.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::resources::{Gauges, Meter, Sample, Usage, columns};

/// The file's name in the task's folder; a task that comes back makes `resources-2.csv`.
pub const FILE: &str = "resources.csv";
/// How often a task may come back.
const MAX_FILES: u32 = 1_000;

/// Rows that wait to be taken at most; if nobody takes them the oldest go.
const MAX_WAITING: usize = 600;
/// Rows that are kept for a timeline.
const MAX_KEPT: usize = 10_000;
/// A last row of less than this would tell more about the clock than about the task.
const SHORTEST: Duration = Duration::from_millis(20);

/// Looks at this process and its machine until it is dropped.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    /// Says to look at once; dropped to end the thread.
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    gauges: Gauges,
    /// Rows wait to be taken.
    has_news: AtomicBool,
    books: Mutex<Books>,
}

struct Books {
    meter: Meter,
    file: File,
    line: String,
    waiting: VecDeque<Sample>,
    usage: Usage,
    columns: Vec<String>,
    /// Rows that a timeline wants to have, while it is recorded.
    kept: Option<Vec<Sample>>,
}

impl Sampler {
    /// Starts to look, now and then every so often, and makes `resources.csv` in `dir`. `peers`
    /// are the other tasks that bytes go to and come from.
    pub fn start(dir: &Path, every: Duration, peers: &[String]) -> io::Result<Self> {
        let columns = columns(peers);
        let mut file = create(dir)?;
        file.write_all(format!("time_s,step,{}\n", columns.join(",")).as_bytes())?;
        let gauges = Gauges::of_peers(peers.len());
        let meter = Meter::start("/".as_ref(), &gauges);
        let usage = Usage::of_cores(meter.cores(), columns.len());
        let (line, waiting) = (String::new(), VecDeque::new());
        let books = Books { meter, file, line, waiting, usage, columns, kept: None };
        let shared = Shared { gauges, has_news: AtomicBool::new(false), books: Mutex::new(books) };
        let shared = Arc::new(shared);
        let (alive, ended) = channel::<()>();
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("sampler".into()).spawn(move || {
            while ended.recv_timeout(every) != Err(RecvTimeoutError::Disconnected) {
                theirs.look();
            }
        })?;
        Ok(Self { shared, alive: Some(alive), thread: Some(thread) })
    }

    /// Where the task tells what it knows of itself.
    #[inline]
    pub fn gauges(&self) -> &Gauges {
        &self.shared.gauges
    }

    /// Whether there are rows to take; costs next to nothing.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.shared.has_news.load(Ordering::Relaxed)
    }

    /// Takes the rows that have come since this was last called, the oldest first.
    pub fn take(&self) -> Vec<Sample> {
        let mut books = self.shared.books();
        self.shared.has_news.store(false, Ordering::Relaxed);
        books.waiting.drain(..).collect()
    }

    /// The columns of the table from the third on.
    pub fn columns(&self) -> Vec<String> {
        self.shared.books().columns.clone()
    }

    /// A timeline begins or ends: a row is taken soon, and those from now on are kept for it.
    pub fn keep(&self) {
        self.shared.books().kept.get_or_insert_with(Vec::new);
        let _ = self.alive.as_ref().map(|alive| alive.send(()));
    }

    /// The rows that were kept, with one of this moment.
    pub fn kept(&self) -> Vec<Sample> {
        self.shared.look();
        self.shared.books().kept.take().unwrap_or_default()
    }

    /// What counts begins now: means and peaks forget what came before, which a row ends.
    pub fn begin(&self) {
        self.shared.look();
        let mut books = self.shared.books();
        books.usage.begin_again();
    }

    /// Means and peaks up to now, for which a last row is taken.
    pub fn usage(&self) -> Usage {
        let is_due = |books: &Books| books.usage.samples == 0 || books.meter.age() >= SHORTEST;
        if is_due(&self.shared.books()) {
            self.shared.look();
        }
        self.shared.books().usage.clone()
    }
}

impl Sampler {
    /// Looks no more. What has been seen can still be taken.
    pub fn stop(&mut self) {
        self.alive = None;
        // A sampler that has panicked must not take the task with it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) {
        let mut books = self.books();
        let (sample, passed) = books.meter.sample(&self.gauges);
        books.usage.add(&sample.figures, passed.as_secs_f64());
        books.write(&sample);
        if let Some(kept) = books.kept.as_mut().filter(|kept| kept.len() < MAX_KEPT) {
            kept.push(sample.clone());
        }
        if books.waiting.len() == MAX_WAITING {
            books.waiting.pop_front();
        }
        books.waiting.push_back(sample);
        self.has_news.store(true, Ordering::Relaxed);
    }
}

impl Books {
    /// Writes a line, whole. A disk that is full must not end a run that goes well.
    fn write(&mut self, sample: &Sample) {
        self.line.clear();
        let _ = write!(self.line, "{:.3},{}", sample.time_s, sample.step);
        for (name, figure) in self.columns.iter().zip(&sample.figures) {
            let digits = if name.ends_with("_percent") { 1 } else { 0 };
            let _ = write!(self.line, ",{figure:.digits$}");
        }
        self.line.push('\n');
        let _ = self.file.write_all(self.line.as_bytes());
    }
}

/// A new file; one that is there is left alone.
fn create(dir: &Path) -> io::Result<File> {
    let mut created = File::create_new(dir.join(FILE));
    for number in 2..=MAX_FILES {
        match &created {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                created = File::create_new(dir.join(format!("resources-{number}.csv")));
            }
            _ => break,
        }
    }
    created
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("gauges", &self.gauges).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;
    use crate::resources::WIDTH;

    /// The file's rows, each of as many numbers as the header has names.
    fn rows(dir: &Path) -> Vec<Vec<f64>> {
        let text = fs::read_to_string(dir.join(FILE)).unwrap();
        assert!(text.ends_with('\n'), "{text:?}");
        let mut lines = text.lines();
        assert_eq!(lines.next().unwrap().split(',').count(), 2 + WIDTH);
        let row = |line: &str| line.split(',').map(|cell| cell.parse().unwrap()).collect();
        let rows: Vec<Vec<f64>> = lines.map(row).collect();
        assert!(rows.iter().all(|row| row.len() == 2 + WIDTH), "{text}");
        rows
    }

    #[test]
    fn every_look_is_a_line_of_the_file_before_anybody_closes_it() {
        let dir = tempfile::tempdir().unwrap();
        let sampler = Sampler::start(dir.path(), Duration::from_millis(1), &[]).unwrap();
        drop(Sampler::start(dir.path(), Duration::from_secs(1), &[]).unwrap());
        assert!(dir.path().join("resources-2.csv").is_file(), "the first is left alone");
        sampler.gauges().at_step(42);
        let mut taken = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        while taken.len() < 5 && Instant::now() < deadline {
            if sampler.has_news() {
                taken.extend(sampler.take());
            }
        }
        let rows = rows(dir.path());
        assert!(rows.len() >= 5);
        for (sample, row) in taken.iter().zip(&rows) {
            assert!((sample.time_s - row[0]).abs() < 1e-3);
            assert!((sample.figures[0] - row[2]).abs() <= 0.06, "{sample:?} {row:?}");
        }
        assert_eq!(rows[rows.len() - 1][1], 42.0);
    }

    #[test]
    fn a_task_that_ends_before_the_first_look_is_accounted_for_too() {
        let dir = tempfile::tempdir().unwrap();
        let sampler = Sampler::start(dir.path(), Duration::from_secs(3600), &[]).unwrap();
        assert!(rows(dir.path()).is_empty());
        let usage = sampler.usage();
        assert_eq!((usage.samples, rows(dir.path()).len()), (1, 1));
        assert!(usage.cores >= 0.01 && usage.means()[14] > 0.0, "{usage:?}");
        sampler.begin();
        let begun = Instant::now();
        drop(sampler);
        assert!(begun.elapsed() < Duration::from_secs(60), "the thread is not waited for");
    }
}
