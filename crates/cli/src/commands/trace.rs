//! `paceline trace`: summarises a timeline, and merges the timelines of tasks.

use std::path::Path;

use paceline_filemap::read_regular;
use paceline_record::names::files;
use paceline_record::timeline::{merge_traces, operation_table};
use paceline_record::{Summary, read_summary};

use super::output::print;
use super::run_path::{check_dir, check_exists};
use crate::Failure;
use crate::progress::write_line;
use paceline_terminal::{fitted_text, grouped, output_width, shown_name};

/// The largest timeline that is read, in bytes.
const MAX_BYTES: u64 = 4 << 30;

/// Prints the time of each operation, the longest first.
pub(super) fn summary(run: &Path) -> Result<(), Failure> {
    check_exists(run)?;
    let path = if run.is_dir() { run.join(files::TIMELINE) } else { run.to_owned() };
    let file = read_regular(&path, MAX_BYTES).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::Usage(format!(
            "{}: there is no timeline; train with --set 'observe.trace={{from=100, steps=10}}'",
            path.display()
        )),
        _ => Failure::at("read", &path)(error),
    })?;
    let rows = operation_table(&file)
        .map_err(|error| Failure::Usage(format!("{}: not a timeline: {error}", path.display())))?;
    let head = ["task", "operation", "output size", "calls", "total ms", "mean us"];
    let mut table = vec![head.map(String::from).to_vec()];
    for row in &rows {
        table.push(vec![
            shown_name(&row.role),
            shown_name(&row.name),
            if row.size.is_empty() { "-".into() } else { shown_name(&row.size) },
            grouped(row.calls),
            format!("{:.3}", row.total_us / 1e3),
            format!("{:.1}", row.mean_us()),
        ]);
    }
    print(&fitted_text(&table, &["output size", "mean us"], output_width()))
}

/// Merges the tasks' timelines in a run directory.
pub(super) fn merge(run: &Path) -> Result<(), Failure> {
    check_dir(run)?;
    let path = run.join(files::SUMMARY);
    let text = read_summary(&path).map_err(Failure::at("read", &path))?;
    let summary: Summary = serde_json::from_str(&text)
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    let tasks: Vec<_> = summary.tasks.into_iter().map(|task| task.task).collect();
    let merged = merge_traces(run, &tasks)?;
    if merged.tasks.is_empty() {
        return Err(Failure::Usage(format!(
            "{}: no task has written a timeline here",
            run.display()
        )));
    }
    merged.warnings(run).iter().for_each(|warning| write_line(&format!("warning: {warning}")));
    print(&format!("{}: {}\n", run.join(files::TIMELINE).display(), merged.tasks.join(", ")))
}
