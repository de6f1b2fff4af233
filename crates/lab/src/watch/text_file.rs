//! Text files of a run that are shown as they are.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::regular_file::open_regular;

/// No job or summary is longer.
pub(crate) const MAX_TEXT_BYTES: u64 = 4 << 20;

/// The text of a job or a summary; none if it is no regular file.
pub(crate) fn regular_text(path: &Path) -> String {
    let mut file = TextFile::default();
    file.refresh(path, MAX_TEXT_BYTES);
    file.text
}

/// The text of a file, or of its end.
#[derive(Debug, Default)]
pub(crate) struct TextFile {
    pub(crate) text: String,
    pub(crate) written: Option<SystemTime>,
    len: u64,
}

impl TextFile {
    /// Reads the last `max_bytes` of the file if it has changed; returns whether it has.
    pub(crate) fn refresh(&mut self, path: &Path, max_bytes: u64) -> bool {
        let metadata = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
        let written = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
        let len = metadata.map_or(0, |metadata| metadata.len());
        if (written, len) == (self.written, self.len) {
            return false;
        }
        (self.written, self.len) = (written, len);
        self.text = last_bytes(path, len, max_bytes).unwrap_or_default();
        true
    }
}

/// The end of a file, starting with a complete line.
fn last_bytes(path: &Path, len: u64, max_bytes: u64) -> std::io::Result<String> {
    let mut file = open_regular(path)?;
    file.seek(SeekFrom::Start(len.saturating_sub(max_bytes)))?;
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if len <= max_bytes {
        return Ok(text);
    }
    Ok(text.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_owned()))
}

/// A regular file of a folder.
pub(crate) struct FolderFile {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) modified: Option<SystemTime>,
}

/// Lists the regular files of a folder by name. Links are left out: they may lead anywhere.
pub(crate) fn folder_files(folder: &Path) -> Vec<FolderFile> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.path();
            let metadata = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
            let name = entry.file_name().into_string().ok()?;
            Some(FolderFile { name, path, modified: metadata.modified().ok() })
        })
        .collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}
