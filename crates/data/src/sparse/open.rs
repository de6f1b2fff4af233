//! Opens sparse data from its cache, and builds the cache if there is no matching one.
//!
//! Several processes of a run need the same cache at the same time. A good cache is opened without
//! a lock. Otherwise one process builds it while the others wait for the lock, and then open it.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::build::{SourceFiles, build};
use super::cache::{self, UnusableCache};
use super::clicks;
use super::files;
use super::row_store::RowStore;
use super::rows::SparseRows;
use super::spec::{SparseKind, SparseSpec};
use crate::dataset_dirs;
use crate::error::DataError;
use crate::lock::CacheLock;
use crate::train_test::TrainTest;

/// How long to wait for another process that builds the same cache.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3600);

/// Opens sparse data. Calls `report` with progress, about once a second, and with the reason if an
/// existing cache cannot be used.
///
/// # Errors
/// If the specification contradicts itself, a file or a row cannot be read, or the cache cannot be
/// written.
pub fn open_sparse(
    spec: &SparseSpec,
    report: &mut dyn FnMut(&str),
) -> Result<TrainTest<SparseRows>, DataError> {
    spec.check()?;
    let sources = find_source_files(spec)?;
    let request = CacheRequest { identity: identity(spec, &sources)?, spec, sources };
    let store = request.open(report)?;
    request.split(store)
}

fn find_source_files(spec: &SparseSpec) -> Result<SourceFiles, DataError> {
    let expand = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(vec![]), files::expand);
    match spec.kind {
        SparseKind::Clicks => Ok(SourceFiles::default()),
        _ => Ok(SourceFiles { train: expand(&spec.path)?, test: expand(&spec.test_path)? }),
    }
}

/// Everything that the rows depend on, as text; not how they are split into training and test set.
fn identity(spec: &SparseSpec, sources: &SourceFiles) -> Result<String, DataError> {
    let mut text = options(spec);
    text += &files::identity("train", &sources.train)?;
    text += &files::identity("test", &sources.test)?;
    Ok(text)
}

fn options(spec: &SparseSpec) -> String {
    let mut text = format!("kind {}\n", spec.kind.name());
    let features = spec.features.map_or("as needed".into(), |features| features.to_string());
    let _ = writeln!(text, "features {features}");
    match spec.kind {
        SparseKind::Clicks => {
            let (train, test) = (spec.train_examples, spec.test_examples);
            let (train, test) = (train.unwrap_or(0), test.unwrap_or(0));
            let _ = writeln!(text, "seed {}\nrows {train} {test}", spec.seed);
            let _ = writeln!(text, "generator {}", clicks::VERSION);
        }
        SparseKind::Libsvm => {
            let _ = writeln!(text, "on_bad {:?}\nindex_base {:?}", spec.on_bad, spec.index_base);
        }
        SparseKind::TfRecord | SparseKind::Criteo => {
            let _ = writeln!(text, "on_bad {:?}", spec.on_bad);
        }
    }
    text
}

/// A cache, and the data it is built from.
struct CacheRequest<'a> {
    spec: &'a SparseSpec,
    sources: SourceFiles,
    identity: String,
}

impl CacheRequest<'_> {
    fn open(&self, report: &mut dyn FnMut(&str)) -> Result<RowStore, DataError> {
        let paths = self.paths()?;
        for path in &paths {
            match cache::open(path, &self.identity) {
                Ok(store) => return Ok(store),
                Err(UnusableCache::Absent) => {}
                Err(UnusableCache::Bad(why)) => report(&format!("{}: {why}", path.display())),
            }
        }
        let mut denied = None;
        for path in &paths {
            match self.build(path, report) {
                Err(error) if is_access_denied(&error) => denied = Some(error),
                built => return built,
            }
        }
        Err(denied.unwrap_or(DataError::NoCache))
    }

    /// Builds the cache at this path, unless another process does so first.
    fn build(&self, path: &Path, report: &mut dyn FnMut(&str)) -> Result<RowStore, DataError> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(DataError::io("create", dir))?;
        }
        let lock = path.with_extension("lock");
        let mut waiting = |_| report(&format!("waiting for {}", path.display()));
        let _lock = CacheLock::take(&lock, LOCK_TIMEOUT, &mut waiting)?;
        if let Ok(store) = cache::open(path, &self.identity) {
            return Ok(store);
        }
        report(&format!("building {}", path.display()));
        let part = path.with_extension("part");
        let built = build(self.spec, &self.sources, &self.identity, &part, report)
            .and_then(|()| self.check_unchanged())
            .and_then(|()| fs::rename(&part, path).map_err(DataError::io("rename", &*part)));
        if let Err(error) = built {
            // If this fails too, the next process that builds the cache overwrites the file.
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        cache::open(path, &self.identity).map_err(|unusable| {
            let what = match unusable {
                UnusableCache::Absent => "it vanished after it was built".into(),
                UnusableCache::Bad(why) => why,
            };
            DataError::Sparse { path: path.into(), what }
        })
    }

    fn check_unchanged(&self) -> Result<(), DataError> {
        if identity(self.spec, &self.sources)? == self.identity {
            return Ok(());
        }
        let path = self.spec.path.clone().unwrap_or_default();
        Err(DataError::Sparse { path, what: "it changed while it was read; try again".into() })
    }

    /// The possible paths of the cache, best first.
    fn paths(&self) -> Result<Vec<PathBuf>, DataError> {
        let name = self.name();
        if let Some(dir) = &self.spec.cache_dir {
            return Ok(vec![dir.join(name)]);
        }
        let Some(first) = self.sources.train.first() else {
            return Ok(vec![dataset_dirs::cache_dir()?.join("rows").join(name)]);
        };
        let mut paths = vec![first.with_file_name(&name)];
        paths.extend(dataset_dirs::cache_dir().ok().map(|dir| dir.join("rows").join(name)));
        Ok(paths)
    }

    /// The name of the cache: a digest of the options and paths, but not of the files' sizes and
    /// times, so that a stale cache is replaced and not left behind.
    fn name(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(options(self.spec));
        for (files, used_for) in [(&self.sources.train, "train"), (&self.sources.test, "test")] {
            for file in files {
                let path = fs::canonicalize(file).unwrap_or_else(|_| file.clone());
                digest.update(format!("{used_for} {path:?}\n"));
            }
        }
        let digest: [u8; 32] = digest.finalize().into();
        let short: String = digest[..6].iter().map(|byte| format!("{byte:02x}")).collect();
        let first = self.sources.train.first().and_then(|file| file.file_name());
        match first {
            Some(first) => format!(".{}.{short}.paceline-rows", first.to_string_lossy()),
            None => format!("{}-{short}.paceline-rows", self.spec.kind.name()),
        }
    }

    /// Splits the rows into a training set and a test set.
    fn split(&self, store: RowStore) -> Result<TrainTest<SparseRows>, DataError> {
        let spec = self.spec;
        let path = || spec.path.clone().unwrap_or_else(|| spec.kind.name().into());
        let wrong = |what: String| Err(DataError::Sparse { path: path(), what });
        let skipped = store.skipped;
        let store = Arc::new(store);
        let (train_rows, rows) = (store.train_rows, store.labels().len());
        let mut train = SparseRows::new(Arc::clone(&store), 0..train_rows);
        let mut test = SparseRows::new(store, train_rows..rows);
        if train.is_empty() {
            return wrong(format!("there are no rows to train on ({skipped} were skipped)"));
        }
        if spec.kind != SparseKind::Clicks {
            if spec.test_path.is_none() {
                let held_out = spec.test_examples.unwrap_or(0);
                if held_out >= train.len() {
                    let all = train.len();
                    return wrong(format!(
                        "{held_out} of {all} rows cannot be held out to test on"
                    ));
                }
                test = train.slice(train.len() - held_out..train.len());
                train = train.slice(0..train.len() - held_out);
            } else if test.is_empty() {
                return wrong("data.test_path has no rows to test on".into());
            }
            train = train.slice(0..train.len().min(spec.train_examples.unwrap_or(usize::MAX)));
            test = test.slice(0..test.len().min(spec.test_examples.unwrap_or(usize::MAX)));
        }
        let origin = match &spec.path {
            Some(path) if spec.kind != SparseKind::Clicks => path.display().to_string(),
            _ => format!("generated from seed {}", spec.seed),
        };
        Ok(TrainTest { train, test, origin })
    }
}

/// Whether the directory cannot be written to, so that another may be tried.
fn is_access_denied(error: &DataError) -> bool {
    let denied = [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem];
    matches!(error, DataError::Io { action: "open" | "create" | "write", source, .. }
        if denied.contains(&source.kind()))
}
