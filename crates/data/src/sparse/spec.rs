//! The specification of sparse data: what a job says, before any file is opened.

use std::path::{Path, PathBuf};

use paceline_generate::{Clicks, MIN_FEATURES};

use super::example::FeatureNames;
use super::label_rule::LabelRule;
use super::limits::{MAX_FEATURES, MAX_ROWS};
use crate::error::DataError;
use crate::hold_out::HoldOut;
use crate::on_bad::OnBad;

/// The kind of sparse data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparseKind {
    /// LIBSVM text.
    Libsvm,
    /// LIBFFM text: LIBSVM text in which each entry has a field.
    Libffm,
    /// TFRecords of `tf.train.Example`.
    TfRecord,
    /// Criteo's logs.
    Criteo,
    /// Generated; see [`Clicks`](super::Clicks).
    Clicks,
    /// Tables, which a [`RowReader`](super::RowReader) of another crate reads.
    Table,
}

impl SparseKind {
    /// Its name in a job.
    pub fn name(self) -> &'static str {
        match self {
            SparseKind::Libsvm => "libsvm",
            SparseKind::Libffm => "libffm",
            SparseKind::TfRecord => "tfrecord",
            SparseKind::Criteo => "criteo",
            SparseKind::Clicks => "clicks",
            SparseKind::Table => "table",
        }
    }

    /// Whether the keys of such rows have fields.
    pub fn has_fields(self) -> bool {
        match self {
            Self::Libffm | Self::Criteo | Self::Clicks | Self::Table => true,
            Self::Libsvm | Self::TfRecord => false,
        }
    }
}

/// The index of the first feature in LIBSVM text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexBase {
    /// 1, unless a row of the training or test set has an index 0.
    #[default]
    Auto,
    /// 0.
    Zero,
    /// 1.
    One,
}

/// The specification of sparse data.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseSpec {
    /// The kind of data.
    pub kind: SparseKind,
    /// The training set: a file, a directory, or a pattern such as `data/part-*.tfrecord`. Several
    /// files are read in the order of their names. Not for generated data.
    pub path: Option<PathBuf>,
    /// The test set, likewise.
    pub test_path: Option<PathBuf>,
    /// The number of features. `None` means as many as the greatest index needs, and is possible
    /// for LIBSVM, LIBFFM and TFRecord only.
    pub features: Option<usize>,
    /// Whether the field of each key is stored too, for models that use fields. Rows without are
    /// smaller, and are cached apart.
    pub with_fields: bool,
    /// The most fields of LIBFFM text, if fields are stored: a row with a field that is not below
    /// this number is bad.
    pub most_fields: usize,
    /// The share of the variance of generated scores that is due to pairs of values.
    pub interactions: f64,
    /// What to do about bad rows.
    pub on_bad: OnBad,
    /// The index of the first feature, for LIBSVM.
    pub index_base: IndexBase,
    /// The names of the features of TFRecords.
    pub feature_names: FeatureNames,
    /// Which labels rows have, for LIBSVM and TFRecords.
    pub labels: LabelRule,
    /// The number of training rows to generate, or to use from the start of `path`. `None` uses all
    /// rows of the files.
    pub train_examples: Option<usize>,
    /// The number of test rows to generate, to use from the start of `test_path` or, without a
    /// `test_path`, to hold out from `path`. `None` uses all of `test_path` and holds out nothing.
    pub test_examples: Option<usize>,
    /// Which rows are held out.
    pub split: HoldOut,
    /// The seed of generated and of held-out rows.
    pub seed: u64,
    /// The directory for caches of rows. `None` means [`row_cache_dir`](super::row_cache_dir).
    pub cache_dir: Option<PathBuf>,
}

impl SparseSpec {
    /// The most fields of LIBFFM text, unless a job says more: entries of a field-aware model are
    /// as wide as the greatest field demands, so one wrong number would cost much memory.
    pub const MOST_FIELDS: usize = 256;

    /// Data of this kind, with the defaults of a job.
    pub fn new(kind: SparseKind) -> Self {
        SparseSpec {
            kind,
            path: None,
            test_path: None,
            features: None,
            with_fields: false,
            most_fields: Self::MOST_FIELDS,
            interactions: 0.0,
            on_bad: OnBad::Fail,
            index_base: IndexBase::Auto,
            feature_names: FeatureNames::default(),
            labels: LabelRule::Binary,
            train_examples: None,
            test_examples: None,
            split: HoldOut::Stratified,
            seed: 0,
            cache_dir: None,
        }
    }

    /// Data of this kind in a file, a directory or the files of a pattern.
    pub fn at(kind: SparseKind, path: impl AsRef<Path>) -> Self {
        SparseSpec { path: Some(path.as_ref().into()), ..Self::new(kind) }
    }

    /// The generator of [`SparseKind::Clicks`].
    ///
    /// # Panics
    /// If the number of features is not set or too small, or the share of interactions is not from
    /// 0 up to, but not including, 1.
    pub fn clicks(&self) -> Clicks {
        let clicks = Clicks::new(self.features.unwrap_or_default(), self.seed);
        if self.interactions == 0.0 { clicks } else { clicks.with_interactions(self.interactions) }
    }

    /// Checks for contradictions and missing values.
    pub(crate) fn check(&self) -> Result<(), DataError> {
        let wrong = |what: String| Err(DataError::SparseSpec { kind: self.kind.name(), what });
        if self.features.is_some_and(|features| !(1..=MAX_FEATURES).contains(&features)) {
            return wrong(format!("data.features must be from 1 to {MAX_FEATURES}"));
        }
        let generated = self.kind == SparseKind::Clicks;
        if self.features.is_none() && (generated || self.kind == SparseKind::Criteo) {
            return wrong("data.features must say how many features to hash into".into());
        }
        if self.with_fields && !self.kind.has_fields() {
            return wrong("its rows have no fields, which the model needs; use libffm".into());
        }
        if generated {
            if !(0.0..1.0).contains(&self.interactions) {
                return wrong("data.interactions must be from 0 up to, not including, 1".into());
            }
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
