//! Whole files that other programs may have made.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file to read it. A pipe would block its reader until another program writes to
/// it, and a device may have no end.
///
/// # Errors
/// If it cannot be opened, or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    check_kind(&path.metadata()?)?;
    // A pipe that has taken the file's place since does not block.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check_kind(&file.metadata()?)?;
    Ok(file)
}

/// Opens a regular file to write at its end, and makes it if there is none.
///
/// # Errors
/// If it cannot be opened, or is not a regular file.
pub fn append_regular(path: &Path) -> io::Result<File> {
    // A pipe that is opened for both directions does not block, even if no program reads it.
    let mut options = File::options();
    let file = options.read(true).append(true).create(true).custom_flags(libc::O_NONBLOCK);
    let file = file.open(path)?;
    check_kind(&file.metadata()?)?;
    Ok(file)
}

fn check_kind(about: &Metadata) -> io::Result<()> {
    if about.is_file() {
        return Ok(());
    }
    let why = if about.is_dir() {
        "it is a directory, not a file"
    } else {
        "it is a pipe or a device, not a regular file"
    };
    Err(io::Error::new(ErrorKind::InvalidInput, why))
}

/// The content of a regular file of at most this many bytes.
///
/// # Errors
/// If it cannot be read, is not a regular file, or is longer.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, mut content) = (open_regular(path)?, Vec::new());
    let len = file.metadata()?.len();
    if len <= most {
        // The length may change meanwhile.
        content.try_reserve_exact(len as usize + 1)?;
        file.take(most + 1).read_to_end(&mut content)?;
        if content.len() as u64 <= most {
            return Ok(content);
        }
    }
    Err(io::Error::new(ErrorKind::InvalidData, format!("it is longer than {most} bytes")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn pipes_devices_directories_and_long_files_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let [file, pipe, endless] = ["file", "pipe", "endless"].map(|name| dir.path().join(name));
        fs::write(&file, "content").unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        symlink("/dev/zero", &endless).unwrap();
        assert_eq!(read_regular(&file, 7).unwrap(), b"content");
        for (path, says) in [
            (&*file, "longer than 6 bytes"),
            (&pipe, "a pipe or a device"),
            (&endless, "a pipe or a device"),
            (dir.path(), "a directory"),
            (&dir.path().join("none"), "No such file"),
        ] {
            let error = read_regular(path, 6).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        for path in [&pipe, &endless] {
            let error = append_regular(path).unwrap_err().to_string();
            assert!(error.contains("a pipe or a device"), "{error}");
        }
        append_regular(&file).unwrap().write_all(b" and more").unwrap();
        assert_eq!(read_regular(&file, 16).unwrap(), b"content and more");
        assert_eq!(append_regular(&dir.path().join("new")).unwrap().metadata().unwrap().len(), 0);
    }
}
