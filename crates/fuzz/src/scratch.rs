//! Files for targets that read files: in memory where the system has such a directory.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

thread_local! {
    static SCRATCH: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

/// A directory of this thread, for the time of the process.
pub(crate) fn scratch_dir() -> PathBuf {
    SCRATCH.with_borrow_mut(|scratch| {
        let dir = scratch.get_or_insert_with(|| {
            let shared = Path::new("/dev/shm");
            let made = if shared.is_dir() { TempDir::new_in(shared) } else { TempDir::new() };
            made.expect("a temporary directory")
        });
        dir.path().to_owned()
    })
}

/// Writes a file into the directory, and returns its path.
pub(crate) fn scratch_file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = scratch_dir().join(name);
    fs::write(&path, bytes).expect("a file in memory");
    path
}

/// The bytes that `write` writes to a file.
pub(crate) fn written(name: &str, write: impl FnOnce(&Path)) -> Vec<u8> {
    let path = scratch_dir().join(name);
    write(&path);
    fs::read(&path).expect("a file that was just written")
}
