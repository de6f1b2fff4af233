//! The report as text that can stand in a repository.

use std::fmt::Write;

use super::tables::{
    PREDICTED, ReportTable, about, claims, predictions, references, results, verdicts,
};
use crate::advice::advice;
use crate::report_data::ReportData;

/// The findings as Markdown, without charts.
pub fn markdown(data: &ReportData) -> String {
    let mut text = format!("# {}\n\n", plain(&data.name));
    for (name, value) in about(data) {
        let _ = writeln!(text, "- {name}: {}", plain(&value));
    }
    text.push_str("\n## Results\n\nMeans, and the standard deviation of repeats.\n\n");
    text.push_str(&table(&results(data)));
    let references = references(data);
    if !references.rows.is_empty() {
        text.push_str("\n## Beside others\n\n");
        text.push_str(&table(&references));
    }
    let claims = claims(data);
    if !claims.rows.is_empty() {
        text.push_str("\n## What others found\n\n");
        text.push_str(&table(&claims));
    }
    let predictions = predictions(data);
    if !predictions.rows.is_empty() {
        let _ = writeln!(text, "\n## What the links allow\n\n{PREDICTED}\n");
        text.push_str(&table(&predictions));
    }
    let verdicts = verdicts(data);
    if !verdicts.rows.is_empty() {
        text.push_str("\n## What held the runs back\n\n");
        text.push_str(&table(&verdicts));
    }
    if !data.failures.is_empty() {
        text.push_str("\n## What failed\n\n");
        for failure in &data.failures {
            let _ = writeln!(text, "- {}: {}", plain(&failure.id), plain(&failure.why));
        }
    }
    text.push_str("\n## What the measurements say\n\n");
    for sentence in advice(data) {
        let _ = writeln!(text, "- {}", plain(&sentence));
    }
    text
}

pub(super) fn table(table: &ReportTable) -> String {
    let row = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| plain(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = row(&table.head);
    text.push('|');
    for column in 0..table.head.len() {
        text.push_str(if column < table.words { "---|" } else { "---:|" });
    }
    text.push('\n');
    table.rows.iter().for_each(|cells| text.push_str(&row(cells)));
    text
}

/// Text that stays in its cell and is no markup.
pub(super) fn plain(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.replace('|', "\\|").replace('<', "&lt;")
}
