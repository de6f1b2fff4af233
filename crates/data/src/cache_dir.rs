//! Where downloads and caches are, and the names of unfinished files in them.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::DataError;

/// The prefix of the name of every unfinished file.
pub const UNFINISHED_PREFIX: &str = ".part-";

/// The path of an unfinished file or directory in `dir`.
pub fn unfinished(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{UNFINISHED_PREFIX}{name}"))
}

/// The directory for downloads and caches: `$PACELINE_CACHE`, else `$XDG_CACHE_HOME/paceline`,
/// else `$HOME/.cache/paceline`.
///
/// # Errors
/// If none of the three is set to an absolute path.
pub fn cache_dir() -> Result<PathBuf, DataError> {
    cache_dir_from(|name| env::var_os(name))
}

fn cache_dir_from(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, DataError> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // A relative path in XDG_CACHE_HOME or HOME is ignored, as the XDG rules require; in
    // PACELINE_CACHE it is what the user typed, and is relative to the current directory.
    let absolute = |name| set(name).filter(|path| path.is_absolute());
    set("PACELINE_CACHE")
        .or_else(|| absolute("XDG_CACHE_HOME").map(|dir| dir.join("paceline")))
        .or_else(|| absolute("HOME").map(|dir| dir.join(".cache").join("paceline")))
        .ok_or(DataError::NoCache)
}

/// Removes the oldest files and directories of a cache, so that one more does not exceed `most`.
/// Those whose names begin with a dot do not count.
pub(crate) fn remove_oldest(dir: &Path, most: usize) {
    let age = |path: &PathBuf| {
        fs::metadata(path).and_then(|about| about.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_complete =
        |path: &PathBuf| !path.file_name().unwrap_or_default().to_string_lossy().starts_with('.');
    let mut found: Vec<_> = entries.filter(is_complete).collect();
    found.sort_by_key(age);
    let too_many = (found.len() + 1).saturating_sub(most);
    for oldest in &found[..too_many] {
        let _ = if oldest.is_dir() { fs::remove_dir_all(oldest) } else { fs::remove_file(oldest) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_environment_says() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            let lookup = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(cache_dir_from(lookup).ok(), expected.map(PathBuf::from), "{variables:?}");
        };
        let home = ("HOME", "/home/ada");
        check(&[home], Some("/home/ada/.cache/paceline"));
        check(&[home, ("XDG_CACHE_HOME", "/fast")], Some("/fast/paceline"));
        check(&[home, ("XDG_CACHE_HOME", "not/absolute")], Some("/home/ada/.cache/paceline"));
        check(&[home, ("PACELINE_CACHE", "")], Some("/home/ada/.cache/paceline"));
        check(&[home, ("XDG_CACHE_HOME", "/fast"), ("PACELINE_CACHE", "/own")], Some("/own"));
        check(&[("PACELINE_CACHE", "here")], Some("here"));
        check(&[], None);
    }
}
