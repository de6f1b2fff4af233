//! Paths of runs that a command line names.

use std::path::Path;

use crate::Failure;

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

/// Refuses a path that does not exist, and suggests a similar one.
pub(super) fn check_exists(path: &Path) -> Result<(), Failure> {
    if path.exists() { Ok(()) } else { Err(absent(path, "file or directory")) }
}

fn absent(path: &Path, what: &str) -> Failure {
    let near = nearest(path).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
    Failure::Usage(format!(
        "{}: there is no such {what}{near}; `paceline train` creates runs under runs/",
        path.display()
    ))
}

/// The sibling directory with the most similar name.
fn nearest(dir: &Path) -> Option<String> {
    let name = dir.file_name()?.to_str()?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = std::fs::read_dir(parent.unwrap_or(Path::new("."))).ok()?;
    let names = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        entry.path().is_dir().then_some(name)
    });
    let alike = |other: &String| (1e6 * strsim::jaro_winkler(name, other)) as u64;
    let best = names.max_by_key(alike).filter(|best| alike(best) > 700_000)?;
    Some(dir.with_file_name(best).display().to_string())
}
