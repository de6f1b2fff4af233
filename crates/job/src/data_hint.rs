//! What a path of data holds whose kind the job does not say, for the error about it.

use std::path::{Path, PathBuf};

use paceline_data::sniff::sniff_file;

use super::similar_path::did_you_mean;

/// How to make the data at this path usable, as an imperative or a remark and one; `None` if its
/// content does not tell.
pub(super) fn data_hint(path: &Path) -> Option<String> {
    if path.to_string_lossy().contains(['*', '?', '[']) {
        return None;
    }
    if !path.exists() {
        let near = did_you_mean(path, |_| true);
        return Some(format!("correct the path, at which there is nothing{near}"));
    }
    if !path.is_dir() {
        return sniff_file(path).ok()?.advice();
    }
    let first = first_file(path).or_else(|| first_file(&first_entry(path, Path::is_dir)?))?;
    let (kind, name) = (sniff_file(&first).ok()?, first.strip_prefix(path).ok()?);
    let verb = if kind.is_certain() { "is" } else { "looks like" };
    let (name, remedy) = (name.display(), kind.remedy());
    (!remedy.is_empty()).then(|| format!("{name} in it {verb} {}; {remedy}", kind.describe()))
}

fn first_file(dir: &Path) -> Option<PathBuf> {
    first_entry(dir, Path::is_file)
}

/// The first entry of a directory, by the alphabet, that passes a test.
fn first_entry(dir: &Path, is_wanted: fn(&Path) -> bool) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| is_wanted(path)).min()
}
