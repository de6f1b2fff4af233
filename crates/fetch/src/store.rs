//! Installing a file in the cache: complete and correct, or not at all.
//!
//! Content is written under a temporary name in its final directory, counted and hashed on the
//! way, flushed to the disk, and only then renamed. A reader therefore sees either no file or the
//! whole file. A process that is killed leaves at most a temporary name, which the next holder of
//! the lock removes.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use paceline_data::unpack::{self, Unpacked};
use paceline_data::{DataError, UNFINISHED_PREFIX, unfinished};
use sha2::{Digest as _, Sha256};

use crate::dataset_dirs;
use crate::dataset_spec::{Digest, FileSpec};
use crate::fetch_progress::FetchProgress;

/// How much is copied at once, in bytes.
const COPY_BYTES: usize = 64 * 1024;

/// Removes what interrupted processes left in `dir`. Only the holder of the lock may call this.
pub(crate) fn remove_unfinished(dir: &Path) -> Result<(), DataError> {
    let entries = fs::read_dir(dir).map_err(DataError::io("list", dir))?;
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(UNFINISHED_PREFIX) {
            continue;
        }
        let path = entry.path();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed = if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(DataError::io("remove", path))?;
    }
    Ok(())
}

/// Whether `dir` holds the file, plain or gzip, with exactly the right content.
pub(crate) fn holds(dir: &Path, file: &FileSpec) -> bool {
    let Some(found) = dataset_dirs::find(dir, file) else { return false };
    let Ok(content) = unpack::open(&found.path) else { return false };
    copy(content, file, &mut io::sink(), &mut |_| ()).is_ok()
}

/// Installs a file from a stream, plain or gzip, if its content is right, and reports progress.
///
/// An error is a clause that says what was wrong with the stream; the caller adds its source.
pub(crate) fn install(
    dir: &Path,
    file: &FileSpec,
    stream: impl Read,
    report: &mut dyn FnMut(FetchProgress),
) -> Result<(), String> {
    let part = unfinished(dir, file.name);
    let target = dir.join(file.name);
    let (name, total) = (file.name, file.bytes);
    let mut progress = |so_far| report(FetchProgress::Bytes { file: name, so_far, total });
    let installed = write(&part, file, stream, &mut progress).and_then(|()| {
        fs::rename(&part, &target)
            .map_err(|error| format!("cannot rename {}: {error}", part.display()))
    });
    sync_directory(dir);
    if installed.is_err() {
        // If this fails too, the next holder of the lock removes the file.
        let _ = fs::remove_file(&part);
        return installed;
    }
    // The new file replaces a gzip copy, which would only mislead.
    let _ = fs::remove_file(dir.join(format!("{name}.gz")));
    report(FetchProgress::Done { file: name });
    Ok(())
}

fn write(
    part: &Path,
    file: &FileSpec,
    stream: impl Read,
    progress: &mut dyn FnMut(u64),
) -> Result<(), String> {
    let cannot = |error: io::Error| format!("cannot write {}: {error}", part.display());
    let content = Unpacked::new(stream).map_err(|error| format!("cut off: {error}"))?;
    let mut out = File::create(part).map_err(cannot)?;
    copy(content, file, &mut out, progress)?;
    out.sync_all().map_err(cannot)
}

/// Copies content that must have exactly the length and the digest of `file`.
fn copy(
    mut content: impl Read,
    file: &FileSpec,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> Result<(), String> {
    let (mut hash, mut so_far) = (Sha256::new(), 0);
    let mut chunk = vec![0; COPY_BYTES];
    loop {
        let got = match content.read(&mut chunk) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(format!("broke off after {so_far} bytes: {error}")),
        };
        so_far += got as u64;
        if so_far > file.bytes {
            return Err(format!("longer than the {} bytes it should have", file.bytes));
        }
        hash.update(&chunk[..got]);
        out.write_all(&chunk[..got]).map_err(|error| format!("cannot write it: {error}"))?;
        progress(so_far);
    }
    if so_far < file.bytes {
        return Err(format!("only {so_far} of {} bytes arrived", file.bytes));
    }
    let digest: Digest = hash.finalize().into();
    if digest != file.sha256 {
        return Err(format!("wrong content: SHA-256 {}, not {}", hex(&digest), hex(&file.sha256)));
    }
    Ok(())
}

/// Makes a rename survive a power failure. Not every file system can; then the file may be
/// missing afterwards, and is fetched again.
fn sync_directory(dir: &Path) {
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
}

fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
