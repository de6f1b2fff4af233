//! Files of a run as they are: those that are read as a whole, and which there are.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file that is shown as it is, or its end.
#[derive(Debug, Default)]
pub(crate) struct TextFile {
    pub(crate) text: String,
    pub(crate) written: Option<SystemTime>,
    len: u64,
}

impl TextFile {
    /// Reads the file's last bytes if it has changed; says whether it has.
    pub(crate) fn refresh(&mut self, path: &Path, most: u64) -> bool {
        let metadata = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
        let written = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
        let len = metadata.map_or(0, |metadata| metadata.len());
        if (written, len) == (self.written, self.len) {
            return false;
        }
        (self.written, self.len) = (written, len);
        self.text = last_bytes(path, len, most).unwrap_or_default();
        true
    }
}

/// The end of a file, from the beginning of a line on.
fn last_bytes(path: &Path, len: u64, most: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(len.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(match len > most {
        true => text.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_owned()),
        false => text,
    })
}

/// The plain files of a folder, sorted. Links are left alone: they may lead anywhere.
pub(crate) fn files(folder: &Path) -> Vec<(String, PathBuf, fs::Metadata)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let metadata = fs::symlink_metadata(entry.path()).ok()?;
            let name = entry.file_name().into_string().ok()?;
            metadata.is_file().then(|| (name, entry.path(), metadata))
        })
        .collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    files
}
