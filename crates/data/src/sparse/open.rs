//! Opens sparse data from its cache, and builds the cache if there is no matching one.
//!
//! Several processes of a run need the same cache at the same time. A good cache is opened without
//! a lock. Otherwise one process builds it while the others wait for the lock, and then open it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use paceline_filemap::make_private_dir;
use paceline_generate::CLICKS_VERSION;
use sha2::{Digest as _, Sha256};

use super::build::{BuildInputs, SourceFiles, build};
use super::cache::{self, UnusableCache};
use super::example::FeatureNames;
use super::files;
use super::label_rule::LabelRule;
use super::limits::{LEAST_ENTRIES_PER_FEATURE, MAX_UNASKED_FEATURES};
use super::row_reader::RowReader;
use super::row_store::RowStore;
use super::rows::SparseRows;
use super::spec::{SparseKind, SparseSpec};
use crate::cache_dir::cache_dir;
use crate::error::DataError;
use crate::hold_out::HoldOut;
use crate::lock::CacheLock;
use crate::open_observer::{OpenObserver, OpenReport, short_name};
use crate::sniff::{FileKind, check_kind};
use crate::train_test::TrainTest;

/// How long to wait for another process that builds the same cache.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3600);

/// Opens sparse data, and reports to `observer` its progress, which process it waits for, and why
/// an existing cache cannot be used.
///
/// # Errors
/// If the specification contradicts itself, a file or a row cannot be read, the cache cannot be
/// written, or the observer asks to stop. A cache is then complete or not there.
pub fn open_sparse(
    spec: &SparseSpec,
    observer: &mut dyn OpenObserver,
) -> Result<TrainTest<SparseRows>, DataError> {
    open_request(spec, None, observer)
}

/// As [`open_sparse`], for files that `reader` reads.
///
/// # Errors
/// As [`open_sparse`].
pub fn open_rows(
    spec: &SparseSpec,
    reader: &dyn RowReader,
    observer: &mut dyn OpenObserver,
) -> Result<TrainTest<SparseRows>, DataError> {
    open_request(spec, Some(reader), observer)
}

/// The path of the cache of rows that a reader with these options reads.
///
/// # Errors
/// If there is no file at a path, or no directory for caches.
pub fn row_cache_path(spec: &SparseSpec, reader_options: &str) -> Result<PathBuf, DataError> {
    let sources = find_source_files(spec)?;
    let options = options(spec) + reader_options;
    CacheRequest { spec, reader: None, sources, options, identity: String::new() }.path()
}

fn open_request(
    spec: &SparseSpec,
    reader: Option<&dyn RowReader>,
    observer: &mut dyn OpenObserver,
) -> Result<TrainTest<SparseRows>, DataError> {
    spec.check()?;
    let sources = find_source_files(spec)?;
    let fields = reader.filter(|_| spec.with_fields).map(|reader| reader.fields().checked());
    let fields = fields.transpose()?;
    let mut options = options(spec);
    options += &reader.map_or(String::new(), |reader| reader.options());
    let mut request = CacheRequest { spec, reader, sources, options, identity: String::new() };
    request.identity = request.current_identity()?;
    let mut store = request.open(observer)?;
    request.check_features(&store)?;
    if let Some(fields) = fields {
        // A field that no row has is still a field of the source.
        (store.fields, store.number_fields) = (fields.len(), fields.numbers());
    }
    request.split(store)
}

/// Opens a cache of rows by itself, whatever it was built from: the rows of the training set, then
/// those of the test set.
///
/// # Errors
/// If it is damaged or of another version, or the observer asks to stop.
pub fn open_row_cache(
    path: &Path,
    observer: &mut dyn OpenObserver,
) -> Result<SparseRows, DataError> {
    let identity = cache::identity_of(path).unwrap_or_default();
    let store = cache::open(path, &identity, path, observer).map_err(|unusable| {
        let what = match unusable {
            UnusableCache::Absent => "there is no such file".into(),
            UnusableCache::Bad(why) => why,
            UnusableCache::Interrupted => return DataError::Interrupted,
        };
        DataError::Sparse { path: path.into(), what }
    })?;
    let rows = store.rows();
    Ok(SparseRows::new(Arc::new(store), 0..rows))
}

fn find_source_files(spec: &SparseSpec) -> Result<SourceFiles, DataError> {
    let expand = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(vec![]), files::expand);
    match spec.kind {
        SparseKind::Clicks => Ok(SourceFiles::default()),
        _ => Ok(SourceFiles { train: expand(&spec.path)?, test: expand(&spec.test_path)? }),
    }
}

fn options(spec: &SparseSpec) -> String {
    let mut text = format!("kind {}\n", spec.kind.name());
    let features = spec.features.map_or("as needed".into(), |features| features.to_string());
    // The number of a table's features follows from its featuriser.
    if spec.kind != SparseKind::Table {
        let _ = writeln!(text, "features {features}");
    }
    match spec.kind {
        SparseKind::Clicks => {
            let (train, test) = (spec.train_examples, spec.test_examples);
            let (train, test) = (train.unwrap_or(0), test.unwrap_or(0));
            let _ = writeln!(text, "seed {}\nrows {train} {test}", spec.seed);
            let _ = writeln!(text, "generator {}", CLICKS_VERSION);
            if spec.interactions != 0.0 {
                let _ = writeln!(text, "interactions {}", spec.interactions);
            }
        }
        SparseKind::Libsvm => {
            let _ = writeln!(text, "on_bad {:?}\nindex_base {:?}", spec.on_bad, spec.index_base);
        }
        SparseKind::Libffm | SparseKind::TfRecord | SparseKind::Criteo | SparseKind::Table => {
            let _ = writeln!(text, "on_bad {:?}", spec.on_bad);
            if spec.kind == SparseKind::Libffm && spec.with_fields {
                let _ = writeln!(text, "most_fields {}", spec.most_fields);
            }
            if spec.feature_names != FeatureNames::default() {
                let _ = writeln!(text, "names {:?}", spec.feature_names);
            }
        }
    }
    if spec.with_fields {
        text += "fields\n";
    }
    if spec.labels != LabelRule::Binary {
        let _ = writeln!(text, "labels {:?}", spec.labels);
    }
    text
}

/// A cache, and the data it is built from.
struct CacheRequest<'a> {
    spec: &'a SparseSpec,
    /// Reads the files, if they are not in a format of this crate.
    reader: Option<&'a dyn RowReader>,
    sources: SourceFiles,
    options: String,
    identity: String,
}

impl CacheRequest<'_> {
    /// Everything that the rows depend on, as text; not how they are split into training and test
    /// set.
    fn current_identity(&self) -> Result<String, DataError> {
        let mut text = self.options.clone();
        text += &self.reader.map_or(String::new(), |reader| reader.identity());
        text += &files::identity("train", &self.sources.train)?;
        text += &files::identity("test", &self.sources.test)?;
        Ok(text)
    }

    /// Refuses a number of features that the user has not set and the rows hardly use: one wrong
    /// index must not cost the memory of billions of parameters.
    fn check_features(&self, store: &RowStore) -> Result<(), DataError> {
        let (features, entries) = (store.features, store.entries);
        let is_plausible = features <= MAX_UNASKED_FEATURES
            || entries as f64 >= LEAST_ENTRIES_PER_FEATURE * features as f64;
        if self.spec.features.is_some() || self.reader.is_some() || is_plausible {
            return Ok(());
        }
        let path = self.spec.path.clone().unwrap_or_default();
        let greatest = features as u64 - 1 + u64::from(store.first_index);
        let gigabytes = 4e-9 * features as f64;
        let what = format!(
            "the greatest index is {greatest}, so a model has {gigabytes:.1} GB of parameters, but \
             all rows together have only {entries} entries; set data.features = {features} if that \
             is right, else correct the row"
        );
        Err(DataError::Sparse { path, what })
    }

    fn open(&self, observer: &mut dyn OpenObserver) -> Result<RowStore, DataError> {
        let path = self.path()?;
        match cache::open(&path, &self.identity, &self.what(), observer) {
            Ok(store) => return Ok(store),
            Err(UnusableCache::Absent) => {}
            Err(UnusableCache::Bad(why)) => note(observer, &format!("{}: {why}", path.display())),
            Err(UnusableCache::Interrupted) => return Err(DataError::Interrupted),
        }
        self.build(&path, observer).map_err(|error| cache_error(error, &path))
    }

    /// Checks that no file is empty or certainly of another kind, before anything is built.
    fn check_sources(&self) -> Result<(), DataError> {
        let expected = match self.spec.kind {
            SparseKind::Libsvm => FileKind::Libsvm,
            SparseKind::Libffm => FileKind::Libffm,
            SparseKind::Criteo => FileKind::Criteo,
            SparseKind::TfRecord => FileKind::TfRecord,
            // A table's reader knows several kinds of files.
            SparseKind::Table | SparseKind::Clicks => return Ok(()),
        };
        let has_content = |file: &&PathBuf| file.metadata().is_ok_and(|about| about.len() > 0);
        for files in [&self.sources.train, &self.sources.test] {
            // Of several files some may be empty.
            if let Some(first) = files.iter().find(has_content).or(files.first()) {
                check_kind(first, self.spec.kind.name(), expected)?;
            }
        }
        Ok(())
    }

    /// Builds the cache at this path, unless another process does so first.
    fn build(&self, path: &Path, observer: &mut dyn OpenObserver) -> Result<RowStore, DataError> {
        self.check_sources()?;
        if let Some(dir) = path.parent() {
            make_private_dir(dir).map_err(DataError::io("create", dir))?;
        }
        let (what, name) = (self.what(), observer.name());
        let mut waiting = |holder: &str| {
            observer.report(OpenReport::Waiting { holder, what: &short_name(&what) })
        };
        let lock = path.with_extension("lock");
        let _lock = CacheLock::take(&lock, &name, LOCK_TIMEOUT, &mut waiting)?;
        match cache::open(path, &self.identity, &what, observer) {
            Ok(store) => return Ok(store),
            Err(UnusableCache::Interrupted) => return Err(DataError::Interrupted),
            Err(UnusableCache::Absent | UnusableCache::Bad(_)) => {}
        }
        self.note_earlier_cache(path, observer);
        let part = &*path.with_extension("part");
        let CacheRequest { spec, reader, sources, identity, .. } = self;
        let inputs = BuildInputs { spec, reader: *reader, sources, identity, part };
        let built = build(&inputs, observer)
            .and_then(|()| self.check_unchanged())
            .and_then(|()| fs::rename(part, path).map_err(DataError::io("rename", part)));
        match built {
            Ok(()) => {}
            // The next process that builds the cache continues it.
            Err(DataError::Interrupted) => return Err(DataError::Interrupted),
            Err(error) => {
                // If this fails too, the next process that builds the cache overwrites the file.
                let _ = fs::remove_file(part);
                return Err(error);
            }
        }
        let opened = cache::open(path, &self.identity, &what, observer);
        let store = opened.map_err(|unusable| {
            let what = match unusable {
                UnusableCache::Absent => "it vanished after it was built".into(),
                UnusableCache::Bad(why) => why,
                UnusableCache::Interrupted => return DataError::Interrupted,
            };
            DataError::Sparse { path: path.into(), what }
        })?;
        if store.rows() > 0 {
            self.note_cache(path, observer);
        }
        Ok(store)
    }

    /// Says where the rows are cached now, and how much space that takes.
    fn note_cache(&self, path: &Path, observer: &mut dyn OpenObserver) {
        let bytes = path.metadata().map_or(0, |about| about.len()) as f64;
        let size = if bytes < 1e6 {
            format!("{:.0} kB", (bytes / 1e3).ceil())
        } else {
            format!("{:.1} MB", bytes / 1e6)
        };
        let (what, place) = (self.what(), path.display());
        let what = short_name(&what);
        note(observer, &format!("the rows of {what} are cached in {place} ({size})"));
    }

    /// Mentions a cache that an earlier version left beside the data.
    fn note_earlier_cache(&self, path: &Path, observer: &mut dyn OpenObserver) {
        let (Some(first), Some(name)) = (self.sources.train.first(), path.file_name()) else {
            return;
        };
        let earlier = first.with_file_name(name);
        if earlier != path && earlier.exists() {
            let earlier = earlier.display();
            note(observer, &format!("{earlier} is not used any more and may be deleted"));
        }
    }

    /// What the rows come from, for messages.
    fn what(&self) -> PathBuf {
        match &self.spec.path {
            Some(path) if self.spec.kind != SparseKind::Clicks => path.clone(),
            _ => self.spec.kind.name().into(),
        }
    }

    fn check_unchanged(&self) -> Result<(), DataError> {
        if self.current_identity()? == self.identity {
            return Ok(());
        }
        let path = self.spec.path.clone().unwrap_or_default();
        Err(DataError::Sparse { path, what: "it changed while it was read; try again".into() })
    }

    /// The path of the cache.
    fn path(&self) -> Result<PathBuf, DataError> {
        match &self.spec.cache_dir {
            Some(dir) => Ok(dir.join(self.name())),
            None => Ok(row_cache_dir()?.join(self.name())),
        }
    }

    /// The name of the cache: a digest of the options and paths, but not of the files' sizes and
    /// times, so that a stale cache is replaced and not left behind.
    fn name(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(&self.options);
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
        let (train_rows, rows) = (store.train_rows, store.rows());
        let mut train = SparseRows::new(Arc::clone(&store), 0..train_rows);
        let mut test = SparseRows::new(store, train_rows..rows);
        if train.is_empty() {
            let skipped = match skipped {
                0 => String::new(),
                1 => " (1 bad row was skipped)".into(),
                many => format!(" ({many} bad rows were skipped)"),
            };
            return wrong(format!("there are no rows to train on{skipped}"));
        }
        if spec.kind != SparseKind::Clicks {
            if spec.test_path.is_none() {
                let held_out = spec.test_examples.unwrap_or(0);
                if held_out >= train.len() {
                    let all = train.len();
                    return wrong(format!(
                        "{held_out} of {all} rows cannot be held out; set data.hold_out to fewer"
                    ));
                }
                TrainTest { train, test, .. } = spec.hold_out(&train, held_out)?;
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
        Ok(TrainTest { origin, ..TrainTest::new(train, test) })
    }
}

impl SparseSpec {
    /// Holds rows out for tests, as [`split`](Self::split) says.
    ///
    /// # Errors
    /// If no row would be left to train on.
    pub fn hold_out(
        &self,
        rows: &SparseRows,
        test_rows: usize,
    ) -> Result<TrainTest<SparseRows>, DataError> {
        match self.split {
            // Nothing is held out, so rows need no new numbers.
            HoldOut::Stratified if test_rows > 0 => rows.hold_out(test_rows, self.seed),
            _ => rows.hold_out_last(test_rows),
        }
    }
}

/// The directory for cached rows, unless a job names another: `rows` in the
/// [cache directory](crate::cache_dir).
///
/// # Errors
/// If there is no cache directory.
pub fn row_cache_dir() -> Result<PathBuf, DataError> {
    let dir = cache_dir().map_err(|_| DataError::RowCache {
        what: "neither PACELINE_CACHE, XDG_CACHE_HOME nor HOME names a directory".into(),
    })?;
    Ok(dir.join("rows"))
}

fn note(observer: &mut dyn OpenObserver, text: &str) {
    // A request to stop takes effect at the next report of progress.
    let _ = observer.report(OpenReport::Note(text));
}

/// Names the key that moves the cache, if the cache cannot be written.
fn cache_error(error: DataError, cache: &Path) -> DataError {
    match &error {
        DataError::Io { path, .. } if is_part_of(path, cache) => {
            DataError::RowCache { what: error.to_string() }
        }
        _ => error,
    }
}

/// Whether a path is the cache's directory, above it, or one of the cache's files.
fn is_part_of(path: &Path, cache: &Path) -> bool {
    let stem = cache.file_stem().unwrap_or_default().as_encoded_bytes();
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let is_own = path.parent() == cache.parent() && name.starts_with(stem);
    is_own || cache.parent().is_some_and(|dir| dir.starts_with(path))
}
