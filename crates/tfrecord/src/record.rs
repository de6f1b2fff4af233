//! Records: how a TFRecord file delimits its entries and guards them against damage.
//!
//! A record on disk is
//!
//! ```text
//! u64le length | u32le masked crc of those 8 bytes | data | u32le masked crc of data
//! ```
//!
//! The length has a checksum of its own, so a reader notices a damaged length before it tries to
//! read that many bytes. [`RecordReader`] also compares the length with a limit that the caller
//! sets, and takes memory only as bytes arrive: a file of 20 bytes that claims a record of a
//! gigabyte costs 20 bytes.

use std::fmt;
use std::io::{self, Read, Write};

use crate::crc;

/// Bytes before the data: the length and its checksum.
const HEADER_LEN: usize = 12;
/// Bytes after the data: its checksum.
const FOOTER_LEN: usize = 4;
/// The longest record that [`RecordReader::new`] accepts.
pub const DEFAULT_MAX_LEN: u64 = 256 << 20;

/// The 12 bytes that go before `data_len` bytes of data.
fn header(data_len: usize) -> [u8; HEADER_LEN] {
    let length = (data_len as u64).to_le_bytes();
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&length);
    header[8..].copy_from_slice(&crc::masked(&length).to_le_bytes());
    header
}

/// Writes `data` as one record.
///
/// This makes three small writes, so give it a buffered writer. Where a record must reach the
/// file completely or not at all, build it with [`append_record`] and write it at once.
pub fn write_record(w: &mut impl Write, data: &[u8]) -> io::Result<()> {
    w.write_all(&header(data.len()))?;
    w.write_all(data)?;
    w.write_all(&crc::masked(data).to_le_bytes())
}

/// Appends one record to `out`, with the data that `encode` appends.
///
/// The header is filled in afterwards, so nothing is copied and, once `out` has grown to its usual
/// size, nothing is allocated.
///
/// # Panics
/// If `encode` removes bytes that were in `out` before.
pub fn append_record(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    let data_start = out.len();
    encode(out);
    assert!(out.len() >= data_start, "the encoder of a record removed bytes");
    let data_crc = crc::masked(&out[data_start..]);
    let header = header(out.len() - data_start);
    out[start..data_start].copy_from_slice(&header);
    out.extend_from_slice(&data_crc.to_le_bytes());
}

/// Splits the first record from bytes in memory. Returns `None` if the bytes end within it, as
/// those of a file do that is still being written.
///
/// # Errors
/// If the length is damaged or above `max_len`; then the start of the next record is unknown.
pub fn split_record(
    bytes: &[u8],
    max_len: u64,
) -> Result<Option<SplitRecord<'_>>, RecordErrorKind> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else { return Ok(None) };
    let len = check_header(header, max_len)?;
    let Ok(len) = usize::try_from(len) else { return Ok(None) };
    let Some((data, rest)) = rest.split_at_checked(len) else { return Ok(None) };
    let Some((data_crc, rest)) = rest.split_first_chunk::<FOOTER_LEN>() else { return Ok(None) };
    let is_sound = crc::masked(data).to_le_bytes() == *data_crc;
    Ok(Some(SplitRecord { data: is_sound.then_some(data), rest }))
}

/// The length of the first record of some bytes, with its header and footer. Its data is not
/// checked. Returns `None` if the bytes end within the record.
///
/// # Errors
/// As [`split_record`].
pub fn record_len(bytes: &[u8], max_len: u64) -> Result<Option<usize>, RecordErrorKind> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else { return Ok(None) };
    let data_len = check_header(header, max_len)?;
    let len = usize::try_from(data_len).ok().and_then(|len| len.checked_add(FOOTER_LEN));
    Ok(len.filter(|&len| len <= rest.len()).map(|len| HEADER_LEN + len))
}

/// The first record of some bytes; see [`split_record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitRecord<'a> {
    /// The record's data; `None` if it fails its checksum.
    pub data: Option<&'a [u8]>,
    /// The bytes after the record.
    pub rest: &'a [u8],
}

/// The length in a header, if its checksum is right and it is not above the limit.
fn check_header(header: &[u8; HEADER_LEN], max_len: u64) -> Result<u64, RecordErrorKind> {
    let (length, length_crc) = header.split_at(8);
    if crc::masked(length).to_le_bytes() != length_crc {
        return Err(RecordErrorKind::LengthChecksum);
    }
    let len = u64::from_le_bytes(length.try_into().expect("8 of 12 bytes"));
    if len > max_len {
        return Err(RecordErrorKind::TooLong { len, max_len });
    }
    Ok(len)
}

/// Reads records one after another from a stream.
///
/// ```
/// use paceline_tfrecord::{RecordReader, write_record};
///
/// let mut file = Vec::new();
/// write_record(&mut file, b"one")?;
/// write_record(&mut file, b"two")?;
///
/// let mut reader = RecordReader::new(&file[..]);
/// let mut record = Vec::new();
/// while reader.next(&mut record)? {
///     println!("{}: {record:?}", reader.records());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RecordReader<R> {
    source: R,
    max_len: u64,
    records: u64,
    offset: u64,
}

impl<R: Read> RecordReader<R> {
    /// A reader that accepts records of up to [`DEFAULT_MAX_LEN`] bytes.
    ///
    /// It reads in small pieces, so give it a buffered source.
    pub fn new(source: R) -> Self {
        Self::with_max_len(source, DEFAULT_MAX_LEN)
    }

    /// A reader that rejects any record longer than `max_len` bytes.
    pub fn with_max_len(source: R, max_len: u64) -> Self {
        Self { source, max_len, records: 0, offset: 0 }
    }

    /// The number of records read to their end, including those with damaged data.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The byte at which the next record begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Replaces the contents of `buf` with the next record's data. Returns `false` at the end of
    /// the stream.
    ///
    /// # Errors
    /// If the stream cannot be read or ends within a record, or a record is damaged or too long.
    /// After [`RecordErrorKind::DataChecksum`] the next call reads the next record, because the
    /// length of the damaged one was right. After any other error the start of the next record is
    /// unknown, so stop reading.
    pub fn next(&mut self, buf: &mut Vec<u8>) -> Result<bool, RecordError> {
        let (record, offset) = (self.records, self.offset);
        self.read_one(buf).map_err(|kind| RecordError { record, offset, kind })
    }

    fn read_one(&mut self, buf: &mut Vec<u8>) -> Result<bool, RecordErrorKind> {
        buf.clear();
        let mut header = [0; HEADER_LEN];
        match self.fill(&mut header)? {
            0 => return Ok(false),
            HEADER_LEN => {}
            got => return Err(truncated(HEADER_LEN as u64, got as u64)),
        }
        let len = check_header(&header, self.max_len)?;
        // `read_to_end` grows the buffer as bytes arrive, not by the claimed length.
        let got = self.source.by_ref().take(len).read_to_end(buf)? as u64;
        if got < len {
            return Err(truncated(len, got));
        }
        let mut data_crc = [0; FOOTER_LEN];
        let got = self.fill(&mut data_crc)?;
        if got < FOOTER_LEN {
            return Err(truncated(FOOTER_LEN as u64, got as u64));
        }
        self.records += 1;
        self.offset += (HEADER_LEN + FOOTER_LEN) as u64 + len;
        if crc::masked(buf).to_le_bytes() != data_crc {
            return Err(RecordErrorKind::DataChecksum);
        }
        Ok(true)
    }

    /// Reads until `buf` is full or the stream ends. Returns the number of bytes read.
    fn fill(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.source.read(&mut buf[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }
}

fn truncated(wanted: u64, got: u64) -> RecordErrorKind {
    RecordErrorKind::Truncated { wanted, got }
}

/// A record that cannot be read, and its place in the stream.
#[derive(Debug)]
pub struct RecordError {
    /// The number of the record, from 0.
    pub record: u64,
    /// The byte of the stream at which the record begins.
    pub offset: u64,
    /// What is wrong with it.
    pub kind: RecordErrorKind,
}

/// What can be wrong with a record.
#[derive(Debug)]
pub enum RecordErrorKind {
    /// The stream cannot be read.
    Io(io::Error),
    /// The stream ends within the record.
    Truncated {
        /// Bytes that the header, the data or the footer should have.
        wanted: u64,
        /// Bytes before the end of the stream.
        got: u64,
    },
    /// The length does not match its checksum: not a TFRecord file, or a damaged one.
    LengthChecksum,
    /// The length matches its checksum but is above the limit.
    TooLong {
        /// The length of the record, in bytes.
        len: u64,
        /// The reader's limit, in bytes.
        max_len: u64,
    },
    /// The data does not match its checksum.
    DataChecksum,
}

impl From<io::Error> for RecordErrorKind {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} at byte {}: ", self.record, self.offset)?;
        match &self.kind {
            RecordErrorKind::Io(error) => write!(f, "{error}"),
            RecordErrorKind::Truncated { wanted, got } => {
                write!(f, "the file ends early ({got} bytes instead of {wanted})")
            }
            RecordErrorKind::LengthChecksum => {
                f.write_str("the length fails its checksum (not a TFRecord file, or damaged)")
            }
            RecordErrorKind::TooLong { len, max_len } => {
                write!(f, "{len} bytes long, above the limit of {max_len}")
            }
            RecordErrorKind::DataChecksum => f.write_str("the data fails its checksum"),
        }
    }
}

impl std::error::Error for RecordError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            RecordErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}
