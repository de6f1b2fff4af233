//! Files mapped into memory for reading, and small ones that are read as a whole.
//!
//! A mapped file is read without copies and may be larger than memory. What it cannot do is report
//! an error: if another program makes the file shorter, the next access to the lost part raises
//! SIGBUS. So this crate remembers which files are mapped. On SIGBUS it looks for one that is
//! shorter than when it was mapped, reports it by name, and ends the process with
//! [`EXIT_CODE`] before a single wrong byte is used.
//!
//! ```
//! use paceline_filemap::FileMap;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("numbers");
//! std::fs::write(&path, [1, 2, 3])?;
//! let map = FileMap::open(&path)?;
//! assert_eq!(map[..], [1, 2, 3]);
//! # Ok::<(), std::io::Error>(())
//! ```

mod private_dir;
mod regular_file;
mod watched_files;

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

pub use private_dir::make_private_dir;
pub use regular_file::{append_regular, open_regular, read_regular};
use watched_files::WatchGuard;
pub use watched_files::{EXIT_CODE, report_with};

/// The bytes of a mapped file, or of memory that takes the place of one.
#[derive(Debug)]
pub struct FileMap {
    map: Mmap,
    /// None for memory, which no other program can take away.
    _watch: Option<WatchGuard>,
}

impl FileMap {
    /// Maps a file as a whole.
    ///
    /// # Errors
    /// If it cannot be opened or mapped, or is not a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(&open_regular(path)?, path)
    }

    /// Maps a file that is open already. The path names it in reports.
    ///
    /// # Errors
    /// If it cannot be mapped.
    #[expect(unsafe_code, reason = "mapping a file has no safe form")]
    pub fn of(file: &File, path: &Path) -> io::Result<Self> {
        let watch = WatchGuard::of(file, path)?;
        // SAFETY: the bytes must not change while they are mapped. Paceline's own files appear by
        // rename when they are complete, and are never written again. A program that writes to a
        // user's data file while a job reads it breaks this, as with any mapped file; memory safety
        // depends on none of the bytes, because every access derived from them is checked. A file
        // that becomes shorter ends the process, see `watched_files`.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self { map, _watch: Some(watch) })
    }
}

impl From<Mmap> for FileMap {
    /// Memory in place of a file.
    fn from(map: Mmap) -> Self {
        Self { map, _watch: None }
    }
}

impl Deref for FileMap {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl AsRef<[u8]> for FileMap {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}
