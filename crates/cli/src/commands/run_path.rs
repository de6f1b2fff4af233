//! Paths of runs that a command line names.

use std::path::Path;

use paceline_record::names::files;

use crate::Failure;
use paceline_job::did_you_mean;

/// Refuses a path that is not a directory, and suggests a similar one.
pub(super) fn check_dir(dir: &Path) -> Result<(), Failure> {
    if dir.is_dir() {
        return Ok(());
    }
    let shown = dir.display();
    if dir.exists() {
        return Err(Failure::Usage(format!(
            "{shown}: this is a file; name the directory of a run, or one that contains runs"
        )));
    }
    Err(absent(dir, "directory"))
}

/// Refuses a path that is not the directory of a run, and suggests a similar one.
pub(super) fn check_run(run: &Path) -> Result<(), Failure> {
    check_dir(run)?;
    if run.join(files::JOB).is_file() {
        return Ok(());
    }
    let shown = run.display();
    Err(Failure::Usage(format!(
        "{shown}: this is not the directory of a run: it has no {}",
        files::JOB
    )))
}

/// Refuses a path that does not exist, and suggests a similar one.
pub(super) fn check_exists(path: &Path) -> Result<(), Failure> {
    if path.exists() { Ok(()) } else { Err(absent(path, "file or directory")) }
}

fn absent(path: &Path, what: &str) -> Failure {
    let near = did_you_mean(path, Path::is_dir);
    Failure::Usage(format!(
        "{}: there is no such {what}{near}; `paceline train` creates runs under runs/",
        path.display()
    ))
}
