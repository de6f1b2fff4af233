//! The progress of a sweep on standard error: a line for every run, and a bar in a terminal.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use paceline_lab::in_table_order;
use paceline_lab::sweep_plan::{PlannedRun, RunEnd, RunOutcome};
use paceline_record::StoredSummary;
use paceline_record::names::files;

use crate::progress::{write_above, write_line};
use paceline_terminal::{bar_target, clock_time, counted, fit_bar};

/// How often the bar's clock is updated.
const TICK: Duration = Duration::from_millis(500);

/// The columns that the narrowest bar and the elapsed time take.
const LEAST_BAR: usize = 6;
const ELAPSED: usize = 8;

/// Shows the progress of a sweep.
pub(super) struct SweepProgress {
    quiet: bool,
    bar: Option<ProgressBar>,
    all: usize,
    /// Runs that existed before, and runs made since.
    before: usize,
    made: usize,
    begun: Instant,
}

impl SweepProgress {
    pub(super) fn new(quiet: bool, all: usize, before: usize) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(all as u64), bar_target());
            // The bar itself comes with the first run.
            bar.set_style(style("{msg}"));
            bar.set_position(before as u64);
            bar
        });
        let show = Self { quiet, bar, all, before, made: 0, begun: Instant::now() };
        if before > 0 {
            show.say(&format!("{before} of {} are already done", counted(all as u64, "run")));
        }
        show
    }

    pub(super) fn begin(&self, cell: &PlannedRun) {
        if let Some(bar) = &self.bar {
            let number = self.before + self.made + 1;
            let message = format!("{number}/{}: {}{}", self.all, settings(cell), self.left());
            bar.set_message(fit_bar(&message, LEAST_BAR + ELAPSED));
            if self.made == 0 {
                bar.set_style(style("{wide_bar} {msg}, {elapsed}"));
                bar.enable_steady_tick(TICK);
            }
        }
    }

    pub(super) fn end(&mut self, cell: &PlannedRun, ended: &RunEnd, dir: &Path) {
        self.made += 1;
        let number = self.before + self.made;
        let what = match ended.outcome {
            RunOutcome::Done => figures(&dir.join(&ended.dir)),
            RunOutcome::Failed => format!("failed: {}", ended.why),
            RunOutcome::Interrupted => "interrupted".to_owned(),
        };
        let is_over = ended.outcome == RunOutcome::Interrupted;
        let left = if is_over { String::new() } else { self.left() };
        self.say(&format!("[{number}/{}] {}: {what}{left}", self.all, settings(cell)));
        if let Some(bar) = &self.bar {
            bar.set_position(number as u64);
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// The estimated time left, by the mean time of the runs so far.
    fn left(&self) -> String {
        let rest = self.all.saturating_sub(self.before + self.made);
        let left = self.begun.elapsed().as_secs_f64() / self.made as f64 * rest as f64;
        time_left(left)
    }

    fn say(&self, text: &str) {
        if self.quiet {
            return;
        }
        match &self.bar {
            Some(bar) => write_above(bar, text),
            None => write_line(text),
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key("elapsed", write_elapsed)
}

/// The end of a line, with the time left; empty if it is unknown, or less than a second.
fn time_left(seconds: f64) -> String {
    let is_worth_a_word = seconds.is_finite() && seconds >= 1.0;
    if is_worth_a_word { format!(", {} left", clock_time(seconds)) } else { String::new() }
}

/// The time since the sweep began, as all times are written.
fn write_elapsed(state: &ProgressState, to: &mut dyn std::fmt::Write) {
    let _ = to.write_str(&clock_time(state.elapsed().as_secs_f64().floor()));
}

/// The main results of a run.
fn figures(run: &Path) -> String {
    let text = std::fs::read_to_string(run.join(files::SUMMARY)).unwrap_or_default();
    let Some(summary) = StoredSummary::parse(&text) else {
        return "its summary cannot be read".into();
    };
    let number = |name: &str| summary.number(name).unwrap_or(f64::NAN);
    format!(
        "{:.2} s, loss {:.4}, accuracy {:.2} %",
        number("seconds"),
        number("test_loss"),
        100.0 * number("test_accuracy")
    )
}

/// A cell's settings, with short keys.
pub(super) fn settings(cell: &PlannedRun) -> String {
    let short = |(key, value): &(String, String)| {
        format!("{}={value}", key.rsplit('.').next().unwrap_or_default())
    };
    let words: Vec<_> = in_table_order(&cell.settings).into_iter().map(short).collect();
    if words.is_empty() { cell.id.clone() } else { words.join(" ") }
}

#[cfg(test)]
mod tests;
