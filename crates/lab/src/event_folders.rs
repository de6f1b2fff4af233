//! Where the event files of a run are.

use std::fs;
use std::path::{Path, PathBuf};

use paceline_record::names::{files, task_folder};

/// The names that the coordinator can have.
const COORDINATORS: [&str; 2] = ["worker:0", "chief:0"];

/// The folders that the coordinator can have.
pub(crate) fn folders_of_coordinator(run: &Path) -> [PathBuf; 2] {
    COORDINATORS.map(|task| run.join(task_folder(task)))
}

/// The event files of a task's folder, the oldest first.
pub(crate) fn event_files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(files::EVENTS_PREFIX))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}
