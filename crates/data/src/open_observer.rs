//! What a program learns while data is opened, and how it stops that.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::DataError;

/// How often progress is reported; in tests at every step.
const REPORT_EVERY: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 100 });

/// Follows the opening of data. Any `FnMut(OpenReport<'_>) -> ControlFlow<()>` does.
pub trait OpenObserver {
    /// Called with every event: several times a second while data is read, or while the process
    /// waits for another one. [`ControlFlow::Break`] stops reading with
    /// [`DataError::Interrupted`].
    fn report(&mut self, report: OpenReport<'_>) -> ControlFlow<()>;

    /// The name of this process for others that wait while it reads.
    fn name(&self) -> String {
        format!("process {}", std::process::id())
    }
}

impl<F: FnMut(OpenReport<'_>) -> ControlFlow<()>> OpenObserver for F {
    fn report(&mut self, report: OpenReport<'_>) -> ControlFlow<()> {
        self(report)
    }
}

/// Ignores all events.
pub fn ignore_reports() -> impl OpenObserver {
    |_: OpenReport<'_>| ControlFlow::Continue(())
}

/// An event while data is opened.
#[derive(Clone, Copy, Debug)]
pub enum OpenReport<'a> {
    /// A remark that is worth keeping, such as why a cache is built again.
    Note(&'a str),
    /// What was decided about the data, or is doubtful about it: the same in every process that
    /// opens it, now or later.
    Decision(&'a str),
    /// How far an operation has got.
    Progress(OpenProgress<'a>),
    /// Another process reads the same data, and this one waits for it.
    Waiting {
        /// The other process.
        holder: &'a str,
        /// What it reads.
        what: &'a str,
    },
}

/// How far an operation has got.
#[derive(Clone, Copy, Debug)]
pub struct OpenProgress<'a> {
    /// The operation, as a participle: "reading", "generating", …
    pub action: &'static str,
    /// What is read: the name of a file, or of generated data.
    pub what: &'a str,
    /// The share that is done, from 0 to 1.
    pub share: f64,
    /// The share that an earlier process had done.
    pub share_before: f64,
    /// Rows so far; 0 if the operation does not count them.
    pub rows: u64,
    /// The rows of an earlier process among them.
    pub rows_before: u64,
    /// How long it has taken.
    pub elapsed: Duration,
}

impl OpenProgress<'_> {
    /// How long the rest takes if it is as fast as the part so far.
    pub fn left(&self) -> Option<Duration> {
        let done = self.share - self.share_before;
        let left = self.elapsed.as_secs_f64() * (1.0 - self.share) / done;
        Duration::try_from_secs_f64(left).ok().filter(|_| done > 0.0)
    }

    /// Rows per second; `None` if the operation does not count them.
    pub fn rows_per_s(&self) -> Option<f64> {
        let rows = self.rows.saturating_sub(self.rows_before) as f64;
        let rate = rows / self.elapsed.as_secs_f64();
        (rows > 0.0 && rate.is_finite()).then_some(rate)
    }
}

/// Counts an operation's progress and reports it, not too often.
pub struct OpenMeter<'a> {
    observer: &'a mut dyn OpenObserver,
    action: &'static str,
    what: String,
    total: u64,
    done: u64,
    rows: u64,
    /// What an earlier process had done.
    done_before: u64,
    rows_before: u64,
    started: Instant,
    /// When progress was last reported.
    reported: Option<Instant>,
}

impl<'a> OpenMeter<'a> {
    /// Begins an operation of `total` units.
    pub fn new(
        observer: &'a mut dyn OpenObserver,
        action: &'static str,
        what: &Path,
        total: u64,
    ) -> Self {
        let now = Instant::now();
        let what = short_name(what);
        OpenMeter {
            observer,
            action,
            what,
            total,
            done: 0,
            rows: 0,
            done_before: 0,
            rows_before: 0,
            started: now,
            reported: None,
        }
    }

    /// Says what the operation does now.
    pub(crate) fn set_what(&mut self, action: &'static str, what: &Path) {
        (self.action, self.what) = (action, short_name(what));
    }

    /// Begins from 0 again.
    pub(crate) fn restart(&mut self) {
        (self.done, self.rows) = (0, 0);
        (self.done_before, self.rows_before) = (0, 0);
    }

    /// Counts units that an earlier process had done.
    pub(crate) fn skip(&mut self, units: u64) {
        self.done += units;
        self.done_before += units;
    }

    /// Counts rows of an earlier process.
    pub(crate) fn resume_rows(&mut self, rows: u64) {
        (self.rows, self.rows_before) = (rows, rows);
    }

    /// Sets the number of rows so far.
    #[inline]
    pub fn set_rows(&mut self, rows: u64) {
        self.rows = rows;
    }

    /// Counts units, and reports if it is time.
    ///
    /// # Errors
    /// If the observer wants to stop.
    pub fn add(&mut self, units: u64) -> Result<(), DataError> {
        self.done += units;
        let now = Instant::now();
        if self.reported.is_some_and(|last| now - last < REPORT_EVERY) {
            return Ok(());
        }
        self.reported = Some(now);
        let report = OpenReport::Progress(OpenProgress {
            action: self.action,
            what: &self.what,
            share: self.share(self.done),
            share_before: self.share(self.done_before),
            rows: self.rows,
            rows_before: self.rows_before,
            elapsed: now - self.started,
        });
        match self.observer.report(report) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(DataError::Interrupted),
        }
    }

    fn share(&self, done: u64) -> f64 {
        (done as f64 / self.total.max(1) as f64).min(1.0)
    }

    /// Reports a remark.
    pub(crate) fn note(&mut self, text: &str) {
        // A request to stop takes effect at the next report of progress.
        let _ = self.observer.report(OpenReport::Note(text));
    }
}

/// The last part of a path, for messages.
pub(crate) fn short_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into())
}
