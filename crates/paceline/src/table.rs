//! The closing table: a run on one screen.

use std::fmt::Write;
use std::path::Path;

use crate::summary::Summary;

/// Renders a summary for a person.
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
    line("train loss", format!("{:.4}", summary.train_loss));
    line(
        "test",
        format!("loss {:.4}, accuracy {:.2} %", summary.test_loss, 100.0 * summary.test_accuracy),
    );
    text.push('\n');
    text.push_str(&tasks_table(summary));
    text
}

/// One row a task: what it did and where its time went, in percent.
fn tasks_table(summary: &Summary) -> String {
    let mut rows = Vec::new();
    for task in &summary.tasks {
        let mut header =
            vec!["task".to_owned(), "steps".into(), "dropped".into(), "seconds".into()];
        let mut row = vec![
            task.task.clone(),
            grouped(task.steps),
            grouped(task.dropped),
            format!("{:.2}", task.seconds),
        ];
        for (phase, seconds) in &task.phases {
            header.push((*phase).to_owned());
            row.push(format!("{:.1} %", 100.0 * seconds / task.seconds));
        }
        header.extend(["CPU s".to_owned(), "peak MB".into()]);
        row.push(task.cpu_seconds.map_or("?".into(), |seconds| format!("{seconds:.2}")));
        row.push(task.peak_rss_bytes.map_or("?".into(), |bytes| format!("{}", bytes / 1_000_000)));
        if rows.is_empty() {
            rows.push(header);
        }
        rows.push(row);
    }
    aligned(&rows)
}

/// Rows as columns of text, each flush left.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    lay_out(rows, |_| Side::Left)
}

/// Rows as columns of figures: the first flush left, the others right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    lay_out(rows, |column| if column == 0 { Side::Left } else { Side::Right })
}

enum Side {
    Left,
    Right,
}

fn lay_out(rows: &[Vec<String>], side: impl Fn(usize) -> Side) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |c: usize| {
        rows.iter().filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(c, (cell, &width))| match side(c) {
            Side::Left => format!("{cell:<width$}"),
            Side::Right => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A whole number with its thousands set apart: 60,000.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let all = [0, 12, 999, 1_000, 60_000, 33_762_578].map(grouped);
        assert_eq!(all, ["0", "12", "999", "1,000", "60,000", "33,762,578"]);
    }

    #[test]
    fn columns_line_up() {
        let rows = [["task", "steps"], ["worker:0", "7"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(aligned(&rows), "task      steps\nworker:0      7\n");
    }
}
