//! Checks of `[model]` and its layers.

use paceline_model::{EntryPolicy, Initialisation, Layer, LayerKind, Windows};

use super::check::JobChecker;
use super::factor_plan::FactorPlan;
use super::layer_keys::CLASSES;
use super::layer_path::LAYERS;
use super::model_keys::{CACHED_ROWS, DEEP, NO_FIELDS, SPARSE, WITH_FIELDS};
use super::network_plan::{NetworkPlan, PlannedLayer};
use super::plan::ModelKind;
use super::problem::Problem;
use super::schema::{DATA_KINDS, ROWS};

/// Kinds of layers that other systems have, and what to do here.
const OTHER_KINDS: [(&str, &str); 5] = [
    ("linear", "write \"dense\""),
    ("fc", "write \"dense\""),
    ("softmax", "leave it out: the loss includes softmax, and a test needs only the scores"),
    ("batchnorm", NO_BATCH_NORM),
    ("batchnorm2d", NO_BATCH_NORM),
];
const NO_BATCH_NORM: &str = "leave it out: with batch norm, a step of several workers would differ \
     from the same step of one worker (docs/decisions/no-batch-norm.md)";

impl JobChecker<'_> {
    pub(super) fn model(&mut self) -> ModelKind {
        let kind = self.text("model.kind");
        self.check_fit(&kind);
        let dropout = self.number("model.dropout") as f32;
        let init = match self.text("model.init").as_str() {
            "he" => Initialisation::He,
            "pytorch" => Initialisation::PyTorch,
            _ => Initialisation::Glorot,
        };
        match kind.as_str() {
            "logistic" => ModelKind::Logistic { dense: self.flag("model.dense") },
            "fm" => self.factors("fm"),
            "ffm" => self.factors("ffm"),
            "deepfm" => self.factors("deepfm"),
            "wide-deep" => self.factors("wide-deep"),
            FactorPlan::SOFTMAX => self.factors(FactorPlan::SOFTMAX),
            "lenet" => ModelKind::Network(NetworkPlan::lenet(init)),
            "alexnet" => ModelKind::Network(NetworkPlan::alexnet(init, dropout)),
            NetworkPlan::OWN => ModelKind::Network(NetworkPlan::of_layers(self.layers(), init)),
            _ => ModelKind::Softmax,
        }
    }

    fn factors(&mut self, name: &'static str) -> ModelKind {
        let (rank, hidden) = (self.whole("model.rank") as usize, self.sizes("model.hidden"));
        let entries = EntryPolicy {
            min_count: self.whole("model.min_count") as u32,
            evict_after: self.optional("model.evict_after", Self::whole),
            max_entries: None,
        };
        // Other models take no such key; its default says nothing about them.
        let is_deep = DEEP.contains(&name);
        let dropout = if is_deep { self.number("model.dropout") as f32 } else { 0.0 };
        ModelKind::Factors(FactorPlan { name, rank, hidden, entries, dropout })
    }

    /// Checks that the model can train on the data.
    fn check_fit(&mut self, model: &str) {
        let data = self.job.word("data.kind");
        let is_dense = self.job.entries.contains_key("data.inputs");
        let fits = |data: &str| match model {
            _ if WITH_FIELDS.contains(&model) => {
                CACHED_ROWS.contains(&data) && !NO_FIELDS.contains(&data)
            }
            _ if SPARSE.contains(&model) => CACHED_ROWS.contains(&data) && !is_dense,
            "lenet" => ["digits", "mnist", "fashion-mnist"].contains(&data),
            "alexnet" => ["fake-images", "images"].contains(&data),
            // LIBSVM rows with few features are vectors, too.
            _ => !ROWS.contains(&data) || data == "libsvm" || (data == "tfrecord" && is_dense),
        };
        if !model.is_empty() && DATA_KINDS.contains(&data.as_str()) && !fits(&data) {
            let takes = DATA_KINDS.iter().copied().filter(|data| fits(data));
            let takes = takes.collect::<Vec<_>>().join(", ");
            let message = format!(
                "is {data:?}, but model.kind is {model:?}, which takes {takes}; use one of these, \
                 or leave model.kind out for a model that fits the data"
            );
            self.problems.push(self.job.problem("data.kind", message));
        }
    }

    /// The layers of a network. Those after a gap are refused.
    fn layers(&mut self) -> Vec<PlannedLayer> {
        let given = self.job.layers();
        let count = (0..).take_while(|layer| given.contains(layer)).count();
        let is_refused = self.problems.iter().any(|problem| problem.message.contains(LAYERS));
        if given.is_empty() && !is_refused {
            let message = format!(
                "is \"network\", which needs layers: list them in {LAYERS}, or use lenet or alexnet"
            );
            self.problems.push(self.job.problem("model.kind", message));
        }
        for layer in given.into_iter().filter(|&layer| layer > count && !is_refused) {
            let message =
                format!("{LAYERS}.{layer} is set, but there is no {LAYERS}.{count} before it");
            let origin = self.job.origin_of_layer(layer);
            self.problems.push(Problem { origin, message });
        }
        (0..count).filter_map(|layer| self.layer(layer)).collect()
    }

    /// One layer, or a problem.
    fn layer(&mut self, index: usize) -> Option<PlannedLayer> {
        let at = |name: &str| format!("{LAYERS}.{index}.{name}");
        if !self.job.entries.contains_key(&at("kind")) {
            let origin = self.job.origin_of_layer(index);
            let message = format!("{LAYERS}.{index} has no kind, such as kind = \"dense\"");
            self.problems.push(Problem { origin, message });
            return None;
        }
        let word = self.layer_kind(&at("kind"))?;
        let has_class_size = word == "dense" && self.job.word(&at("size")) == CLASSES;
        let kind = match word.as_str() {
            "dense" if has_class_size => LayerKind::Dense { outputs: 1 },
            "dense" => LayerKind::Dense { outputs: self.required(index, &word, "size") },
            "conv" => LayerKind::Conv {
                outputs: self.required(index, &word, "channels"),
                kernel: [self.required(index, &word, "size"); 2],
                stride: [self.optional(&at("stride"), Self::whole).unwrap_or(1) as usize; 2],
                padding: [self.whole(&at("padding")) as usize; 2],
                groups: self.whole(&at("groups")) as usize,
            },
            "max-pool" => LayerKind::MaxPool(self.windows(index, &word)),
            "average-pool" => LayerKind::AveragePool(self.windows(index, &word)),
            "adaptive-average-pool" => {
                LayerKind::AdaptiveAveragePool { to: [self.required(index, &word, "size"); 2] }
            }
            "flatten" => LayerKind::Flatten,
            "relu" => LayerKind::Relu,
            "tanh" => LayerKind::Tanh,
            "dropout" => LayerKind::Dropout { rate: self.number(&at("rate")) as f32 },
            _ => return None,
        };
        let name = self.optional(&at("name"), Self::text);
        let layer = Layer::new(&name.unwrap_or_else(|| index.to_string()), kind);
        Some(PlannedLayer { layer, has_class_size })
    }

    /// The kind of a layer, or a problem.
    fn layer_kind(&mut self, path: &str) -> Option<String> {
        let plain = self.job.word(path).to_lowercase().replace(['-', '_'], "");
        if let Some((_, remedy)) = OTHER_KINDS.iter().find(|(kind, _)| *kind == plain) {
            let message =
                format!("is {:?}, which is not a layer here; {remedy}", self.job.word(path));
            self.problems.push(self.job.problem(path, message));
            return None;
        }
        Some(self.text(path))
    }

    /// The windows of a pooling layer.
    fn windows(&mut self, index: usize, kind: &str) -> Windows {
        let at = |name: &str| format!("{LAYERS}.{index}.{name}");
        let size = self.required(index, kind, "size");
        let stride = self.optional(&at("stride"), Self::whole).map_or(size, |n| n as usize);
        let padding = self.whole(&at("padding")) as usize;
        Windows { kernel: [size; 2], stride: [stride; 2], padding: [padding; 2] }
    }

    /// A number without which a layer of this kind has no shape.
    fn required(&mut self, index: usize, kind: &str, name: &str) -> usize {
        let path = format!("{LAYERS}.{index}.{name}");
        if !self.job.entries.contains_key(&path) {
            if self.problems.iter().any(|problem| problem.message.starts_with(&path)) {
                return 1; // It is set, but to a value that no key accepts.
            }
            let message = format!("{LAYERS}.{index} ({kind}) has no {name}, which it needs");
            let origin = self.job.origin_of_layer(index);
            self.problems.push(Problem { origin, message });
            return 1;
        }
        if self.job.word(&path) == CLASSES {
            let message = format!("is {CLASSES:?}, which only a dense layer takes; use a number");
            self.problems.push(self.job.problem(&path, message));
            return 1;
        }
        let size = if kind == "dense" { self.whole(&path) } else { self.whole_alone(&path) };
        size as usize
    }
}
