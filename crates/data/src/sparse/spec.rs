//! Which sparse data is wanted: what a job says, before any file is opened.

use std::path::{Path, PathBuf};

use super::clicks::MIN_FEATURES;
use super::limits::{MAX_FEATURES, MAX_ROWS};
use crate::error::DataError;
use crate::on_bad::OnBad;

/// What kind of data it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparseKind {
    /// LIBSVM text.
    Libsvm,
    /// TFRecords of `tf.train.Example`.
    TfRecord,
    /// Criteo's logs.
    Criteo,
    /// Made up; see [`Clicks`](super::Clicks).
    Clicks,
}

impl SparseKind {
    /// Its name in a job.
    pub fn name(self) -> &'static str {
        match self {
            SparseKind::Libsvm => "libsvm",
            SparseKind::TfRecord => "tfrecord",
            SparseKind::Criteo => "criteo",
            SparseKind::Clicks => "clicks",
        }
    }
}

/// What the first feature is called in LIBSVM text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexBase {
    /// 1, unless a row for training or for testing has an index 0.
    #[default]
    Auto,
    /// 0.
    Zero,
    /// 1.
    One,
}

/// Sparse data, as a job asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparseSpec {
    /// What kind it is.
    pub kind: SparseKind,
    /// Rows to train on: a file, a directory, or a pattern such as `data/part-*.tfrecord`.
    /// Several files are read in the order of their names. Not for generated data.
    pub path: Option<PathBuf>,
    /// Rows to test on, likewise.
    pub test_path: Option<PathBuf>,
    /// How many features there are. None: as many as the greatest index needs, for LIBSVM and
    /// TFRecord; the other kinds must be told.
    pub features: Option<usize>,
    /// What to do about rows that cannot be read.
    pub on_bad: OnBad,
    /// What the first feature is called, for LIBSVM.
    pub index_base: IndexBase,
    /// How many rows to train on. Generated data has just as many; of files the first so many
    /// are taken, all if not given.
    pub train_examples: Option<usize>,
    /// How many rows to test on. Generated data has just as many; of files in `test_path` the
    /// first so many are taken; without a `test_path` the last so many rows of `path` are held
    /// out, none if not given.
    pub test_examples: Option<usize>,
    /// What generated rows are drawn from.
    pub seed: u64,
    /// Where caches of rows are kept. None: beside the data if that directory can be written
    /// to, else in the directory that [`cache_dir`](crate::cache_dir) names.
    pub cache_dir: Option<PathBuf>,
}

impl SparseSpec {
    /// Data of this kind, with everything else as it is unless a job says otherwise.
    pub fn new(kind: SparseKind) -> Self {
        SparseSpec {
            kind,
            path: None,
            test_path: None,
            features: None,
            on_bad: OnBad::Fail,
            index_base: IndexBase::Auto,
            train_examples: None,
            test_examples: None,
            seed: 0,
            cache_dir: None,
        }
    }

    /// Data of this kind in a file, a directory or the files of a pattern.
    pub fn at(kind: SparseKind, path: impl AsRef<Path>) -> Self {
        SparseSpec { path: Some(path.as_ref().into()), ..Self::new(kind) }
    }

    /// Looks for contradictions, so that nobody need ask later.
    pub(crate) fn check(&self) -> Result<(), DataError> {
        let wrong = |what: String| Err(DataError::SparseSpec { kind: self.kind.name(), what });
        if self.features.is_some_and(|features| !(1..=MAX_FEATURES).contains(&features)) {
            return wrong(format!("data.features must be from 1 to {MAX_FEATURES}"));
        }
        let made_up = self.kind == SparseKind::Clicks;
        if self.features.is_none() && (made_up || self.kind == SparseKind::Criteo) {
            return wrong("data.features must say how many features to hash into".into());
        }
        if made_up {
            if self.features.is_some_and(|features| features < MIN_FEATURES) {
                return wrong(format!("data.features must be at least {MIN_FEATURES}"));
            }
            let rows = self.train_examples.unwrap_or(0) as u64;
            if rows == 0 || rows.saturating_add(self.test_examples.unwrap_or(0) as u64) > MAX_ROWS {
                return wrong(format!("data.train_examples must be from 1 to {MAX_ROWS}"));
            }
        } else if self.path.is_none() {
            return wrong("data.path must name a file, a directory or a pattern".into());
        }
        Ok(())
    }
}
