//! The project's own text files.

use std::fs;
use std::path::Path;

/// A text file of the project.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// From the workspace's root, with `/` between folders.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// What a file is, as far as the checks care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    /// Source in another language, configuration included.
    Other,
    /// A document in Markdown.
    Document,
}

impl SourceFile {
    pub(crate) fn language(&self) -> Language {
        match self.path.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "rs" => Language::Rust,
            "md" => Language::Document,
            _ => Language::Other,
        }
    }
}

const EXTENSIONS: &[&str] = &["rs", "md", "toml", "js", "py", "html", "css", "sh"];

/// Every text file of the project, in the order of their paths. Folders whose names start with a
/// dot are left out, and those that the `.gitignore` beside them names: what is built and what runs
/// leave.
pub(crate) fn source_tree(root: &Path) -> Result<Vec<SourceFile>, String> {
    let mut files = Vec::new();
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        let at = root.join(&folder);
        let ignored = fs::read_to_string(at.join(".gitignore")).unwrap_or_default();
        let is_ignored = |name: &str| ignored.lines().any(|line| line.trim_matches('/') == name);
        let entries = fs::read_dir(&at).map_err(|error| format!("{}: {error}", at.display()))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder {
                if !name.starts_with('.') && !is_ignored(&name) {
                    open.push(path);
                }
            } else if EXTENSIONS.iter().any(|extension| is_of(&name, extension)) {
                let text = fs::read_to_string(entry.path()).map_err(|e| format!("{path}: {e}"))?;
                files.push(SourceFile { path, text });
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

fn is_of(name: &str, extension: &str) -> bool {
    name.strip_suffix(extension).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_git_ignores_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for folder in ["target", "fuzz/target", "fuzz/corpus", "fuzz/kept", "kept/target"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("a.rs"), "text").unwrap();
        }
        fs::write(root.join(".gitignore"), "/target\n").unwrap();
        fs::write(root.join("fuzz/.gitignore"), "target\ncorpus\n").unwrap();
        let paths: Vec<_> = source_tree(root).unwrap().into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["fuzz/kept/a.rs", "kept/target/a.rs"]);
    }
}
