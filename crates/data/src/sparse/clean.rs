//! Lists and removes caches of rows.
//!
//! A directory for caches may hold other files too, so a file counts as a cache only by its name
//! and its first bytes. A cache is removed under its lock: one that is being built stays.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::cache;
use crate::error::DataError;
use crate::lock::{CacheLock, holder};

/// The extensions of a cache's files: the cache, an unfinished one, and the lock.
const ROWS: &str = "paceline-rows";
const PART: &str = "part";
const LOCK: &str = "lock";
/// The featuriser of a table, which the crate `table` keeps beside the rows.
const COLUMNS: &str = "paceline-columns";

/// The length of the digest in a cache's name, in characters.
const DIGEST_CHARS: usize = 12;

/// A cache of rows, complete or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedRows {
    /// The cache.
    pub path: PathBuf,
    /// The size of its files, in bytes.
    pub bytes: u64,
    /// What its rows were read from; `None` if that is unknown, as for an unfinished cache.
    pub source: Option<String>,
    files: Vec<PathBuf>,
}

/// What became of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheRemoval {
    /// It is gone.
    Removed,
    /// It stays, because the process of this name is building it.
    InUse(String),
}

impl CachedRows {
    /// The caches in a directory, in the order of their names; none if there is no such directory.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn list(dir: &Path) -> Result<Vec<CachedRows>, DataError> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(DataError::io("list", dir)(error)),
        };
        let mut groups: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            let is_file = path.symlink_metadata().is_ok_and(|about| about.is_file());
            if is_file && has_cache_name(&path) {
                groups.entry(path.with_extension(ROWS)).or_default().push(path);
            }
        }
        Ok(groups.into_iter().filter_map(|(path, files)| Self::of_files(path, files)).collect())
    }

    /// A cache of these files, unless one of them is not Paceline's.
    fn of_files(path: PathBuf, files: Vec<PathBuf>) -> Option<Self> {
        let has = |extension: &OsStr| files.iter().any(|file| file.extension() == Some(extension));
        let is_own =
            if has(OsStr::new(ROWS)) { cache::has_magic(&path) } else { has(OsStr::new(LOCK)) };
        let size = |file: &PathBuf| file.metadata().map_or(0, |about| about.len());
        let bytes = files.iter().map(size).sum();
        let source = cache::identity_of(&path).and_then(|identity| source(&identity));
        is_own.then_some(CachedRows { path, bytes, source, files })
    }

    /// Removes the cache. Processes that use it keep it until they end.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove(&self) -> Result<CacheRemoval, DataError> {
        let lock = self.path.with_extension(LOCK);
        let name = format!("process {}", std::process::id());
        let Some(_lock) = CacheLock::try_take(&lock, &name)? else {
            return Ok(CacheRemoval::InUse(holder(&lock)));
        };
        // The lock goes last: without it, another process could begin to build the cache.
        let others = self.files.iter().filter(|file| **file != lock);
        for file in others.chain([&lock]) {
            match fs::remove_file(file) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(DataError::io("remove", file)(error));
                }
                _ => {}
            }
        }
        Ok(CacheRemoval::Removed)
    }
}

/// Whether a file's name has the form of a cache's: a name, a digest and an extension.
fn has_cache_name(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { return false };
    let digest = stem.rsplit(['.', '-']).next().unwrap_or_default();
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    [ROWS, PART, LOCK, COLUMNS].iter().any(|known| extension == *known)
        && digest.len() == DIGEST_CHARS
        && digest.len() < stem.len()
        && digest.bytes().all(is_hex)
}

/// The first source in a cache's identity.
fn source(identity: &str) -> Option<String> {
    let mut files = identity.lines().filter_map(|line| {
        let path = line.strip_prefix("train ")?.splitn(3, ' ').nth(2)?;
        Some(path.trim_matches('"').to_owned())
    });
    let kind = || identity.lines().next()?.strip_prefix("kind ").map(str::to_owned);
    match (files.next(), files.count()) {
        (Some(first), 0) => Some(first),
        (Some(first), more) => Some(format!("{first} and {more} more")),
        (None, _) => kind().map(|kind| format!("generated {kind}")),
    }
}
