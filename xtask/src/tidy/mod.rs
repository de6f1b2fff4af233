//! `cargo xtask tidy`: style that a machine can check.
//!
//! Each check looks at the project's text files and returns its faults, one a line, as
//! `file:line: what is wrong`.

mod crate_docs;
mod crate_sizes;
mod entry_points;
mod environment;
mod functions;
mod line_length;
mod packages;
mod type_names;
mod words;

use std::path::Path;

use crate::process::ChoreResult;
use crate::source_tree::{SourceFile, source_tree};

/// A check: what `cargo xtask tidy NAME` calls it, and what it does.
struct TidyCheck {
    name: &'static str,
    run: fn(&[SourceFile]) -> Vec<String>,
}

const CHECKS: &[TidyCheck] = &[
    TidyCheck { name: "lines", run: line_length::check },
    TidyCheck { name: "files", run: line_length::check_files },
    TidyCheck { name: "functions", run: functions::check },
    TidyCheck { name: "words", run: words::check },
    TidyCheck { name: "types", run: type_names::check },
    TidyCheck { name: "sizes", run: crate_sizes::check },
    TidyCheck { name: "docs", run: crate_docs::check },
    TidyCheck { name: "packages", run: packages::check },
    TidyCheck { name: "environment", run: environment::check },
    TidyCheck { name: "entry-points", run: entry_points::check },
];

/// Runs the checks of these names, or all of them if there are none.
pub(crate) fn check(root: &Path, names: &[String]) -> ChoreResult {
    let known: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("there is no check {name}: the checks are {}", known.join(", ")));
    }
    let files = source_tree(root)?;
    let mut failed = Vec::new();
    for check in CHECKS {
        if !names.is_empty() && !names.iter().any(|name| name == check.name) {
            continue;
        }
        let faults = (check.run)(&files);
        for fault in &faults {
            eprintln!("{fault}");
        }
        if !faults.is_empty() {
            failed.push(format!("{} ({})", check.name, faults.len()));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("untidy: {}", failed.join(", "))) }
}

/// A file of a test.
#[cfg(test)]
fn file(path: &str, text: impl Into<String>) -> SourceFile {
    SourceFile { path: path.into(), text: text.into() }
}
