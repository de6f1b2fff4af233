//! The content of a stream that is stored plain or as gzip.
//!
//! The first two bytes tell which of the two it is, not the name: mirrors, browsers and users
//! rename files, and some servers unpack on the way. Nothing here allocates by what the content
//! claims; the caller decides how much to read.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use paceline_filemap::open_regular;

use crate::error::DataError;

/// How every gzip stream begins.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How much is read from a file at once, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// A stream with its first bytes, which were already read, put back in front.
pub type Rewound<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// A reader of the content of `R`.
#[derive(Debug)]
pub enum Unpacked<R: Read> {
    /// As stored.
    Plain(Rewound<R>),
    /// Unpacked while reading. The decoder reads all gzip members, so bytes after the last one are
    /// an error and not silently dropped.
    Gzip(Box<MultiGzDecoder<Rewound<R>>>),
}

impl<R: Read> Unpacked<R> {
    /// Reads the first two bytes of a stream to find out how it is stored.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn new(mut stream: R) -> io::Result<Self> {
        let mut head = Vec::with_capacity(GZIP_MAGIC.len());
        stream.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut head)?;
        let gzip = head == GZIP_MAGIC;
        let rewound = io::Cursor::new(head).chain(stream);
        Ok(if gzip {
            Unpacked::Gzip(Box::new(MultiGzDecoder::new(rewound)))
        } else {
            Unpacked::Plain(rewound)
        })
    }

    /// Whether the stream is stored as gzip.
    pub fn is_gzip(&self) -> bool {
        matches!(self, Unpacked::Gzip(_))
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Unpacked::Plain(stream) => stream.read(buffer),
            Unpacked::Gzip(stream) => stream.read(buffer),
        }
    }
}

/// Opens a file for reading its content.
///
/// Directories and pipes are rejected before they are read: reading a directory fails with an
/// obscure message, and reading a pipe may never end.
///
/// # Errors
/// If it cannot be opened or read, or is not a regular file.
pub fn open(path: &Path) -> Result<Unpacked<BufReader<File>>, DataError> {
    open_with(path, |file| file)
}

/// As [`open`], with a reader of the file's own bytes in between.
pub(crate) fn open_with<R: Read>(
    path: &Path,
    between: impl FnOnce(File) -> R,
) -> Result<Unpacked<BufReader<R>>, DataError> {
    open_at(path, 0, between)
}

/// As [`open_with`], but continues at a byte of the content. What is before it is read only if the
/// file is gzip.
pub(crate) fn open_at<R: Read>(
    path: &Path,
    offset: u64,
    between: impl FnOnce(File) -> R,
) -> Result<Unpacked<BufReader<R>>, DataError> {
    let mut file = open_regular(path).map_err(DataError::io("open", path))?;
    let read_error = || DataError::io("read", path);
    if offset > 0 {
        let mut head = [0; GZIP_MAGIC.len()];
        file.read_exact(&mut head).map_err(read_error())?;
        let start = if head == GZIP_MAGIC { 0 } else { offset };
        file.seek(SeekFrom::Start(start)).map_err(read_error())?;
        if start > 0 {
            let buffered = BufReader::with_capacity(BUFFER_BYTES, between(file));
            return Ok(Unpacked::Plain(io::Cursor::new(Vec::new()).chain(buffered)));
        }
    }
    let buffered = BufReader::with_capacity(BUFFER_BYTES, between(file));
    let mut content = Unpacked::new(buffered).map_err(read_error())?;
    io::copy(&mut content.by_ref().take(offset), &mut io::sink()).map_err(read_error())?;
    Ok(content)
}
