//! Directories that only their owner may read.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes a directory that only its owner may read, unless it exists. Directories above it are made
/// as usual.
///
/// # Errors
/// If it cannot be made, or is a file.
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_its_owner_may_read_a_private_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache/rows");
        for _ in 0..2 {
            make_private_dir(&path).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        let file = path.join("file");
        fs::write(&file, "").unwrap();
        assert!(make_private_dir(&file).is_err());
    }
}
