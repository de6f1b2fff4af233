//! The members of a zip archive, as numpy writes them: `.npz`.
//!
//! Only the directory at the end of the archive is trusted for sizes, and only within the limits of
//! the file. Members are stored plain or packed by deflate; large archives use the zip64 fields.

use std::ops::ControlFlow;

use flate2::{Crc, Decompress, FlushDecompress, Status};

/// The length of the record that ends an archive, and of the longest comment after it.
const END_BYTES: usize = 22;
const MAX_COMMENT_BYTES: usize = 65_535;

/// The most members that are listed.
const MAX_MEMBERS: usize = 65_536;

/// How much is unpacked at a time, in bytes.
const STEP_BYTES: usize = 256 * 1024;

/// One member of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZipMember {
    pub(crate) name: String,
    pub(crate) is_packed: bool,
    crc: u32,
    packed_bytes: u64,
    /// Where its local header begins.
    offset: u64,
}

/// The members of an archive. The error is a clause that says what is wrong with it.
pub(crate) fn members(archive: &[u8]) -> Result<Vec<ZipMember>, String> {
    let damaged = |what: &str| format!("damaged zip archive: {what}; copy it again");
    let tail = archive.len().saturating_sub(END_BYTES + MAX_COMMENT_BYTES);
    let end = (tail..archive.len().saturating_sub(END_BYTES - 1))
        .rev()
        .find(|&at| archive[at..].starts_with(b"PK\x05\x06"))
        .ok_or_else(|| damaged("it has no directory, so it was cut short"))?;
    let (mut count, mut directory) =
        (u64::from(short(archive, end + 10)), u64::from(word(archive, end + 16)));
    if count == u64::from(u16::MAX) || directory == u64::from(u32::MAX) {
        // The place of the zip64 record is 20 bytes before the plain one.
        let locator = end.checked_sub(20).filter(|&at| archive[at..].starts_with(b"PK\x06\x07"));
        let record = locator.map(|at| long(archive, at + 8)).unwrap_or(u64::MAX);
        let record = usize::try_from(record).ok().filter(|&at| at.saturating_add(56) <= end);
        let record = record.ok_or_else(|| damaged("its zip64 directory is missing"))?;
        (count, directory) = (long(archive, record + 32), long(archive, record + 48));
    }
    let mut at = usize::try_from(directory).unwrap_or(usize::MAX);
    let mut members = Vec::new();
    for _ in 0..count.min(MAX_MEMBERS as u64) {
        let entry = archive.get(at..end).filter(|entry| entry.len() >= 46);
        let entry = entry.filter(|entry| entry.starts_with(b"PK\x01\x02"));
        let entry = entry.ok_or_else(|| damaged("its directory ends early"))?;
        let lengths = [28, 30, 32].map(|at| usize::from(short(entry, at)));
        let [name_bytes, extra_bytes, comment_bytes] = lengths;
        let name = entry.get(46..46 + name_bytes);
        let extra = entry.get(46 + name_bytes..46 + name_bytes + extra_bytes);
        let (Some(name), Some(extra)) = (name, extra) else {
            return Err(damaged("its directory ends early"));
        };
        members.push(member(entry, String::from_utf8_lossy(name).into_owned(), extra)?);
        at += 46 + name_bytes + extra_bytes + comment_bytes;
    }
    Ok(members)
}

fn member(entry: &[u8], name: String, extra: &[u8]) -> Result<ZipMember, String> {
    let is_packed = match short(entry, 10) {
        0 => false,
        8 => true,
        method => return Err(format!("{name} is packed by the unknown method {method}")),
    };
    if short(entry, 8) & 1 == 1 {
        return Err(format!("{name} is encrypted"));
    }
    let [packed_bytes, unpacked_bytes, offset] = [20, 24, 42].map(|at| u64::from(word(entry, at)));
    let mut member = ZipMember { name, is_packed, crc: word(entry, 16), packed_bytes, offset };
    // The zip64 field has, in this order, those of the three that do not fit into 32 bits.
    let is_long = |number: u64| number == u64::from(u32::MAX);
    let mut rest = extra;
    while let [a, b, c, d, more @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*c, *d]));
        let field = more.get(..len).unwrap_or_default();
        if u16::from_le_bytes([*a, *b]) == 1 {
            let mut numbers = field.chunks_exact(8).map(|bytes| long(bytes, 0));
            if is_long(unpacked_bytes) {
                numbers.next();
            }
            if is_long(packed_bytes) {
                member.packed_bytes = numbers.next().unwrap_or(packed_bytes);
            }
            if is_long(offset) {
                member.offset = numbers.next().unwrap_or(offset);
            }
        }
        rest = more.get(len..).unwrap_or_default();
    }
    Ok(member)
}

impl ZipMember {
    /// The bytes of the archive that hold the member, packed or not.
    pub(crate) fn range(&self, archive: &[u8]) -> Result<std::ops::Range<usize>, String> {
        let damaged =
            || format!("damaged zip archive: {} lies outside of it; copy it again", self.name);
        let at = usize::try_from(self.offset).map_err(|_| damaged())?;
        let header = archive.get(at..).filter(|header| header.len() >= 30).ok_or_else(damaged)?;
        if !header.starts_with(b"PK\x03\x04") {
            return Err(damaged());
        }
        let start = at + 30 + usize::from(short(header, 26)) + usize::from(short(header, 28));
        let len = usize::try_from(self.packed_bytes).map_err(|_| damaged())?;
        let end = start.checked_add(len).filter(|&end| end <= archive.len());
        Ok(start..end.ok_or_else(damaged)?)
    }

    /// Its length in the archive.
    pub(crate) fn packed_bytes(&self) -> u64 {
        self.packed_bytes
    }

    /// Unpacks at most `limit` bytes of the member, or fewer if `advance` breaks, which is called
    /// with the number of packed bytes that were read. Memory grows with what is unpacked. The
    /// checksum is checked if the member ends before the limit.
    pub(crate) fn unpack(
        &self,
        archive: &[u8],
        limit: usize,
        advance: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Vec<u8>, String> {
        let mut packed = &archive[self.range(archive)?];
        let mut out = Vec::new();
        let mut stream = Decompress::new(false);
        loop {
            let room = (limit - out.len()).min(STEP_BYTES);
            if room == 0 {
                return Ok(out);
            }
            let (before_in, before_out) = (stream.total_in(), stream.total_out());
            // Not `decompress_vec`, which writes zeros to all memory that the vector has reserved.
            let len = out.len();
            out.resize(len + room, 0);
            let status = stream
                .decompress(packed, &mut out[len..], FlushDecompress::None)
                .map_err(|error| format!("{} is damaged: {error}; copy it again", self.name))?;
            let read = stream.total_in() - before_in;
            let written = stream.total_out() - before_out;
            packed = &packed[read as usize..];
            out.truncate(len + written as usize);
            if advance(read).is_break() {
                return Ok(out);
            }
            match status {
                Status::StreamEnd => break,
                _ if written > 0 || read > 0 => {}
                _ => return Err(format!("{} is cut short; copy it again", self.name)),
            }
        }
        let mut crc = Crc::new();
        crc.update(&out);
        if crc.sum() != self.crc {
            return Err(format!("{} fails its checksum; copy it again", self.name));
        }
        Ok(out)
    }
}

/// Numbers at a position; 0 beyond the end, which the checks of lengths exclude.
fn short(bytes: &[u8], at: usize) -> u16 {
    number(bytes, at).map_or(0, u16::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    number(bytes, at).map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at).map_or(0, u64::from_le_bytes)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
