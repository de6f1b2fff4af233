//! Files with secrets and certificates: who may read them, and how they are opened.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// The most bytes of a file with certificates or a key.
const MAX_PEM_BYTES: u64 = 1 << 20;

/// Opens a file with a secret or a certificate. It must be a regular file: a pipe that no program
/// writes would block the task, and a pipe can be read only once, but some files are read by
/// several tasks.
///
/// # Errors
/// If it cannot be opened, or is not a regular file.
pub fn open_credential(path: &Path) -> io::Result<File> {
    check_kind(&path.metadata()?)?;
    // A pipe that has taken the file's place since does not block.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    check_kind(&file.metadata()?)?;
    Ok(file)
}

fn check_kind(about: &Metadata) -> io::Result<()> {
    if about.is_dir() {
        return Err(io::Error::other("it is a directory; name a file"));
    }
    if !about.is_file() {
        let why = "it is a pipe or a device, not a regular file; write its content to a file that \
                   only you can read, and name that file";
        return Err(io::Error::other(why));
    }
    Ok(())
}

/// The content of a file with a secret, of at most this many bytes, and the file's metadata.
///
/// # Errors
/// If it cannot be read, is not a regular file, or is longer.
pub fn read_credential(path: &Path, most: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let file = open_credential(path)?;
    let (mut content, about) = (Vec::new(), file.metadata()?);
    file.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok((content, about))
}

/// Whether a file belongs to the user of this process.
pub fn is_own(about: &Metadata) -> bool {
    about.uid() == geteuid().as_raw()
}

/// The content of a file with certificates or a key.
pub(crate) fn read_pem(path: &Path) -> io::Result<Vec<u8>> {
    read_open_pem(open_credential(path)?)
}

/// The content of such a file that is open already.
pub(crate) fn read_open_pem(file: File) -> io::Result<Vec<u8>> {
    let mut pem = Vec::new();
    file.take(MAX_PEM_BYTES + 1).read_to_end(&mut pem)?;
    if pem.len() as u64 > MAX_PEM_BYTES {
        return Err(io::Error::other("it is longer than 1 MiB, so it holds no certificate or key"));
    }
    Ok(pem)
}

/// Whether only the owner of a file may read it. As for other programs' secrets, a file of the
/// system's administrator may also be readable by a group: Kubernetes mounts secrets so.
pub fn is_private(about: &Metadata) -> bool {
    is_private_mode(about.mode(), about.uid())
}

fn is_private_mode(mode: u32, owner: u32) -> bool {
    let allowed = if owner == 0 { 0o740 } else { 0o700 };
    mode & 0o777 & !allowed == 0
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_a_pipe_blocks_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        for (path, says) in [(path.as_path(), "pipe"), (dir.path(), "directory")] {
            let error = open_credential(path).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("name"), "{error}");
        }
        let long = dir.path().join("long");
        File::create(&long).unwrap().set_len(MAX_PEM_BYTES + 1).unwrap();
        assert!(open_credential(&long).is_ok());
        assert!(read_pem(&long).unwrap_err().to_string().contains("1 MiB"));
        assert!(read_credential(&long, MAX_PEM_BYTES).is_err());
        let (content, about) = read_credential(&long, MAX_PEM_BYTES + 1).unwrap();
        assert_eq!((content.len() as u64, is_own(&about)), (MAX_PEM_BYTES + 1, true));
        // This one is the administrator's.
        let is_root = geteuid().is_root();
        assert_eq!(is_own(&Path::new("/proc/version").metadata().unwrap()), is_root);
    }

    #[test]
    fn only_an_administrators_file_may_be_shared_with_a_group() {
        for mode in [0o100_440, 0o100_640] {
            assert!(is_private_mode(mode, 0) && !is_private_mode(mode, 1_000), "{mode:o}");
        }
        assert!(is_private_mode(0o100_600, 1_000) && !is_private_mode(0o100_644, 0));
    }
}
