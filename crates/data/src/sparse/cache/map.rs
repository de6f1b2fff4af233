//! Maps a cache of rows and checks all of it before use.
//!
//! The check is one pass over the file at the speed of memory, in blocks small enough to be still
//! in the processor's cache when, after the checksum, the numbers are checked. After that, rows are
//! read without further checks.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use memmap2::Mmap;

use super::header::{CacheHeader, HEADER_BYTES, MAGIC};
use crate::open_observer::{OpenMeter, OpenObserver};
use crate::sparse::row_store::{RowSections, RowStore};

/// The size of a block, in bytes.
const BLOCK_BYTES: usize = 64 * 1024;

/// How much is checked between two looks at the clock, in bytes.
const METERED_BYTES: usize = 4 << 20;

/// The most that is read of an identity to show it, in bytes.
const MOST_IDENTITY_BYTES: u64 = 1 << 20;

/// Why a cache cannot be used.
#[derive(Debug)]
pub(crate) enum UnusableCache {
    /// The file does not exist.
    Absent,
    /// The file is stale or damaged; the text says how.
    Bad(String),
    /// The observer asked to stop.
    Interrupted,
}

impl From<&str> for UnusableCache {
    fn from(why: &str) -> Self {
        UnusableCache::Bad(why.into())
    }
}

/// Opens the cache at `path`, which must have this identity. `what` names its rows in reports.
pub(crate) fn open(
    path: &Path,
    identity: &str,
    what: &Path,
    observer: &mut dyn OpenObserver,
) -> Result<RowStore, UnusableCache> {
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => UnusableCache::Absent,
        _ => UnusableCache::Bad(error.to_string()),
    })?;
    let map = map(&file).map_err(|error| UnusableCache::Bad(error.to_string()))?;
    let header = CacheHeader::from_bytes(&map)?;
    let sections = header.sections().ok_or("damaged (impossible sizes)")?;
    if sections[4].end != map.len() as u64 {
        return Err("cut short or too long".into());
    }
    // The whole file is mapped, so every position in it fits in `usize`.
    let [keys, values, starts, labels, text] = sections.map(|s| s.start as usize..s.end as usize);
    let found = &map[text.clone()];
    if crc32c::crc32c(found) != header.checksums[4] {
        return Err("damaged (its identity fails its checksum)".into());
    }
    if found != identity.as_bytes() {
        return Err(UnusableCache::Bad(difference(&String::from_utf8_lossy(found), identity)));
    }
    let map_bytes = map.len() as u64;
    let impossible = |_| UnusableCache::from("damaged (impossible sizes)");
    let sections = RowSections { keys, values, starts, labels };
    let mut store = RowStore::new(map, sections, header.features.try_into().map_err(impossible)?);
    store.train_rows = header.train_rows.try_into().map_err(impossible)?;
    store.skipped = header.skipped;
    store.first_index = header.first_index;
    let mut meter = OpenMeter::new(observer, "checking the cache of", what, map_bytes);
    meter.set_rows(header.rows);
    check(&store, &header, &mut meter)?;
    Ok(store)
}

/// Whether a file begins as a cache does, of any version.
pub(crate) fn has_magic(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && &first == MAGIC
}

/// The identity of a cache, if it can be read; the rows are not checked.
pub(crate) fn identity_of(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut bytes = [0; HEADER_BYTES];
    file.read_exact(&mut bytes).ok()?;
    let [.., text] = CacheHeader::from_bytes(&bytes).ok()?.sections()?;
    file.seek(SeekFrom::Start(text.start)).ok()?;
    let mut identity = String::new();
    file.take((text.end - text.start).min(MOST_IDENTITY_BYTES))
        .read_to_string(&mut identity)
        .ok()?;
    Some(identity)
}

#[expect(unsafe_code, reason = "mapping a file has no safe form")]
fn map(file: &File) -> io::Result<Mmap> {
    if file.metadata()?.len() < HEADER_BYTES as u64 {
        return Err(io::Error::other("cut short"));
    }
    // SAFETY: the bytes must not change while they are mapped. A cache appears by rename when it is
    // complete, is never written again, and is replaced by another rename, which does not change
    // the mapped file. A program that writes to the file breaks this, as with any mapped file.
    unsafe { Mmap::map(file) }
}

fn check(
    store: &RowStore,
    header: &CacheHeader,
    meter: &mut OpenMeter<'_>,
) -> Result<(), UnusableCache> {
    let limit = u32::try_from(store.features).map_err(|_| "damaged (impossible sizes)")?;
    if header.train_rows > header.rows || limit == 0 {
        return Err("damaged (impossible sizes)".into());
    }
    let (mut last, mut falls) = (0, false);
    let below = |block: &[u32]| block.iter().fold(0, |most, &key| most.max(key)) < limit;
    let finite = |block: &[f32]| block.iter().fold(true, |all, value| all & value.is_finite());
    let binary = |block: &[u8]| block.iter().fold(0, |most, &label| most.max(label)) < 2;
    let rising = |block: &[u64]| {
        for &start in block {
            falls |= start < last;
            last = start;
        }
        !falls
    };
    let sound = is_sound(store.keys(), header.checksums[0], below, meter)?
        && is_sound(store.values(), header.checksums[1], finite, meter)?
        && is_sound(store.starts(), header.checksums[2], rising, meter)?
        && is_sound(store.labels(), header.checksums[3], binary, meter)?;
    let whole = store.starts().first() == Some(&0) && last == header.entries;
    if sound && whole { Ok(()) } else { Err("damaged (its rows fail their checksum)".into()) }
}

/// Whether a section has this checksum and `good` accepts every block of it.
fn is_sound<T: bytemuck::Pod>(
    section: &[T],
    checksum: u32,
    mut good: impl FnMut(&[T]) -> bool,
    meter: &mut OpenMeter<'_>,
) -> Result<bool, UnusableCache> {
    let mut found = 0;
    for part in section.chunks(METERED_BYTES / size_of::<T>()) {
        meter.add(size_of_val(part) as u64).map_err(|_| UnusableCache::Interrupted)?;
        for block in part.chunks(BLOCK_BYTES / size_of::<T>()) {
            found = crc32c::crc32c_append(found, bytemuck::cast_slice(block));
            if !good(block) {
                return Ok(false);
            }
        }
    }
    Ok(found == checksum)
}

/// Describes the first difference between two identities.
fn difference(found: &str, wanted: &str) -> String {
    let mut pairs =
        found.lines().map(Some).chain([None]).zip(wanted.lines().map(Some).chain([None]));
    match pairs.find(|(found, wanted)| found != wanted) {
        Some((Some(found), Some(wanted))) => {
            format!("stale: built from `{found}`, but the job needs `{wanted}`")
        }
        Some((None, Some(wanted))) => format!("stale: built without `{wanted}`"),
        Some((Some(found), None)) => format!("stale: built with `{found}`"),
        _ => "stale".into(),
    }
}
