//! Checks of `[data]`.

use std::path::PathBuf;

use paceline_data::{HoldOut, IndexBase, OnBad, SparseKind, SparseSpec};

use paceline_table::{FormatChoice, TableSpec};

use super::check::JobChecker;
use super::plan::DataKind;

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
            "tfrecord" => Some(SparseKind::TfRecord),
            "criteo" => Some(SparseKind::Criteo),
            "clicks" => Some(SparseKind::Clicks),
            _ => None,
        };
        if let Some(kind) = rows {
            return DataKind::Rows(self.rows(kind, path));
        }
        let count = |checker: &mut Self, key: &str| checker.whole(key) as usize;
        match kind.as_str() {
            "table" => {
                let path = path.unwrap_or_else(|| self.needs_path(&kind));
                DataKind::Table(self.table(path))
            }
            "fake-images" => DataKind::FakeImages {
                size: count(self, "data.size"),
                classes: count(self, "data.classes"),
                train_examples: count(self, "data.train_examples"),
                test_examples: count(self, "data.test_examples"),
            },
            "images" => DataKind::Pictures {
                path: path.unwrap_or_else(|| self.needs_path(&kind)),
                size: count(self, "data.size"),
                hold_out: self.optional("data.hold_out", count),
                split: self.split(),
            },
            "mnist" => DataKind::Mnist { path },
            "fashion-mnist" => DataKind::FashionMnist { path },
            _ => DataKind::Digits { train_examples, test_examples },
        }
    }

    fn rows(&mut self, kind: SparseKind, path: Option<PathBuf>) -> SparseSpec {
        let is_generated = kind == SparseKind::Clicks;
        let default_features =
            matches!(kind, SparseKind::Clicks | SparseKind::Criteo).then_some(CRITEO_FEATURES);
        let count = |checker: &mut Self, key: &str| checker.whole(key) as usize;
        let spec = SparseSpec {
            path,
            test_path: self.optional("data.test_path", Self::path),
            features: self.optional("data.features", count).or(default_features),
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
                self.optional("data.hold_out", count)
            },
            split: self.split(),
            seed: self.whole("seed"),
            cache_dir: self.optional("data.cache", Self::path),
            ..SparseSpec::new(kind)
        };
        if !is_generated && spec.path.is_none() {
            self.needs_path(kind.name());
        }
        spec
    }

    fn table(&mut self, path: PathBuf) -> TableSpec {
        let count = |checker: &mut Self, key: &str| checker.whole(key) as usize;
        let delimiter = self.optional("data.delimiter", Self::text);
        TableSpec {
            path,
            test_path: self.optional("data.test_path", Self::path),
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
