//! Ends a task that does not end by itself soon after it was asked to.
//!
//! A task that was asked to end stops waiting, reading and testing by itself. Some calls cannot be
//! stopped, such as the resolution of a host name; and some waits end only when another task acts.
//! A separate thread therefore ends the process when the time is up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use paceline_engine::LongWork;

use crate::Failure;
use crate::progress::{write_above, write_line};
use crate::stop_source::StopSource;

/// How often the thread looks.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// How long a task may take to end.
const LIMIT: Duration = Duration::from_millis(1_700);
/// The same for a task that computes: it ends when its layer or block of examples is done, and
/// keeps its model.
const LIMIT_TO_SAVE: Duration = Duration::from_secs(10);
/// The same for a task that writes its model or its last checkpoint, which would be lost.
const LIMIT_TO_WRITE: Duration = Duration::from_secs(30);
/// After how long people learn why the task has not ended yet.
const NOTE_AFTER: Duration = Duration::from_secs(1);
/// A task waits if it said so this recently: it does once a second.
const RECENT: Duration = Duration::from_millis(1_300);

/// What a task does at the moment.
#[derive(Clone, Default)]
pub(crate) struct TaskActivity(Arc<Mutex<ActivityState>>);

#[derive(Default)]
struct ActivityState {
    /// The task's name.
    task: String,
    has_started: bool,
    wait: Option<(Instant, String)>,
    work: Option<LongWork>,
    /// When the task last finished writing something.
    written: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl TaskActivity {
    fn state(&self) -> MutexGuard<'_, ActivityState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task with this name shows its progress by `bar`.
    pub(crate) fn introduce(&self, task: &str, bar: Option<ProgressBar>) {
        let mut state = self.state();
        (state.task, state.bar) = (task.to_owned(), bar);
    }

    /// The task starts to train, to serve or to test.
    pub(crate) fn start(&self) {
        self.state().has_started = true;
    }

    /// The task waits, or has waited.
    pub(crate) fn set_wait(&self, text: Option<&str>) {
        self.state().wait = text.map(|text| (Instant::now(), text.to_owned()));
    }

    /// The task does some work beside its steps.
    pub(crate) fn set_work(&self, work: LongWork) {
        let mut state = self.state();
        if work.is_done() && is_write(&work) {
            state.written = Some(Instant::now());
        }
        state.work = (!work.is_done()).then_some(work);
    }

    /// Ends this process with an error if it has not ended in time after `stop` asked it to.
    pub(crate) fn enforce(&self, stop: StopSource) -> Result<(), Failure> {
        let activity = self.clone();
        let watch = move || {
            let mut asked: Option<Instant> = None;
            let mut is_noted = false;
            loop {
                thread::sleep(CHECK_EVERY);
                if asked.is_none() && (stop.signal().is_some() || stop.should_leave()) {
                    asked = Some(Instant::now());
                }
                let Some(since) = asked.map(|asked| asked.elapsed()) else { continue };
                let state = activity.state();
                if state.is_late(since) {
                    state.end(stop.signal().unwrap_or(signal_hook::consts::SIGTERM));
                }
                if since >= NOTE_AFTER && !is_noted && state.saves() {
                    is_noted = true;
                    let text = "interrupted: ends when the current computation is done, and keeps \
                                the model; a second signal ends it at once";
                    state.say(text);
                }
            }
        };
        let thread = thread::Builder::new().name("end limit".into()).spawn(watch);
        thread.map(drop).map_err(Failure::signals)
    }
}

fn is_write(work: &LongWork) -> bool {
    !matches!(work, LongWork::Test { .. })
}

impl ActivityState {
    fn waits(&self) -> bool {
        self.wait.as_ref().is_some_and(|(at, _)| at.elapsed() < RECENT)
    }

    /// Whether the task is about to end and keep what it has.
    fn saves(&self) -> bool {
        self.has_started && !self.waits()
    }

    /// Whether it wrote something at most this long ago.
    fn has_written_within(&self, time: Duration) -> bool {
        self.written.is_some_and(|at| at.elapsed() < time)
    }

    /// Whether the time is up, this long after the signal. After the model comes the summary,
    /// however long the model took.
    fn is_late(&self, since: Duration) -> bool {
        since >= self.limit() && !self.has_written_within(LIMIT_TO_SAVE)
    }

    fn limit(&self) -> Duration {
        if self.work.as_ref().is_some_and(is_write) {
            LIMIT_TO_WRITE
        } else if self.saves() {
            LIMIT_TO_SAVE
        } else {
            LIMIT
        }
    }

    fn say(&self, text: &str) {
        let text =
            if self.task.is_empty() { text.into() } else { format!("{}: {text}", self.task) };
        match &self.bar {
            Some(bar) => write_above(bar, &text),
            None => write_line(&text),
        }
    }

    fn end(&self, signal: i32) -> ! {
        let doing = match (&self.wait, &self.work) {
            (Some((_, text)), _) if self.waits() || !self.has_started => text.clone(),
            (_, Some(work)) => work.to_string(),
            _ if self.has_written_within(2 * LIMIT_TO_SAVE) => {
                "it wrote what the run leaves".into()
            }
            _ if self.has_started => "it computed a step".into(),
            _ => "it was still starting".into(),
        };
        let failure = Failure::Unfinished {
            signal,
            why: format!("; {} did not end in time: {doing}", self.named()),
        };
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        failure.report();
        std::process::exit(i32::from(failure.exit_code()))
    }

    fn named(&self) -> &str {
        if self.task.is_empty() { "the task" } else { &self.task }
    }
}

#[cfg(test)]
mod tests;
