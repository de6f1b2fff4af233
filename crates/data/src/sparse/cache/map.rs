//! Opening a cache of rows: mapped, and checked from end to end before it is believed.
//!
//! The check is one pass over the file at the speed of memory, in pieces small enough that
//! what the checksum has read is still in the processor's cache when the numbers are looked at.
//! After it, rows are handed out without asking again.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

use super::header::{HEADER_BYTES, Header};

/// How much is checked at a time, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// The rows of a cache, mapped.
#[derive(Debug)]
pub(crate) struct Body {
    map: Mmap,
    keys: Range<usize>,
    values: Range<usize>,
    starts: Range<usize>,
    labels: Range<usize>,
    pub(crate) features: usize,
    pub(crate) train_rows: usize,
    pub(crate) skipped: u64,
}

/// Why there is no cache to use.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// There is none.
    Absent,
    /// It cannot serve, and this is why.
    Unfit(String),
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Refusal::Unfit(why.into())
    }
}

/// Opens a cache whose identity must be just the given one.
pub(crate) fn open(path: &Path, identity: &str) -> Result<Body, Refusal> {
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Refusal::Absent,
        _ => Refusal::Unfit(error.to_string()),
    })?;
    let map = map(&file).map_err(|error| Refusal::Unfit(error.to_string()))?;
    let header = Header::from_bytes(&map)?;
    let sections = header.sections().ok_or("damaged (absurd sizes)")?;
    if sections[4].end != map.len() as u64 {
        return Err("cut short or too long".into());
    }
    // The whole file is mapped, so everything in it fits into `usize`.
    let [keys, values, starts, labels, text] = sections.map(|s| s.start as usize..s.end as usize);
    let found = &map[text.clone()];
    if crc32c::crc32c(found) != header.checksums[4] {
        return Err("damaged (its identity fails its checksum)".into());
    }
    if found != identity.as_bytes() {
        return Err(Refusal::Unfit(difference(&String::from_utf8_lossy(found), identity)));
    }
    let body = Body {
        features: usize::try_from(header.features).map_err(|_| "absurd in its sizes")?,
        train_rows: usize::try_from(header.train_rows).map_err(|_| "absurd in its sizes")?,
        skipped: header.skipped,
        map,
        keys,
        values,
        starts,
        labels,
    };
    body.check(&header)?;
    Ok(body)
}

#[expect(unsafe_code, reason = "a map of a file is unsafe by its nature")]
fn map(file: &File) -> io::Result<Mmap> {
    if file.metadata()?.len() < HEADER_BYTES as u64 {
        return Err(io::Error::other("cut short"));
    }
    // SAFETY: the bytes must not change while they are mapped. Caches appear by rename when
    // they are complete, are never written to again, and are replaced by another rename, which
    // leaves the mapped file as it is. Somebody who writes into one by hand breaks this, as
    // with any mapped file.
    unsafe { Mmap::map(file) }
}

impl Body {
    #[inline]
    pub(crate) fn keys(&self) -> &[u32] {
        bytemuck::cast_slice(&self.map[self.keys.clone()])
    }

    /// The values; empty if all are 1.
    #[inline]
    pub(crate) fn values(&self) -> &[f32] {
        bytemuck::cast_slice(&self.map[self.values.clone()])
    }

    /// Where each row begins in the keys, and at last where they end.
    #[inline]
    pub(crate) fn starts(&self) -> &[u64] {
        bytemuck::cast_slice(&self.map[self.starts.clone()])
    }

    #[inline]
    pub(crate) fn labels(&self) -> &[u8] {
        &self.map[self.labels.clone()]
    }

    fn check(&self, header: &Header) -> Result<(), Refusal> {
        let limit = u32::try_from(self.features).map_err(|_| "absurd in its sizes")?;
        if header.train_rows > header.rows || limit == 0 {
            return Err("absurd in its sizes".into());
        }
        let (mut last, mut falls) = (0, false);
        let below = |piece: &[u32]| piece.iter().fold(0, |most, &key| most.max(key)) < limit;
        let finite = |piece: &[f32]| piece.iter().fold(true, |all, value| all & value.is_finite());
        let binary = |piece: &[u8]| piece.iter().fold(0, |most, &label| most.max(label)) < 2;
        let rising = |piece: &[u64]| {
            for &start in piece {
                falls |= start < last;
                last = start;
            }
            !falls
        };
        let sound = sound(self.keys(), header.checksums[0], below)
            && sound(self.values(), header.checksums[1], finite)
            && sound(self.starts(), header.checksums[2], rising)
            && sound(self.labels(), header.checksums[3], binary);
        let whole = self.starts().first() == Some(&0) && last == header.entries;
        if sound && whole { Ok(()) } else { Err("damaged (its rows fail their checksum)".into()) }
    }
}

/// Whether a section has this checksum and every piece of it is good.
fn sound<T: bytemuck::Pod>(
    section: &[T],
    checksum: u32,
    mut good: impl FnMut(&[T]) -> bool,
) -> bool {
    let mut found = 0;
    section.chunks(PIECE_BYTES / size_of::<T>()).all(|piece| {
        found = crc32c::crc32c_append(found, bytemuck::cast_slice(piece));
        good(piece)
    }) && found == checksum
}

/// The first thing in which two identities differ, in words.
fn difference(found: &str, wanted: &str) -> String {
    let mut pairs =
        found.lines().map(Some).chain([None]).zip(wanted.lines().map(Some).chain([None]));
    match pairs.find(|(found, wanted)| found != wanted) {
        Some((Some(found), Some(wanted))) => {
            format!("stale: made of `{found}`, wanted is `{wanted}`")
        }
        Some((None, Some(wanted))) => format!("stale: made without `{wanted}`"),
        Some((Some(found), None)) => format!("stale: made with `{found}`"),
        _ => "stale".into(),
    }
}
