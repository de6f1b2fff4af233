//! Opening a cache of rows: mapped, and checked from end to end before it is believed.
//!
//! The check is one pass over the file at the speed of memory, in pieces small enough that
//! what the checksum has read is still in the processor's cache when the numbers are looked at.
//! After it, rows are handed out without asking again.

use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::Mmap;

use super::header::{CacheHeader, HEADER_BYTES};
use crate::sparse::row_store::{RowSections, RowStore};

/// How much is checked at a time, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// Why there is no cache to use.
#[derive(Debug)]
pub(crate) enum UnusableCache {
    /// There is none.
    Absent,
    /// It cannot serve, and this is why.
    Unfit(String),
}

impl From<&str> for UnusableCache {
    fn from(why: &str) -> Self {
        UnusableCache::Unfit(why.into())
    }
}

/// Opens a cache whose identity must be just the given one.
pub(crate) fn open(path: &Path, identity: &str) -> Result<RowStore, UnusableCache> {
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => UnusableCache::Absent,
        _ => UnusableCache::Unfit(error.to_string()),
    })?;
    let map = map(&file).map_err(|error| UnusableCache::Unfit(error.to_string()))?;
    let header = CacheHeader::from_bytes(&map)?;
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
        return Err(UnusableCache::Unfit(difference(&String::from_utf8_lossy(found), identity)));
    }
    let absurd = |_| UnusableCache::from("absurd in its sizes");
    let sections = RowSections { keys, values, starts, labels };
    let mut store = RowStore::new(map, sections, header.features.try_into().map_err(absurd)?);
    store.train_rows = header.train_rows.try_into().map_err(absurd)?;
    store.skipped = header.skipped;
    check(&store, &header)?;
    Ok(store)
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

fn check(store: &RowStore, header: &CacheHeader) -> Result<(), UnusableCache> {
    let limit = u32::try_from(store.features).map_err(|_| "absurd in its sizes")?;
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
    let sound = sound(store.keys(), header.checksums[0], below)
        && sound(store.values(), header.checksums[1], finite)
        && sound(store.starts(), header.checksums[2], rising)
        && sound(store.labels(), header.checksums[3], binary);
    let whole = store.starts().first() == Some(&0) && last == header.entries;
    if sound && whole { Ok(()) } else { Err("damaged (its rows fail their checksum)".into()) }
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
