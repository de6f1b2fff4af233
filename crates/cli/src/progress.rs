//! The progress of training: on standard error, as a bar in a terminal and as lines elsewhere, and
//! in the task's log.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use paceline_observe::ProgressReport;
use paceline_record::TaskLog;

use crate::text_table::grouped;
pub(crate) use paceline_record::write_line;

/// How often a bar is redrawn, and how often a line is written.
const BAR_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(2);

/// How often the log gets a line: the longer of `LOG_EVERY` and the elapsed time divided by
/// `LOG_SHARE`, so that a run of weeks has about a thousand lines.
const LOG_EVERY: Duration = Duration::from_secs(2);
const LOG_SHARE: u32 = 100;

/// Formats a progress report as one line.
fn progress_line(report: &ProgressReport) -> String {
    let accuracy =
        report.test_accuracy.map_or("-".to_owned(), |share| format!("{:.2} %", 100.0 * share));
    let left = report
        .left
        .map_or(String::new(), |left| format!(", {} left", clock_time(left.as_secs_f64())));
    format!(
        "step {}, loss {:.4}, accuracy {accuracy}, {} examples/s{left}",
        grouped(report.step),
        report.train_loss,
        grouped(report.examples_per_second.round() as u64)
    )
}

/// Formats seconds for people: `8 s`, `3:05`, `2:00:00`.
pub(crate) fn clock_time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match (whole / 3_600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

enum ProgressForm {
    Quiet,
    Lines,
    Bar(ProgressBar),
}

/// Shows the progress of training.
pub struct Progress {
    form: ProgressForm,
    /// When something is next shown on standard error.
    next: Instant,
    log: Option<Arc<TaskLog>>,
    next_logged: Instant,
}

impl Progress {
    /// Shows a bar if standard error is a terminal, lines otherwise, and nothing if `quiet`.
    pub fn new(quiet: bool) -> Self {
        let form = if quiet {
            ProgressForm::Quiet
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(Some(1_000), ProgressDrawTarget::stderr());
            // The bar takes the space that the text leaves, so that both fit in 80 columns.
            let style = ProgressStyle::with_template("{wide_bar} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            ProgressForm::Bar(bar)
        } else {
            ProgressForm::Lines
        };
        let now = Instant::now();
        Self { form, next: now, log: None, next_logged: now }
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
                bar.set_position((1_000.0 * report.done.unwrap_or_default()) as u64);
                bar.set_message(progress_line(report));
                self.next = Instant::now() + BAR_EVERY;
            }
        }
    }

    /// Shows a message that stays on the screen, and logs it.
    pub fn say(&self, text: &str) {
        self.note(text);
        match &self.form {
            ProgressForm::Quiet => {}
            ProgressForm::Lines => write_line(text),
            ProgressForm::Bar(bar) => bar.suspend(|| write_line(text)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_line_has_step_loss_accuracy_speed_and_time_left() {
        let report = ProgressReport {
            step: 1_500,
            done: Some(0.25),
            elapsed: Duration::from_secs(60),
            left: Some(Duration::from_secs(180)),
            train_loss: 0.5,
            test_accuracy: Some(0.9),
            examples_per_second: 1_500.4,
        };
        let text = "step 1,500, loss 0.5000, accuracy 90.00 %, 1,500 examples/s, 3:00 left";
        assert_eq!(progress_line(&report), text);
    }

    #[test]
    fn times_are_short() {
        assert_eq!([7.6, 185.0, 7_200.0].map(clock_time), ["8 s", "3:05", "2:00:00"]);
    }
}
