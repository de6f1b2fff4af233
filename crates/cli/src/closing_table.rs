//! The table at the end of a run.

use std::fmt::Write;
use std::path::Path;

use paceline_observe::Rank;
use paceline_observe::pace::BEHIND;

use paceline_record::{Summary, TaskSummary};

use crate::text_table::{aligned, grouped};

/// Width of a text beside its label, in columns.
const TEXT_WIDTH: usize = 87;
/// The most workers that the table names; the summary has all of them.
const MAX_RANKS: usize = 4;

/// Renders a summary as text.
pub fn closing_table(summary: &Summary, run: &Path) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("run", run.display().to_string());
    line(
        "stopped by",
        format!(
            "{} after {} steps, {} examples, {:.2} s",
            summary.stop_reason,
            grouped(summary.global_steps),
            grouped(summary.examples),
            summary.seconds
        ),
    );
    line(
        "speed",
        format!(
            "{} steps/s, {} examples/s",
            grouped(summary.steps_per_second.round() as u64),
            grouped(summary.examples_per_second.round() as u64)
        ),
    );
    if summary.lost_pushes > 0 {
        let lost = grouped(summary.lost_pushes);
        line("lost", format!("{lost} gradients, with a server; they were computed again"));
    }
    line("train loss", format!("{:.4}", summary.train_loss));
    line(
        "test",
        format!(
            "loss {:.4}, accuracy {:.2} %{}",
            summary.test_loss,
            100.0 * summary.test_accuracy,
            auc_text(summary.test_auc, summary.test_auc_undefined.as_deref())
        ),
    );
    if let Some(verdict) = &summary.verdict {
        line("verdict", wrapped(&verdict.text));
    }
    if summary.ranking.len() > 1 {
        line("slowest", wrapped(&slowest(&summary.ranking)));
    }
    text.push('\n');
    text.push_str(&tasks_table(summary));
    text
}

/// The area under the ROC curve, or why there is none, as the end of a list of figures; nothing for
/// models that have none.
pub(crate) fn auc_text(auc: Option<f64>, undefined: Option<&str>) -> String {
    match (auc, undefined) {
        (Some(auc), _) => format!(", AUC {auc:.4}"),
        (None, Some(why)) => format!(", AUC undefined ({why})"),
        (None, None) => String::new(),
    }
}

/// The slowest workers, by their time per gradient.
fn slowest(ranking: &[Rank]) -> String {
    let name = |rank: &Rank| {
        let behind = match rank.behind {
            behind if behind > BEHIND => format!(" ({behind:.1} times the others)"),
            _ => String::new(),
        };
        format!("{} {:.3} ms{behind}", rank.task, rank.gradient_ms)
    };
    let first: Vec<_> = ranking.iter().take(MAX_RANKS).map(name).collect();
    let more = ranking.len() - first.len();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} to a gradient{rest}", first.join(", "))
}

/// Breaks a text into lines of about 100 columns, aligned beside the labels.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = &lines[lines.len() - 1];
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > TEXT_WIDTH {
            lines.push(String::new());
        }
        let last = lines.len() - 1;
        let gap = if lines[last].is_empty() { "" } else { " " };
        lines[last].push_str(gap);
        lines[last].push_str(word);
    }
    lines.join(&format!("\n{:13}", ""))
}

/// One row per task: its work, and its time by phase in percent. Workers and servers have different
/// phases, so each has a separate table.
fn tasks_table(summary: &Summary) -> String {
    // The first row of each table is its titles.
    let mut tables: Vec<Vec<Vec<String>>> = Vec::new();
    for task in &summary.tasks {
        let (titles, row): (Vec<_>, Vec<_>) = cells(task).into_iter().unzip();
        match tables.iter_mut().find(|rows| rows[0] == titles) {
            Some(rows) => rows.push(row),
            None => tables.push(vec![titles, row]),
        }
    }
    tables.iter().map(|rows| aligned(rows)).collect::<Vec<_>>().join("\n")
}

/// The cells of a task's row, each with its column's title.
fn cells(task: &TaskSummary) -> Vec<(String, String)> {
    let unknown = || "?".to_owned();
    let mut cells = vec![
        ("task", task.task.clone()),
        ("steps", grouped(task.steps)),
        ("dropped", grouped(task.dropped)),
        ("seconds", format!("{:.2}", task.seconds)),
    ];
    for (phase, seconds) in &task.phases {
        let share = seconds.as_f64().unwrap_or_default() / task.seconds;
        cells.push((phase, format!("{:.1} %", 100.0 * share)));
    }
    if let (Some(mean), Some(max)) = (task.staleness_mean, task.staleness_max) {
        cells.push(("staleness", format!("{mean:.2}, max {max}")));
    }
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    cells.extend([
        ("sent MB", megabytes(task.sent_bytes)),
        ("CPU s", task.cpu_seconds.map_or_else(unknown, |seconds| format!("{seconds:.2}"))),
        ("peak MB", task.peak_rss_bytes.map_or_else(unknown, megabytes)),
    ]);
    cells.into_iter().map(|(head, cell)| (head.to_owned(), cell)).collect()
}

#[cfg(test)]
mod tests {
    use paceline_observe::{GradientTime, ranking};

    use super::*;

    #[test]
    fn long_texts_are_broken_between_words() {
        let text = wrapped(&["word"; 40].join(" "));
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.len() <= 100), "{text}");
        let words: Vec<_> = text.split_whitespace().collect();
        assert_eq!(words, ["word"; 40]);
        assert_eq!(wrapped("a b"), "a b");
    }

    #[test]
    fn only_workers_that_are_behind_are_marked() {
        let time = |i: u32| GradientTime::new(format!("w{i}"), f64::from(i * i));
        let text = slowest(&ranking((1..=6).map(time).collect()));
        assert!(text.starts_with("w6 36.000 ms (4.0 times the others), w5 25.000 ms"), "{text}");
        assert!(text.ends_with("w3 9.000 ms to a gradient and 2 more"), "{text}");
    }
}
