//! An output file that is complete or absent.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::ScoreError;

/// A file that gets its name once it is complete. If it is dropped before, nothing is left.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// Where it is written until it is complete; `None` if the path is a device or a pipe, which
    /// is written as it is.
    part: Option<PathBuf>,
    file: File,
    replaces: bool,
}

impl OutputFile {
    /// Starts a file. Only with `force` may there be one of that name, which is then replaced.
    ///
    /// # Errors
    /// If there is a file of that name, or it cannot be written.
    pub fn create(path: &Path, force: bool) -> Result<Self, ScoreError> {
        if path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir()) {
            let file = OpenOptions::new().write(true).open(path);
            let file = file.map_err(ScoreError::at("write", path))?;
            return Ok(Self { path: path.to_owned(), part: None, file, replaces: false });
        }
        let taken = path.symlink_metadata().is_ok();
        if taken && !force {
            return Err(ScoreError::Refused(format!(
                "{} exists already; choose another name, or replace it with --force",
                path.display()
            )));
        }
        if path.is_dir() {
            return Err(ScoreError::Refused(format!("{} is a directory", path.display())));
        }
        if let Some(parent) = path.parent().filter(|dir| !dir.as_os_str().is_empty())
            && !parent.exists()
        {
            let (path, parent) = (path.display(), parent.display());
            let text = format!("{path}: there is no directory {parent}; make it first");
            return Err(ScoreError::Refused(text));
        }
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let file = File::create_new(&part).map_err(ScoreError::at("write", path))?;
        Ok(Self { path: path.to_owned(), part: Some(part), file, replaces: force })
    }

    /// Where the file is until it is complete; `None` if it is a device or a pipe.
    pub fn part(&self) -> Option<&Path> {
        self.part.as_deref()
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// If it cannot be written, or another file has taken the name meanwhile.
    pub fn finish(self) -> Result<(), ScoreError> {
        let complete = || {
            let Some(part) = &self.part else { return Ok(()) };
            self.file.sync_all()?;
            if self.replaces {
                return fs::rename(part, &self.path);
            }
            // A link, unlike a rename, never replaces a file.
            match fs::hard_link(part, &self.path) {
                // Not every file system supports links.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    fs::rename(part, &self.path)
                }
                linked => linked,
            }
        };
        complete().map_err(ScoreError::at("write", &self.path))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for OutputFile {
    /// Removes the unfinished file, or the second name of the finished one.
    fn drop(&mut self) {
        self.part.iter().for_each(|part| drop(fs::remove_file(part)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_complete_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.csv");
        let mut file = OutputFile::create(&path, false).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let mut file = OutputFile::create(&path, false).unwrap();
        file.write_all(b"whole").unwrap();
        assert!(!path.exists());
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_device_is_written_as_it_is() {
        // A link, so that a fault here would replace the link and not the device.
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("device");
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        for force in [false, true] {
            let mut file = OutputFile::create(&device, force).unwrap();
            assert_eq!(file.part(), None);
            file.write_all(b"nothing").unwrap();
            file.finish().unwrap();
        }
        let mut full = OutputFile::create(Path::new("/dev/full"), false).unwrap();
        assert!(full.write_all(b"some").is_err());
        drop(full);
        assert!(device.is_symlink() && !Path::new("/dev/full").is_file());
    }

    #[test]
    fn an_existing_file_is_replaced_only_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let nowhere = OutputFile::create(&dir.path().join("none/out.csv"), true).unwrap_err();
        assert!(nowhere.to_string().ends_with("none; make it first"), "{nowhere}");
        let path = dir.path().join("out.csv");
        let late = OutputFile::create(&path, false).unwrap();
        fs::write(&path, "old").unwrap();
        let error = OutputFile::create(&path, false).unwrap_err().to_string();
        assert!(error.contains("exists already") && error.contains("--force"), "{error}");
        assert!(late.finish().is_err(), "a name that is taken meanwhile is not replaced");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let mut file = OutputFile::create(&path, true).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
