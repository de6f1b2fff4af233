//! Bytes of images, in memory or in a mapped file.
//!
//! A file that is stored plain is mapped: all processes of a machine then share one copy of it.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use paceline_filemap::FileMap;

/// Bytes of images. Clones of mapped ones share the memory.
#[derive(Clone, Debug)]
pub(crate) enum ImageBytes {
    Owned(Vec<u8>),
    Mapped(MappedBytes),
}

/// The bytes of a mapped file behind its header.
#[derive(Clone, Debug)]
pub(crate) struct MappedBytes {
    map: Arc<FileMap>,
    /// Where the bytes begin.
    start: usize,
    pub(crate) file: FileIdentity,
}

/// Tells a file from others, and from itself after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// The time of the last change, since 1970.
    pub(crate) changed: Duration,
}

impl MappedBytes {
    /// Maps a file whose header has `start` bytes.
    pub(crate) fn open(path: &Path, start: usize) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        let changed = about.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let file_bytes = about.len();
        let map = FileMap::of(&file, path)?;
        if map.len() < start {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let identity = FileIdentity { path: path.canonicalize()?, bytes: file_bytes, changed };
        Ok(Self { map: Arc::new(map), start, file: identity })
    }
}

impl Deref for ImageBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            ImageBytes::Owned(bytes) => bytes,
            ImageBytes::Mapped(mapped) => &mapped.map[mapped.start..],
        }
    }
}

impl PartialEq for ImageBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ImageBytes {}
