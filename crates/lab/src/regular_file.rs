//! Opens the files of runs, which other users may have written.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file to read it. A link could lead to a file that only the reader may read, and
/// a pipe would block it; both may take a file's place at any time.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn links_pipes_and_directories_are_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| dir.path().join(name));
        File::create(&file).unwrap();
        symlink(&file, &link).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(open_regular(&file).is_ok());
        for other in [&link, &pipe, dir.path()] {
            assert!(open_regular(other).is_err(), "{}", other.display());
        }
    }
}
