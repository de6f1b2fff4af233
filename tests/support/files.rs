//! Paths.

use std::fs;
use std::path::{Path, PathBuf};

/// Everything below a directory, as sorted relative paths.
pub(crate) fn tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            found.push(path.strip_prefix(root).unwrap().display().to_string());
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The workspace's root.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
