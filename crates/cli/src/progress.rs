//! The progress of training: on standard error, as a bar in a terminal and as lines elsewhere, and
//! in the task's log.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use paceline_engine::LongWork;
use paceline_observe::ProgressReport;
use paceline_record::{TaskLog, flush_lines, write_line_after};
use paceline_terminal::{
    bar_target, bar_width, clock_time, fit_bar, fit_wait, grouped, wrap_message,
};

/// Moves to the beginning of a terminal's line and erases it.
const ERASE_LINE: &str = "\r\x1b[2K";

/// Writes a message to standard error. In a terminal it is broken between words, and replaces the
/// progress bar that another process may have drawn; that process draws it again.
pub(crate) fn write_line(text: &str) {
    let erase = if std::io::stderr().is_terminal() { ERASE_LINE } else { "" };
    write_line_after(erase, &wrap_message(text));
}

/// Writes a message above a bar.
pub(crate) fn write_above(bar: &ProgressBar, text: &str) {
    bar.suspend(|| {
        write_line(text);
        flush_lines();
    });
}

/// How often a bar is redrawn, and how often a line is written.
const BAR_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(2);

/// How often the log gets a line: the longer of `LOG_EVERY` and the elapsed time divided by
/// `LOG_SHARE`, so that a run of weeks has about a thousand lines.
const LOG_EVERY: Duration = Duration::from_secs(2);
const LOG_SHARE: u32 = 100;

/// How often lines say what a task waits for, and how long work lasts before it is shown.
const WAIT_LINE_EVERY: Duration = Duration::from_secs(5);
/// How long a server's notice of what it waits for holds; it repeats it every second.
const NOTICE_HOLDS: Duration = Duration::from_secs(3);
/// What the text of a task's own wait begins with.
const OWN_WAIT: &str = "waiting for ";
const SHOW_WORK_AFTER: Duration = Duration::from_secs(1);
/// The narrowest bar beside a text.
const LEAST_BAR: usize = 5;

/// Formats a progress report as one line.
fn progress_line(report: &ProgressReport) -> String {
    progress_parts(report).join(", ")
}

/// The same beside a bar, in this many columns together: without what does not fit.
fn short_progress_line(report: &ProgressReport, width: usize) -> String {
    let mut parts = progress_parts(report);
    let has_time = parts.last().is_some_and(|part| part.ends_with(" left"));
    if parts.join(", ").chars().count() + LEAST_BAR + 1 > width {
        let at = parts.len() - 1 - usize::from(has_time);
        parts[at] = format!("{} examples/s", short_number(report.examples_per_second));
    }
    while parts.len() > 1 && parts.join(", ").chars().count() + LEAST_BAR + 1 > width {
        // The step comes first, and the time left last; the speed before it matters least.
        let at = parts.len() - 1 - usize::from(has_time && parts.len() > 2);
        parts.remove(at);
    }
    parts.join(", ")
}

fn progress_parts(report: &ProgressReport) -> Vec<String> {
    let accuracy = report.test_accuracy.map(|share| format!("accuracy {:.2} %", 100.0 * share));
    let rate = format!("{} examples/s", grouped(report.examples_per_second.round() as u64));
    let left = report.left.map(|left| clock_time(left.as_secs_f64()));
    let left = left.filter(|left| left != "0 s").map(|left| format!("{left} left"));
    let step = format!("step {}", grouped(report.step));
    let loss = format!("loss {:.4}", report.train_loss);
    [Some(step), Some(loss), accuracy, Some(rate), left].into_iter().flatten().collect()
}

/// Three digits of a number: `93.1 k`, `1.93 M`.
fn short_number(number: f64) -> String {
    let (number, unit) = match number {
        millions if millions >= 999_500.0 => (millions / 1e6, " M"),
        thousands if thousands >= 999.5 => (thousands / 1e3, " k"),
        few => (few, ""),
    };
    let digits =
        if unit.is_empty() || number >= 99.95 { 0 } else { 1 + usize::from(number < 9.995) };
    format!("{number:.digits$}{unit}")
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

enum ProgressForm {
    Quiet,
    Lines,
    Bar(ProgressBar),
}

/// Shows the progress of training.
pub struct Progress {
    form: ProgressForm,
    /// Whether a step was shown.
    has_step: bool,
    /// When something is next shown on standard error.
    next: Instant,
    log: Option<Arc<TaskLog>>,
    next_logged: Instant,
    /// The last wait that was shown.
    wait: Option<ShownWait>,
    work: Option<ShownWork>,
}

/// A wait that was shown.
struct ShownWait {
    /// What the wait is for, without its time.
    subject: String,
    next: Instant,
    /// When its text last came.
    seen: Instant,
}

impl ShownWait {
    /// Whether this wait says more than `text`: a server says what it waits for itself, while the
    /// task merely waits for the server.
    fn says_more_than(&self, text: &str, now: Instant) -> bool {
        let is_of_task = |text: &str| text.starts_with(OWN_WAIT);
        let is_current = now.saturating_duration_since(self.seen) < NOTICE_HOLDS;
        is_current && is_of_task(text) && !is_of_task(&self.subject)
    }
}

/// Work beside the steps.
struct ShownWork {
    name: String,
    begun: Instant,
    next: Instant,
}

impl Progress {
    /// Shows a bar if standard error is a terminal, lines otherwise, and nothing if `quiet`.
    pub fn new(quiet: bool) -> Self {
        let form = if quiet {
            ProgressForm::Quiet
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(Some(1_000), bar_target());
            // The bar itself comes with the first step.
            bar.set_style(style("{msg}"));
            ProgressForm::Bar(bar)
        } else {
            ProgressForm::Lines
        };
        let now = Instant::now();
        let has_step = false;
        Self { form, has_step, next: now, log: None, next_logged: now, wait: None, work: None }
    }

    /// The bar, if there is one.
    pub fn bar(&self) -> Option<ProgressBar> {
        match &self.form {
            ProgressForm::Bar(bar) => Some(bar.clone()),
            ProgressForm::Quiet | ProgressForm::Lines => None,
        }
    }

    /// Also writes progress to a log.
    pub fn with_log(self, log: Arc<TaskLog>) -> Self {
        Self { log: Some(log), ..self }
    }

    /// When progress is next due; never if `None`.
    pub fn next_due(&self) -> Option<Instant> {
        let shown = (!matches!(self.form, ProgressForm::Quiet)).then_some(self.next);
        let logged = self.log.is_some().then_some(self.next_logged);
        shown.into_iter().chain(logged).min()
    }

    /// Shows a report, unless none is due.
    pub fn show(&mut self, report: &ProgressReport) {
        let now = Instant::now();
        if let Some(log) = self.log.as_ref().filter(|_| now >= self.next_logged) {
            log.info(&progress_line(report));
            self.next_logged = now + LOG_EVERY.max(report.elapsed / LOG_SHARE);
        }
        if now < self.next {
            return;
        }
        match &self.form {
            ProgressForm::Quiet => {}
            ProgressForm::Lines => {
                write_line(&progress_line(report));
                self.next = Instant::now() + LINE_EVERY;
            }
            ProgressForm::Bar(bar) => {
                if !std::mem::replace(&mut self.has_step, true) {
                    // The bar takes the space that the text leaves, so that both fit in a line.
                    bar.set_style(style("{wide_bar} {msg}"));
                }
                // Each draws the bar, which must not appear without its text.
                bar.set_message(short_progress_line(report, bar_width()));
                bar.set_position((1_000.0 * report.done.unwrap_or_default()) as u64);
                self.next = Instant::now() + BAR_EVERY;
            }
        }
    }

    /// Shows what the task `name` waits for: as a line that is replaced in a terminal, and as a
    /// line every few seconds elsewhere. `None` if the wait is over.
    pub fn show_wait(&mut self, name: &str, text: Option<&str>) {
        let Some(text) = text else {
            if self.wait.take().is_some()
                && let ProgressForm::Bar(bar) = &self.form
            {
                bar.set_message("");
            }
            return;
        };
        let now = Instant::now();
        if self.wait.as_ref().is_some_and(|wait| wait.says_more_than(text, now)) {
            return;
        }
        let subject = text.split(" (").next().unwrap_or_default();
        let shown = self.wait.take().filter(|wait| wait.subject == subject && now < wait.next);
        let mut next = now + WAIT_LINE_EVERY;
        match (&self.form, shown) {
            (ProgressForm::Quiet, _) => return,
            (ProgressForm::Bar(bar), _) => bar.set_message(fit_wait(text, bar_width())),
            (ProgressForm::Lines, None) => write_line(&format!("{name}{text}")),
            (ProgressForm::Lines, Some(shown)) => next = shown.next,
        }
        self.wait = Some(ShownWait { subject: subject.to_owned(), next, seen: now });
    }

    /// Shows how far work beside the steps has come, once it has lasted a second.
    pub fn show_work(&mut self, work: LongWork) {
        let now = Instant::now();
        let text = describe_work(work);
        let name = text.split(' ').next().unwrap_or_default();
        let is_same = self.work.as_ref().is_some_and(|shown| shown.name == name);
        if work.is_done() {
            self.work = None;
        } else if !is_same {
            let next = now + SHOW_WORK_AFTER;
            self.work = Some(ShownWork { name: name.to_owned(), begun: now, next });
        } else if let Some(shown) = &mut self.work
            && now >= shown.next
        {
            match &self.form {
                ProgressForm::Quiet => {}
                ProgressForm::Lines => write_line(&text),
                ProgressForm::Bar(bar) => bar.set_message(fit_bar(&text, 0)),
            }
            let is_bar = matches!(self.form, ProgressForm::Bar(_));
            let lasts = now.saturating_duration_since(shown.begun);
            shown.next = now + if is_bar { BAR_EVERY } else { LINE_EVERY.max(lasts / 10) };
        }
    }

    /// Shows a message that stays on the screen, and logs it.
    pub fn say(&self, text: &str) {
        self.note(text);
        match &self.form {
            ProgressForm::Quiet => {}
            ProgressForm::Lines => write_line(text),
            ProgressForm::Bar(bar) => write_above(bar, text),
        }
    }

    /// Logs a message.
    pub fn note(&self, text: &str) {
        self.log.iter().for_each(|log| log.info(text));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let ProgressForm::Bar(bar) = &self.form {
            bar.finish_and_clear();
        }
    }
}

/// Work in words, such as `testing 3,200/10,000`.
fn describe_work(work: LongWork) -> String {
    match work {
        LongWork::Test { done, total } => format!("testing {}/{}", grouped(done), grouped(total)),
        work => work.to_string(),
    }
}

#[cfg(test)]
mod tests;
