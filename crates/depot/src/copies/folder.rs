//! A directory for copies.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use paceline_filemap::{open_regular, read_regular};

use super::store::FileStore;

/// How the names of files that are being written end.
const PARTIAL: &str = ".partial";

/// A directory for copies.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// The directory at a path, which need not exist yet.
    pub(super) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    fn names_in(&self, folder: &str, names: &mut Vec<String>) -> io::Result<()> {
        for entry in fs::read_dir(self.0.join(folder))? {
            let entry = entry?;
            let name = format!("{folder}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                // Names have one folder at most.
                if folder.is_empty() {
                    self.names_in(&format!("{name}/"), names)?;
                }
            } else if !name.ends_with(PARTIAL) {
                names.push(name);
            }
        }
        Ok(())
    }
}

/// Makes a directory, and those above it that do not exist. Only their owner may read them, as the
/// run's own.
fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

impl FileStore for Folder {
    fn put(&self, name: &str, from: &Path) -> io::Result<()> {
        let to = self.0.join(name);
        make_private(to.parent().unwrap_or(&self.0))?;
        let partial = self.0.join(format!("{name}{PARTIAL}"));
        let copied = fs::copy(from, &partial)
            .and_then(|_| fs::File::open(&partial)?.sync_all())
            .and_then(|()| fs::rename(&partial, &to));
        if copied.is_err() {
            let _ = fs::remove_file(&partial);
        }
        copied
    }

    fn get(&self, name: &str, to: &Path) -> io::Result<()> {
        io::copy(&mut open_regular(&self.0.join(name))?, &mut fs::File::create(to)?).map(drop)
    }

    fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        read_regular(&self.0.join(name), most)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        match self.names_in("", &mut names) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(names),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.0.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // A folder goes with its last file.
        if let Some(folder) = path.parent().filter(|folder| **folder != self.0) {
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }
}
