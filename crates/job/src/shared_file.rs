//! Warns of examples that a job both trains and tests on.

use std::fs;
use std::path::PathBuf;

use paceline_data::sparse::source_files;

/// A warning, if a file is among those that both paths stand for; `tested` is what its rows are
/// besides training data.
pub fn shared_file(
    trained_on: &Option<PathBuf>,
    tested_on: &Option<PathBuf>,
    tested: &str,
) -> Option<String> {
    let real = |path: &PathBuf| fs::canonicalize(path).ok();
    let files = |path: &Option<PathBuf>| source_files(path.as_deref()?).ok();
    let test: Vec<PathBuf> = files(tested_on)?.iter().filter_map(real).collect();
    let is_shared = |file: &PathBuf| real(file).is_some_and(|file| test.contains(&file));
    let shared = files(trained_on)?.into_iter().find(is_shared)?;
    Some(format!(
        "warning: {} is read for training and as {tested} data, so its results say little about \
         other rows",
        shared.display()
    ))
}
