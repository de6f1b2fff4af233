//! How training goes, on standard error: a bar in a terminal, a line now and then elsewhere; and,
//! for whoever looks later, in the log.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::table::grouped;
use paceline_record::TaskLog;
pub(crate) use paceline_record::write_line;

/// How often a bar is redrawn, and how often a line is written.
const BAR_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(2);

/// How often a line goes into the log: at first as often as this, later once in so much of the
/// time that has passed, so that a run of weeks has some thousand lines.
const LOG_EVERY: Duration = Duration::from_secs(2);
const LOG_SHARE: u32 = 100;

/// What there is to show at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Global steps done.
    pub step: u64,
    /// Share of the work that is done, from 0 to 1, if that can be told.
    pub done: Option<f64>,
    /// Time since the first step.
    pub elapsed: Duration,
    /// Loss of the last steps.
    pub train_loss: f64,
    /// Accuracy of the last test, if there was one.
    pub test_accuracy: Option<f64>,
    /// Examples a second since the start.
    pub examples_per_second: f64,
}

impl Moment {
    fn text(&self) -> String {
        let accuracy =
            self.test_accuracy.map_or("-".to_owned(), |share| format!("{:.2} %", 100.0 * share));
        let left = match self.done {
            Some(done) if done > 0.0 => {
                let left = self.elapsed.as_secs_f64() * (1.0 - done).max(0.0) / done;
                format!(", {} left", clock_time(left))
            }
            _ => String::new(),
        };
        format!(
            "step {}, loss {:.4}, accuracy {accuracy}, {} examples/s{left}",
            grouped(self.step),
            self.train_loss,
            grouped(self.examples_per_second.round() as u64)
        )
    }
}

/// Seconds as a person says them: `8 s`, `3:05`, `2:00:00`.
pub(crate) fn clock_time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match (whole / 3_600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

enum Form {
    Quiet,
    Lines,
    Bar(ProgressBar),
}

/// Shows how training goes.
pub struct Progress {
    form: Form,
    /// When something is next shown on standard error.
    next: Instant,
    log: Option<Arc<TaskLog>>,
    next_logged: Instant,
}

impl Progress {
    /// Chooses the form by where standard error goes.
    pub fn new(quiet: bool) -> Self {
        let form = if quiet {
            Form::Quiet
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(Some(1_000), ProgressDrawTarget::stderr());
            // The bar takes what the words leave, so that both fit on one line of 80 columns.
            let style = ProgressStyle::with_template("{wide_bar} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            Form::Bar(bar)
        } else {
            Form::Lines
        };
        let now = Instant::now();
        Self { form, next: now, log: None, next_logged: now }
    }

    /// The same, and for the record.
    pub fn with_log(self, log: Arc<TaskLog>) -> Self {
        Self { log: Some(log), ..self }
    }

    /// Whether it is time to show something; cheap enough to ask at every step.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        (now >= self.next && !matches!(self.form, Form::Quiet))
            || (now >= self.next_logged && self.log.is_some())
    }

    /// Shows a moment.
    pub fn show(&mut self, moment: &Moment) {
        let now = Instant::now();
        if let Some(log) = self.log.as_ref().filter(|_| now >= self.next_logged) {
            log.info(&moment.text());
            self.next_logged = now + LOG_EVERY.max(moment.elapsed / LOG_SHARE);
        }
        if now < self.next {
            return;
        }
        match &self.form {
            Form::Quiet => {}
            Form::Lines => {
                write_line(&moment.text());
                self.next = Instant::now() + LINE_EVERY;
            }
            Form::Bar(bar) => {
                bar.set_position((1_000.0 * moment.done.unwrap_or_default()) as u64);
                bar.set_message(moment.text());
                self.next = Instant::now() + BAR_EVERY;
            }
        }
    }

    /// Says something that should stay on the screen.
    pub fn say(&self, text: &str) {
        self.note(text);
        match &self.form {
            Form::Quiet => {}
            Form::Lines => write_line(text),
            Form::Bar(bar) => bar.suspend(|| write_line(text)),
        }
    }

    /// For the record.
    pub fn note(&self, text: &str) {
        self.log.iter().for_each(|log| log.info(text));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Form::Bar(bar) = &self.form {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_says_step_loss_accuracy_speed_and_time_left() {
        let moment = Moment {
            step: 1_500,
            done: Some(0.25),
            elapsed: Duration::from_secs(60),
            train_loss: 0.5,
            test_accuracy: Some(0.9),
            examples_per_second: 1_500.4,
        };
        let text = "step 1,500, loss 0.5000, accuracy 90.00 %, 1,500 examples/s, 3:00 left";
        assert_eq!(moment.text(), text);
    }

    #[test]
    fn times_are_short() {
        assert_eq!([7.6, 185.0, 7_200.0].map(clock_time), ["8 s", "3:05", "2:00:00"]);
    }
}
