//! A stream's content, whether it is stored plain or as gzip.
//!
//! Which of the two it is shows in the first two bytes, not in a name: mirrors, browsers and
//! people rename files, and some servers unpack on the way. Nothing here allocates by what
//! the content claims; the caller reads as much as it is ready to hold.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::DataError;

/// How every gzip stream begins.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How much is read from a file at once, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// The first bytes of a stream, put back in front of the rest of it.
type Whole<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// A reader of the content of `R`.
pub(crate) enum Unpacked<R: Read> {
    /// As stored.
    Plain(Whole<R>),
    /// Unpacked on the way. It reads all members to the end, so that bytes after the last
    /// one are an error and not silently dropped.
    Gzip(Box<MultiGzDecoder<Whole<R>>>),
}

impl<R: Read> Unpacked<R> {
    /// Looks at the first two bytes of a stream to see what it is.
    pub(crate) fn new(mut stream: R) -> io::Result<Self> {
        let mut head = Vec::with_capacity(GZIP_MAGIC.len());
        stream.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut head)?;
        let gzip = head == GZIP_MAGIC;
        let whole = io::Cursor::new(head).chain(stream);
        Ok(if gzip {
            Unpacked::Gzip(Box::new(MultiGzDecoder::new(whole)))
        } else {
            Unpacked::Plain(whole)
        })
    }

    /// Whether the stream is stored as gzip.
    pub(crate) fn is_gzip(&self) -> bool {
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

/// Opens a file for its content.
///
/// Directories and pipes are refused before they are read: reading the one fails with words
/// nobody understands, and reading the other may never end.
pub(crate) fn open(path: &Path) -> Result<Unpacked<BufReader<File>>, DataError> {
    let file = match path.metadata() {
        Ok(meta) if meta.is_dir() => Err(io::Error::other("it is a directory, not a file")),
        Ok(meta) if !meta.is_file() => Err(io::Error::other("it is not a regular file")),
        Ok(_) => File::open(path),
        Err(error) => Err(error),
    };
    let file = file.map_err(DataError::io("open", path))?;
    let buffered = BufReader::with_capacity(BUFFER_BYTES, file);
    Unpacked::new(buffered).map_err(DataError::io("read", path))
}
