//! The report as text that can stand in a repository.

use std::fmt::Write;

use super::tables::{Table, about, references, results};
use crate::advice::advice;
use crate::findings::Findings;

/// The findings as Markdown, without charts.
pub fn markdown(findings: &Findings) -> String {
    let mut text = format!("# {}\n\n", plain(&findings.name));
    for (name, value) in about(findings) {
        let _ = writeln!(text, "- {name}: {}", plain(&value));
    }
    text.push_str("\n## Results\n\nMeans, and the standard deviation of repeats.\n\n");
    text.push_str(&table(&results(findings)));
    let references = references(findings);
    if !references.rows.is_empty() {
        text.push_str("\n## Beside others\n\n");
        text.push_str(&table(&references));
    }
    if !findings.failures.is_empty() {
        text.push_str("\n## What failed\n\n");
        for (cell, why) in &findings.failures {
            let _ = writeln!(text, "- {}: {}", plain(cell), plain(why));
        }
    }
    text.push_str("\n## What the measurements say\n\n");
    for sentence in advice(findings) {
        let _ = writeln!(text, "- {}", plain(&sentence));
    }
    text
}

fn table(table: &Table) -> String {
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
fn plain(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.replace('|', "\\|").replace('<', "&lt;")
}
