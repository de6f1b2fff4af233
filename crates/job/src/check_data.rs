//! Checks of `[data]`.

use std::path::PathBuf;

use paceline_arrays::{NumpySpec, RecordSpec};
use paceline_data::sparse::{FeatureNames, LabelRule};
use paceline_data::{HoldOut, IndexBase, OnBad, SparseKind, SparseSpec};

use paceline_table::{FormatChoice, TableSpec};

use super::check::JobChecker;
use super::factor_plan::FactorPlan;
use super::model_keys::{DEEP, DENSE_NUMBERS, SPARSE, WITH_FIELDS};
use super::plan::{DataKind, ValidationPlan};
use super::value::JobValue;

/// Digits are held in memory: 7.8 GB at most.
const MOST_DIGITS: usize = 10_000_000;
/// The number of features in the click logs of the reference systems.
const CRITEO_FEATURES: usize = 33_762_578;

impl JobChecker<'_> {
    pub(super) fn data(&mut self) -> DataKind {
        let kind = self.text("data.kind");
        let train_examples = self.whole("data.train_examples") as usize;
        let test_examples = self.whole("data.test_examples") as usize;
        if kind == "digits" && train_examples.max(test_examples) > MOST_DIGITS {
            let message =
                format!("asks for more than {MOST_DIGITS} digits, which are held in memory");
            self.problems.push(self.job.problem("data.train_examples", message));
        }
        let path = self.optional("data.path", Self::path);
        let rows = match kind.as_str() {
            "libsvm" => Some(SparseKind::Libsvm),
            "libffm" => Some(SparseKind::Libffm),
            "tfrecord" => Some(SparseKind::TfRecord),
            "criteo" => Some(SparseKind::Criteo),
            "clicks" => Some(SparseKind::Clicks),
            _ => None,
        };
        let is_dense = self.job.entries.contains_key("data.inputs");
        if let Some(kind) = rows
            && !(kind == SparseKind::TfRecord && is_dense)
        {
            let mut spec = self.rows(kind, path);
            // Other sparse models have two classes.
            let model = self.job.word("model.kind");
            let is_sparse = SPARSE.contains(&model.as_str());
            if kind == SparseKind::Libsvm && (!is_sparse || model == FactorPlan::SOFTMAX) {
                spec.labels = LabelRule::Classes;
            }
            if kind == SparseKind::Libsvm && !is_sparse {
                return DataKind::DenseRows(spec);
            }
            return DataKind::Rows(spec);
        }
        let count = |checker: &mut Self, key: &str| checker.whole(key) as usize;
        match kind.as_str() {
            "table" => {
                let path = path.unwrap_or_else(|| self.needs_path(&kind));
                DataKind::Table(self.table(path))
            }
            "numpy" => DataKind::Numpy(self.numpy(path)),
            "tfrecord" => DataKind::Records(self.records(path)),
            "fake-images" => DataKind::FakeImages {
                size: count(self, "data.size"),
                classes: count(self, "data.classes"),
                train_examples: count(self, "data.train_examples"),
                test_examples: count(self, "data.test_examples"),
            },
            "images" => DataKind::Pictures {
                path: path.unwrap_or_else(|| self.needs_path(&kind)),
                size: count(self, "data.size"),
                hold_out: self.hold_out(),
                split: self.split(),
            },
            "mnist" => DataKind::Mnist { path },
            "fashion-mnist" => DataKind::FashionMnist { path },
            _ => DataKind::Digits { train_examples, test_examples },
        }
    }

    /// Whether the model needs to know the fields of a row's features.
    fn uses_fields(&self) -> bool {
        WITH_FIELDS.contains(&self.job.word("model.kind").as_str())
    }

    /// Whether the model takes the numbers of a table as they are.
    fn uses_number_fields(&mut self) -> bool {
        let is_deep = DEEP.contains(&self.job.word("model.kind").as_str());
        is_deep && self.text("model.numbers") == DENSE_NUMBERS
    }

    fn rows(&mut self, kind: SparseKind, path: Option<PathBuf>) -> SparseSpec {
        let is_generated = kind == SparseKind::Clicks;
        let default_features =
            matches!(kind, SparseKind::Clicks | SparseKind::Criteo).then_some(CRITEO_FEATURES);
        let count = |checker: &mut Self, key: &str| checker.whole(key) as usize;
        let spec = SparseSpec {
            path,
            test_path: self.test_path(),
            features: self.optional("data.features", count).or(default_features),
            interactions: self.number("data.interactions"),
            with_fields: self.uses_fields(),
            most_fields: count(self, "data.fields"),
            on_bad: self.on_bad(),
            index_base: match self.text("data.index_base").as_str() {
                "zero" => IndexBase::Zero,
                "one" => IndexBase::One,
                _ => IndexBase::Auto,
            },
            train_examples: is_generated.then(|| count(self, "data.train_examples")),
            test_examples: if is_generated {
                Some(count(self, "data.test_examples"))
            } else {
                self.hold_out()
            },
            split: self.split(),
            feature_names: self.feature_names(),
            seed: self.whole("seed"),
            cache_dir: self.optional("data.cache", Self::path),
            ..SparseSpec::new(kind)
        };
        if !is_generated && spec.path.is_none() {
            self.needs_path(kind.name());
        }
        spec
    }

    /// Whether a key that takes a share or a path has a path.
    fn is_path(&self, key: &str) -> bool {
        let value = self.job.entries.get(key).map(|entry| &entry.value);
        matches!(value, Some(JobValue::Text(_)))
    }

    /// The share of the examples held out for tests, if `data.test` is a share.
    pub(super) fn test_share(&mut self) -> Option<f64> {
        if !self.is_path("data.test") {
            return self.optional("data.test", Self::number);
        }
        if self.text("data.kind") == "images" {
            let message = "is a path, but a collection of pictures has its test set in a folder \
                           of its own; set a share, such as 0.1";
            self.problems.push(self.job.problem("data.test", message));
        }
        None
    }

    /// The examples to test on, if `data.test_path` or `data.test` names them.
    fn test_path(&mut self) -> Option<PathBuf> {
        let named = self.optional("data.test_path", Self::path);
        named.or_else(|| self.is_path("data.test").then(|| self.path("data.test")))
    }

    /// The examples that tests during training use, if the job sets them.
    pub(super) fn validation(&mut self) -> Option<ValidationPlan> {
        let key = "data.validation";
        if !self.is_path(key) {
            return self.optional(key, Self::number).map(ValidationPlan::Share);
        }
        let kind = self.text("data.kind");
        let complaint = match kind.as_str() {
            "libsvm" if self.text("data.index_base") == "auto" => Some(
                "names rows of their own, whose first index need not be that of the training \
                 rows; set data.index_base = \"zero\" or \"one\""
                    .to_owned(),
            ),
            "libsvm" | "libffm" | "tfrecord" | "criteo" => None,
            kind => Some(format!("is a path, but data.kind is {kind:?}; set a share, such as 0.1")),
        };
        self.problems.extend(complaint.map(|complaint| self.job.problem(key, complaint)));
        Some(ValidationPlan::Rows(self.path(key)))
    }

    fn table(&mut self, path: PathBuf) -> TableSpec {
        let count = |checker: &mut Self, key: &str| checker.whole(key) as usize;
        let delimiter = self.optional("data.delimiter", Self::text);
        TableSpec {
            path,
            test_path: self.test_path(),
            format: FormatChoice {
                delimiter: delimiter.map(|word| match word.as_str() {
                    "tab" => b'\t',
                    "semicolon" => b';',
                    "pipe" => b'|',
                    "space" => b' ',
                    _ => b',',
                }),
                header: self.optional("data.header", Self::flag),
                without_quotes: !self.flag("data.quotes"),
            },
            columns: self.columns(),
            crosses: self.crosses(),
            bits: self.whole("data.bits") as u32,
            with_fields: self.uses_fields(),
            number_fields: self.uses_number_fields(),
            on_bad: self.on_bad(),
            hold_out: self.optional("data.hold_out", count),
            split: self.split(),
            seed: self.whole("seed"),
            cache_dir: self.optional("data.cache", Self::path),
        }
    }

    fn crosses(&mut self) -> Vec<Vec<String>> {
        let crosses = self.optional("data.cross", Self::text_lists).unwrap_or_default();
        if let Some(short) = crosses.iter().find(|cross| cross.len() < 2) {
            let message = format!("has the cross {short:?}, but a cross has at least two columns");
            self.problems.push(self.job.problem("data.cross", message));
        }
        crosses
    }

    fn numpy(&mut self, path: Option<PathBuf>) -> NumpySpec {
        let path = path.unwrap_or_else(|| self.needs_path("numpy"));
        NumpySpec {
            test_path: self.test_path(),
            inputs: self.optional("data.inputs", Self::text),
            labels: self.optional("data.labels", Self::text),
            hold_out: self.hold_out(),
            split: self.split(),
            seed: self.whole("seed"),
            ..NumpySpec::at(path)
        }
    }

    fn records(&mut self, path: Option<PathBuf>) -> RecordSpec {
        RecordSpec {
            path: path.unwrap_or_else(|| self.needs_path("tfrecord")),
            test_path: self.test_path(),
            inputs: self.text("data.inputs"),
            labels: self.optional("data.labels", Self::text).unwrap_or_else(|| "label".into()),
            size: self.whole("data.size") as usize,
            hold_out: self.hold_out(),
            split: self.split(),
            seed: self.whole("seed"),
            on_bad: self.on_bad(),
        }
    }

    /// The names of the features of sparse TFRecords.
    fn feature_names(&mut self) -> FeatureNames {
        let names = FeatureNames::default();
        FeatureNames {
            label: self.optional("data.labels", Self::text).unwrap_or(names.label),
            index: self.optional("data.indices", Self::text).unwrap_or(names.index),
            value: self.optional("data.values", Self::text).unwrap_or(names.value),
        }
    }

    fn hold_out(&mut self) -> Option<usize> {
        self.optional("data.hold_out", |checker, key| checker.whole(key) as usize)
    }

    fn split(&mut self) -> HoldOut {
        match self.text("data.split").as_str() {
            "plain" => HoldOut::Plain,
            _ => HoldOut::Stratified,
        }
    }

    fn needs_path(&mut self, kind: &str) -> PathBuf {
        let message = format!("is {kind:?}, which needs data.path");
        self.problems.push(self.job.problem("data.kind", message));
        PathBuf::new()
    }

    pub(super) fn on_bad(&mut self) -> OnBad {
        match self.text("data.on_bad").as_str() {
            "skip" => OnBad::Skip,
            _ => OnBad::Fail,
        }
    }
}
