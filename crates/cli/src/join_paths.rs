//! Which files a joining worker reads for a run: those that its user confirms.
//!
//! A job that arrives over a connection names paths of another machine. A server that is not what
//! it seems could name any file that the joining user may read, and a directory to write a cache
//! to.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Component, Path, PathBuf};

use paceline_job::{FileKey, RawJob};
use paceline_record::flush_lines;
use paceline_terminal::{shell_word, shown_name};

use crate::Failure;

/// Checks that the user has confirmed every path of a job that came from `address`: by `--allow`,
/// or now, if there is a terminal.
pub(crate) fn confirm_paths(
    job: &RawJob,
    allowed: &[PathBuf],
    address: &str,
) -> Result<(), Failure> {
    let allowed: Vec<PathBuf> =
        allowed.iter().filter_map(|path| std::path::absolute(path).ok()).collect();
    let is_allowed = |file: &FileKey| allowed.iter().any(|allowed| lies_in(&file.path, allowed));
    let mut asked: Vec<FileKey> = job.file_keys();
    asked.retain(|file| is_used(file) && !is_allowed(file));
    if asked.is_empty() || asks_and_is_allowed(&asked, address) {
        return Ok(());
    }
    let flags: Vec<_> = asked
        .iter()
        .map(|file| format!("--allow {}", shell_word(&file.path.display().to_string())))
        .collect();
    Err(Failure::Usage(format!(
        "the run at {address} wants to use these paths of this machine:\n{}if that is right, \
         confirm with {}",
        listed(&asked),
        flags.join(" ")
    )))
}

/// The files, one on each line, whatever their names are: what the user confirms is what is shown.
fn listed(files: &[FileKey]) -> String {
    files.iter().map(|file| format!("  {}\n", shown_name(&file.to_string()))).collect()
}

/// Whether a worker that joins uses the file: its data, and the secret that its metrics need.
fn is_used(file: &FileKey) -> bool {
    file.key.starts_with("data.") || file.key == "cluster.token_file"
}

/// Whether a path is the allowed one, or below it.
fn lies_in(path: &Path, allowed: &Path) -> bool {
    let goes_up = path.components().any(|part| part == Component::ParentDir);
    path == allowed || path.starts_with(allowed) && !goes_up
}

/// Asks the user, if there is a terminal.
fn asks_and_is_allowed(asked: &[FileKey], address: &str) -> bool {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return false;
    }
    flush_lines();
    let list = listed(asked);
    let question = format!("the run at {address} uses on this machine:\n{list}allow it? [y/N] ");
    let mut answer = String::new();
    let is_asked = io::stderr().write_all(question.as_bytes()).is_ok();
    is_asked
        && io::stdin().lock().read_line(&mut answer).is_ok()
        && matches!(answer.trim(), "y" | "Y" | "yes")
}

#[cfg(test)]
mod tests;
