//! Files that are complete or absent, never half written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::RunFileError;

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

/// Where a file is written until it is complete.
pub(crate) fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}
