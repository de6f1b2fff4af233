//! Maps a cache of rows and checks it before use.
//!
//! The check is one pass over the file at the speed of memory: every segment's checksum, and that
//! its rows lie within it. After that, rows are read without further checks.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use paceline_filemap::{FileMap, open_regular};

use super::header::{HEADER_BYTES, MAGIC};
use super::prefix::CachePrefix;
use crate::open_observer::{OpenMeter, OpenObserver};
use crate::sparse::row_store::{RowStore, RowStoreBuilder};
use crate::sparse::segment::{SegmentHeader, is_sound};

/// The most that is read of a file to show its identity, in bytes.
const MOST_PREFIX_BYTES: u64 = 1 << 20;

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
    let file = open_regular(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => UnusableCache::Absent,
        _ => UnusableCache::Bad(error.to_string()),
    })?;
    let map = map(&file, path).map_err(|error| UnusableCache::Bad(error.to_string()))?;
    let CachePrefix { header, identity: found, code, len } = CachePrefix::from_bytes(&map)?;
    if found != identity.as_bytes() {
        return Err(UnusableCache::Bad(difference(&String::from_utf8_lossy(found), identity)));
    }
    if !header.is_complete || header.file_bytes != map.len() as u64 {
        return Err("cut short or too long".into());
    }
    let mut meter = OpenMeter::new(observer, "checking the cache of", what, map.len() as u64);
    meter.set_rows(header.rows);
    let mut builder = RowStoreBuilder::new(code);
    let mut at = len;
    for _ in 0..header.segments {
        let segment = SegmentHeader::from_bytes(&map[at..])
            .filter(|segment| is_sound(segment, &map[at..at + segment.len()]))
            .filter(|segment| segment.features_needed <= header.features)
            .ok_or("damaged (its rows fail their checksum)")?;
        builder.add(at, &segment);
        at += segment.len();
        meter.add(segment.len() as u64).map_err(|_| UnusableCache::Interrupted)?;
    }
    let features = u32::try_from(header.features).map_err(|_| "damaged (impossible sizes)")?;
    let mut store = builder.build(map, features as usize);
    store.first_index = header.first_index;
    let counted = [store.rows() as u64, store.train_rows as u64, store.entries, store.skipped];
    let claimed = [header.rows, header.train_rows, header.entries, header.skipped];
    if counted != claimed || features == 0 || at as u64 != header.file_bytes {
        return Err("damaged (impossible sizes)".into());
    }
    Ok(store)
}

/// Whether a file begins as a cache does, of any version.
pub(crate) fn has_magic(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    open_regular(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && &first == MAGIC
}

/// The identity of a cache, if it can be read; the rows are not checked.
pub(crate) fn identity_of(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    open_regular(path).ok()?.take(MOST_PREFIX_BYTES).read_to_end(&mut bytes).ok()?;
    let prefix = CachePrefix::from_bytes(&bytes).ok()?;
    Some(String::from_utf8_lossy(prefix.identity).into_owned())
}

/// Maps a cache file.
pub(super) fn map(file: &File, path: &Path) -> io::Result<FileMap> {
    if file.metadata()?.len() < HEADER_BYTES as u64 {
        return Err(io::Error::other("cut short"));
    }
    // The bytes do not change while they are mapped. A cache appears by rename when it is complete,
    // is never written again, and is replaced by another rename, which does not change the mapped
    // file. An unfinished one is mapped only by the process that holds its lock, and only until it
    // appends to it.
    FileMap::of(file, path)
}

/// Whether a line of an identity has the digest of a table's featuriser.
fn is_featurizer(line: &str) -> bool {
    line.starts_with("featurizer ")
}

/// Describes the first difference between two identities.
fn difference(found: &str, wanted: &str) -> String {
    let mut pairs =
        found.lines().map(Some).chain([None]).zip(wanted.lines().map(Some).chain([None]));
    match pairs.find(|(found, wanted)| found != wanted) {
        Some((Some(found), Some(wanted))) if [found, wanted].map(is_featurizer) == [true; 2] => {
            "stale: the table has changed, or how its columns are used".into()
        }
        Some((Some(found), Some(wanted))) => {
            format!("stale: built from `{found}`, but the job needs `{wanted}`")
        }
        Some((None, Some(wanted))) => format!("stale: built without `{wanted}`"),
        Some((Some(found), None)) => format!("stale: built with `{found}`"),
        _ => "stale".into(),
    }
}
