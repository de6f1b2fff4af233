//! Sparse data, ready for use: from its cache, which is made if there is none that fits.
//!
//! Several processes of a run want the same cache at the same moment. A good one is opened
//! without any lock; for the rest, one process makes it while the others wait for the lock,
//! and find it when they get it.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::build::{Sources, build};
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

/// How long to wait for another process that makes the same cache.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Opens sparse data. `say` is told about progress, about once a second, and why a cache that
/// is there does not serve.
///
/// # Errors
/// If the specification contradicts itself, a file or a row in it cannot be read, or the cache
/// cannot be written.
pub fn open_sparse(
    spec: &SparseSpec,
    say: &mut dyn FnMut(&str),
) -> Result<TrainTest<SparseRows>, DataError> {
    spec.check()?;
    let sources = find_sources(spec)?;
    let wanted = WantedCache { identity: identity(spec, &sources)?, spec, sources };
    let store = wanted.open(say)?;
    wanted.cut(store)
}

fn find_sources(spec: &SparseSpec) -> Result<Sources, DataError> {
    let expand = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(vec![]), files::expand);
    match spec.kind {
        SparseKind::Clicks => Ok(Sources::default()),
        _ => Ok(Sources { train: expand(&spec.path)?, test: expand(&spec.test_path)? }),
    }
}

/// Everything that the rows depend on, as text. What only says how rows are cut is left out.
fn identity(spec: &SparseSpec, sources: &Sources) -> Result<String, DataError> {
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

/// A cache that is wanted.
struct WantedCache<'a> {
    spec: &'a SparseSpec,
    sources: Sources,
    identity: String,
}

impl WantedCache<'_> {
    fn open(&self, say: &mut dyn FnMut(&str)) -> Result<RowStore, DataError> {
        let places = self.places()?;
        for place in &places {
            match cache::open(place, &self.identity) {
                Ok(store) => return Ok(store),
                Err(UnusableCache::Absent) => {}
                Err(UnusableCache::Unfit(why)) => say(&format!("{}: {why}", place.display())),
            }
        }
        let mut refused = None;
        for place in &places {
            match self.make(place, say) {
                Err(error) if is_refusal(&error) => refused = Some(error),
                made => return made,
            }
        }
        Err(refused.unwrap_or(DataError::NoCache))
    }

    /// Makes the cache in this place, unless another process has done so meanwhile.
    fn make(&self, place: &Path, say: &mut dyn FnMut(&str)) -> Result<RowStore, DataError> {
        if let Some(dir) = place.parent() {
            fs::create_dir_all(dir).map_err(DataError::io("make", dir))?;
        }
        let lock = place.with_extension("lock");
        let mut waiting = |_| say(&format!("waiting for {}", place.display()));
        let _lock = CacheLock::take(&lock, PATIENCE, &mut waiting)?;
        if let Ok(store) = cache::open(place, &self.identity) {
            return Ok(store);
        }
        say(&format!("making {}", place.display()));
        let part = place.with_extension("part");
        let made = build(self.spec, &self.sources, &self.identity, &part, say)
            .and_then(|()| self.check_unchanged())
            .and_then(|()| fs::rename(&part, place).map_err(DataError::io("rename", &*part)));
        if let Err(error) = made {
            // If this fails too, whoever makes the cache next begins the file anew.
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        cache::open(place, &self.identity).map_err(|refusal| {
            let what = match refusal {
                UnusableCache::Absent => "it vanished after it was made".into(),
                UnusableCache::Unfit(why) => why,
            };
            DataError::Sparse { path: place.into(), what }
        })
    }

    fn check_unchanged(&self) -> Result<(), DataError> {
        if identity(self.spec, &self.sources)? == self.identity {
            return Ok(());
        }
        let path = self.spec.path.clone().unwrap_or_default();
        Err(DataError::Sparse { path, what: "it changed while it was read; try again".into() })
    }

    /// Where the cache may be, best first.
    fn places(&self) -> Result<Vec<PathBuf>, DataError> {
        let name = self.name();
        if let Some(dir) = &self.spec.cache_dir {
            return Ok(vec![dir.join(name)]);
        }
        let Some(first) = self.sources.train.first() else {
            return Ok(vec![dataset_dirs::cache_dir()?.join("rows").join(name)]);
        };
        let mut places = vec![first.with_file_name(&name)];
        places.extend(dataset_dirs::cache_dir().ok().map(|dir| dir.join("rows").join(name)));
        Ok(places)
    }

    /// The cache's name: a digest of what is asked for, but not of how long and how old the
    /// files are, so that a stale cache is replaced and not left behind.
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

    /// Cuts the rows into those to train on and those to test on.
    fn cut(&self, store: RowStore) -> Result<TrainTest<SparseRows>, DataError> {
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
                        "of {all} rows, {held_out} cannot be held out to test on"
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

/// Whether this place does not take files from us, so that another may be tried.
fn is_refusal(error: &DataError) -> bool {
    let refused = [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem];
    matches!(error, DataError::Io { action: "open" | "make" | "write", source, .. }
        if refused.contains(&source.kind()))
}
