//! The files that a path stands for, and their sizes and times.
//!
//! A path is a file, a directory or a pattern. In a directory, files whose names begin with a dot
//! or an underscore are ignored: they are caches, or files that Hadoop's programs leave behind. The
//! size and modification time of each file tell later whether a cache was built from the same
//! files.

use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::error::DataError;

/// The files that a path stands for, sorted by name; at least one.
///
/// # Errors
/// If there is no such file, or a directory cannot be listed.
pub fn expand(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let none = |what: &str| DataError::Sparse { path: path.into(), what: what.into() };
    if path.is_dir() {
        let mut files: Vec<PathBuf> = entries(path)?
            .into_iter()
            .filter(|name| !name.starts_with(['.', '_']))
            .map(|name| path.join(name))
            .filter(|file| file.is_file())
            .collect();
        files.sort();
        return if files.is_empty() { Err(none("the directory has no files")) } else { Ok(files) };
    }
    // An existing file is not a pattern, whatever characters its name has.
    if path.exists() || !path.to_string_lossy().contains(['*', '?']) {
        fs::metadata(path).map_err(DataError::io("open", path))?;
        return Ok(vec![path.into()]);
    }
    let mut found = vec![PathBuf::new()];
    for component in path.components() {
        found = resolve_component(found, component)?;
    }
    found.retain(|file| file.is_file());
    found.sort();
    if found.is_empty() { Err(none("no file matches this pattern")) } else { Ok(found) }
}

/// Resolves one component of a pattern in each directory found so far.
fn resolve_component(
    from: Vec<PathBuf>,
    component: Component<'_>,
) -> Result<Vec<PathBuf>, DataError> {
    let pattern = component.as_os_str().to_string_lossy();
    let mut found = Vec::new();
    for dir in from {
        if !pattern.contains(['*', '?']) {
            found.push(dir.join(component));
            continue;
        }
        let here = if dir.as_os_str().is_empty() { Path::new(".") } else { &dir };
        if here.is_dir() {
            let hidden = pattern.starts_with('.');
            let names = entries(here)?.into_iter();
            let names = names.filter(|name| hidden || !name.starts_with('.'));
            let names = names.filter(|name| matches(pattern.as_bytes(), name.as_bytes()));
            found.extend(names.map(|name| dir.join(name)));
        }
    }
    Ok(found)
}

/// The names in a directory. Names that are not UTF-8 are ignored: a job cannot contain them.
fn entries(dir: &Path) -> Result<Vec<String>, DataError> {
    let listed = fs::read_dir(dir).map_err(DataError::io("list", dir))?;
    Ok(listed.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// Whether a name matches a pattern in which `*` is any text and `?` is any one byte.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // The position of the last star, and the end of the text it matches so far.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, reach)) => {
                    star = Some((at, reach + 1));
                    (p, n) = (at + 1, reach + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// A line for each file: its use, size, modification time in ns, and absolute path.
///
/// # Errors
/// If there is no such file.
pub fn identity(used_for: &str, files: &[PathBuf]) -> Result<String, DataError> {
    let mut lines = String::new();
    for file in files {
        let meta = fs::metadata(file).map_err(DataError::io("open", file))?;
        let modified = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let ns = modified.map_or(0, |since| since.as_nanos());
        let path = fs::canonicalize(file).map_err(DataError::io("open", file))?;
        // Quoted, so that a name with a newline does not look like two lines.
        let _ = writeln!(lines, "{used_for} {} {ns} {path:?}", meta.len());
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        let check = |pattern: &str, name: &str, expected| {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        };
        check("part-*.tfrecord", "part-00.tfrecord", true);
        check("part-*.tfrecord", "part-.tfrecord", true);
        check("part-*.tfrecord", "part-00.tfrecord.gz", false);
        check("*a*b", "xaxbab", true);
        check("*a*b", "xaxba", false);
        check("?", "", false);
        check("day-?", "day-1", true);
        check("*", "", true);
        check("", "x", false);
    }

    #[test]
    fn a_path_is_a_file_a_directory_or_a_pattern() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for name in ["b.svm", "a.svm", ".hidden", "_SUCCESS", "c.txt", "d1/x.svm", "d2/y.svm"] {
            let file = root.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let names = |pattern: &str| -> Vec<String> {
            let files = expand(&root.join(pattern)).unwrap();
            let short = files.iter().map(|file| file.strip_prefix(root).unwrap());
            short.map(|file| file.to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names("a.svm"), ["a.svm"]);
        assert_eq!(names(""), ["a.svm", "b.svm", "c.txt"]);
        assert_eq!(names("*.svm"), ["a.svm", "b.svm"]);
        assert_eq!(names("d?/*.svm"), ["d1/x.svm", "d2/y.svm"]);
        for missing in ["*.tsv", "z.svm", "d3/*"] {
            assert!(expand(&root.join(missing)).is_err(), "{missing}");
        }
        fs::create_dir(root.join("empty")).unwrap();
        assert!(expand(&root.join("empty")).unwrap_err().to_string().contains("no files"));
    }
}
