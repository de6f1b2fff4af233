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

/// Folders of the root that hold nothing of ours: what is built and what runs leave.
const LEFT_OUT: &[&str] = &["target", "runs", "sweeps"];

/// Every text file of the project, in the order of their paths. Folders whose names start with a
/// dot are left out.
pub(crate) fn source_tree(root: &Path) -> Result<Vec<SourceFile>, String> {
    let mut files = Vec::new();
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        let at = root.join(&folder);
        let entries = fs::read_dir(&at).map_err(|error| format!("{}: {error}", at.display()))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !name.starts_with('.') && !LEFT_OUT.contains(&path.as_str()) {
                open.push(path);
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
