//! Files that are complete or absent, never half written.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::RunFileError;
use crate::names::files;

/// Lets `write` write a file under a temporary name, and renames it once it is complete and on
/// disk. On failure the temporary file is removed.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), RunFileError> {
    let temporary = temporary_path(path);
    let written = write(&temporary)
        .and_then(|()| fs::File::open(&temporary)?.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        RunFileError::at("write", path)(error)
    })
}

/// Where the summary and the models of a run are until they are complete. A process that ends at
/// once leaves them, unless it removes them.
pub fn unfinished_files(run: &Path) -> [PathBuf; 3] {
    [files::SUMMARY, files::MODEL, files::BEST_MODEL].map(|name| temporary_path(&run.join(name)))
}

/// Where a file is written until it is complete.
pub(crate) fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}

/// Writes a file that only its owner can read. The file is complete or absent.
pub fn write_secret(path: &Path, contents: &[u8]) -> Result<(), RunFileError> {
    let mut options = fs::File::options();
    options.write(true).create_new(true).mode(0o600);
    write_whole(path, |temporary| {
        // One that is there may belong to another user, who would read the secret.
        let _ = fs::remove_file(temporary);
        options.open(temporary)?.write_all(contents)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_secret_is_not_written_into_what_another_program_has_prepared() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other] = ["join.json", "other"].map(|name| dir.path().join(name));
        let temporary = temporary_path(&path);
        let check = || {
            write_secret(&path, b"secret").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"secret");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        };
        fs::write(&temporary, "readable by all").unwrap();
        check();
        fs::write(&other, "not a secret").unwrap();
        symlink(&other, &temporary).unwrap();
        check();
        assert_eq!(fs::read(&other).unwrap(), b"not a secret");
    }
}
