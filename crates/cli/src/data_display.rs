//! Shows what happens while data is read: one line that changes in a terminal, lines elsewhere.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use paceline_data::{OpenObserver, OpenProgress, OpenReport};

use crate::Failure;
use crate::progress::{write_above, write_line};
use crate::stop_source::StopSource;
use paceline_terminal::{bar_target, bar_width, clock_time, grouped, without_details};

/// Operations that take less than this are not shown.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// Lines are written this often, or less often the longer an operation takes: after this share of
/// its time again.
const LINE_EVERY: Duration = Duration::from_secs(2);
const LINE_SHARE: u32 = 5;

/// Shows the reading of data, and ends it when the process is asked to stop.
pub(crate) struct DataDisplay {
    form: DisplayForm,
    /// The task that reads, if the run has several.
    task: Option<String>,
    /// Whether this process says what was decided about the data.
    says_decisions: bool,
    stop: StopSource,
    /// When the wait for another process began.
    waiting_since: Option<Instant>,
    /// When the next line is written.
    next_line: Instant,
}

enum DisplayForm {
    Silent,
    Lines,
    Terminal(ProgressBar),
}

impl DataDisplay {
    /// Shows nothing if `silent`.
    pub(crate) fn new(silent: bool, stop: &StopSource) -> Self {
        let form = if silent {
            DisplayForm::Silent
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(None, bar_target());
            // The message is cut at the width of the terminal.
            let style = ProgressStyle::with_template("{wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            DisplayForm::Terminal(bar)
        } else {
            DisplayForm::Lines
        };
        let (stop, next_line) = (stop.clone(), Instant::now());
        Self { form, task: None, says_decisions: true, stop, waiting_since: None, next_line }
    }

    /// Names the task that reads, in messages and to processes that wait for it.
    pub(crate) fn for_task(mut self, task: &str) -> Self {
        self.task = Some(task.to_owned());
        self
    }

    /// Leaves what was decided about the data to another process, which says it.
    pub(crate) fn without_decisions(mut self) -> Self {
        self.says_decisions = false;
        self
    }

    /// Shows a message that stays.
    pub(crate) fn say(&self, text: &str) {
        let line = self.with_task(text);
        match &self.form {
            DisplayForm::Silent => {}
            DisplayForm::Lines => write_line(&line),
            DisplayForm::Terminal(bar) => write_above(bar, &line),
        }
    }

    /// The failure when reading stopped because the process was asked to.
    pub(crate) fn interrupted(&self) -> Failure {
        Failure::Signal { signal: self.stop.signal().unwrap_or_default() }
    }

    fn with_task(&self, text: &str) -> String {
        match &self.task {
            Some(task) => format!("{task}: {text}"),
            None => text.to_owned(),
        }
    }

    /// Shows a message that the next one replaces.
    pub(crate) fn show(&mut self, text: &str, elapsed: Duration) {
        if elapsed < SHOWN_AFTER {
            return;
        }
        let line = self.with_task(text);
        match &self.form {
            DisplayForm::Silent => {}
            DisplayForm::Terminal(bar) => {
                bar.set_message(without_details(&line, bar_width()));
                bar.tick();
            }
            DisplayForm::Lines if Instant::now() >= self.next_line => {
                write_line(&line);
                self.next_line = Instant::now() + LINE_EVERY.max(elapsed / LINE_SHARE);
            }
            DisplayForm::Lines => {}
        }
    }
}

impl OpenObserver for DataDisplay {
    fn report(&mut self, report: OpenReport<'_>) -> ControlFlow<()> {
        match report {
            OpenReport::Note(text) => self.say(text),
            OpenReport::Decision(text) if self.says_decisions => self.say(text),
            OpenReport::Decision(_) => {}
            OpenReport::Progress(progress) => {
                self.show(&progress_text(&progress), progress.elapsed)
            }
            OpenReport::Waiting { holder, what } => {
                let elapsed = self.waiting_since.get_or_insert_with(Instant::now).elapsed();
                let so_far = clock_time(elapsed.as_secs_f64());
                let text = format!("waiting for {holder} to read {what} ({so_far} so far)");
                self.show(&text, elapsed);
            }
        }
        match self.stop.signal() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    fn name(&self) -> String {
        let process = std::process::id();
        match &self.task {
            Some(task) => format!("{task} (process {process})"),
            None => format!("process {process}"),
        }
    }
}

impl Drop for DataDisplay {
    /// Removes the line from the terminal.
    fn drop(&mut self) {
        if let DisplayForm::Terminal(bar) = &self.form {
            bar.finish_and_clear();
        }
    }
}

/// One line about an operation: `reading rows.svm: 34 % (1,200,000 rows, 400,000 a second, 3 s
/// left)`.
fn progress_text(progress: &OpenProgress<'_>) -> String {
    let OpenProgress { action, what, share, rows, .. } = progress;
    let rows = (*rows > 0).then(|| match progress.rows_per_s() {
        Some(rate) => format!("{} rows, {} a second", grouped(*rows), grouped(rate as u64)),
        None => format!("{} rows", grouped(*rows)),
    });
    let left = progress.left().map(|left| format!("{} left", clock_time(left.as_secs_f64())));
    let details: Vec<_> = rows.into_iter().chain(left).collect();
    let details =
        if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    // Rounded down: 100 % would be done.
    format!("{action} {what}: {} %{details}", (100.0 * share).floor())
}

#[cfg(test)]
mod tests;
