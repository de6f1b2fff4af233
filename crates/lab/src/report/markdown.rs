//! The report as Markdown, for a repository.

use std::fmt::Write;

use super::table::plain;
use super::tables::{about, all_tables};
use crate::advice::advice;
use crate::report_data::ReportData;

/// Writes a report as Markdown, without charts.
pub fn markdown(data: &ReportData) -> String {
    let mut text = format!("# {}\n\n", plain(&data.name));
    for sentence in advice(data) {
        let _ = writeln!(text, "- {}", plain(&sentence));
    }
    text.push_str("\n## About\n\n");
    for (name, value) in about(data) {
        let _ = writeln!(text, "- {name}: {}", plain(&value));
    }
    for section in all_tables(data) {
        let _ = write!(text, "\n## {}\n\n", section.title);
        if !section.note.is_empty() {
            let _ = write!(text, "{}\n\n", section.note);
        }
        text.push_str(&section.table.to_markdown());
    }
    if !data.failures.is_empty() {
        let _ = write!(text, "\n## {}\n\n", data.failures_title());
        for failure in &data.failures {
            let _ = writeln!(text, "- {}: {}", plain(&failure.id), plain(&failure.why));
        }
    }
    text
}
