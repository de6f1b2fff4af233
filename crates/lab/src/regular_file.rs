//! Opens the files of runs, which other users may have written.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file to read it. A link could lead to a file that only the reader may read, and
/// a pipe would block it; both may take a file's place at any time.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(ErrorKind::InvalidInput.into()) }
}

/// The longest file that is read as a whole, in bytes: the table of a task that was sampled for
/// months.
const MAX_WHOLE_BYTES: u64 = 64 << 20;

/// The content of a regular file that is not too long.
pub(crate) fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_regular(path)?.take(MAX_WHOLE_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_WHOLE_BYTES {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is too long"));
    }
    Ok(content)
}

/// The same as text; none if it cannot be read.
pub(crate) fn whole_text(path: &Path) -> Option<String> {
    String::from_utf8(read_whole(path).ok()?).ok()
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
        assert_eq!(whole_text(&file).as_deref(), Some(""));
        for other in [&link, &pipe, dir.path()] {
            assert!(open_regular(other).is_err(), "{}", other.display());
            assert_eq!(whole_text(other), None);
        }
    }
}
