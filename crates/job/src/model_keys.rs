//! The keys of `[model]`, and which models there are.

use paceline_model::EntryPolicy;

use super::key_spec::{KeySpec, ValueKind, key, optional};
use super::layer_path::LAYERS;

/// The kinds that are cached as sparse rows. Tables feed dense models, too.
pub(super) const CACHED_ROWS: &[&str] =
    &["clicks", "libsvm", "libffm", "tfrecord", "criteo", "table"];
/// Those of them whose rows have no fields.
pub(super) const NO_FIELDS: &[&str] = &["libsvm", "tfrecord"];
/// The models that take sparse rows.
pub(super) const SPARSE: &[&str] =
    &["logistic", "fm", "ffm", "deepfm", "wide-deep", "sparse-softmax"];
/// Those of them that tell two classes apart.
pub(super) const TWO_CLASS: &[&str] = &["logistic", "fm", "ffm", "deepfm", "wide-deep"];
/// Those of them that have vectors.
pub(super) const FACTORS: &[&str] = &["fm", "ffm", "deepfm", "wide-deep"];
/// Models whose features have numbers once they occur.
const ENTRIES: &[&str] = &["fm", "ffm", "deepfm", "wide-deep", "sparse-softmax"];
/// Those of them that need to know the fields of a row's features.
pub(super) const WITH_FIELDS: &[&str] = &["ffm", "deepfm", "wide-deep"];
/// Those of them that have a perceptron.
pub(super) const DEEP: &[&str] = &["deepfm", "wide-deep"];
/// The numbers of a table are inputs of the perceptron themselves.
pub(super) const DENSE_NUMBERS: &str = "inputs";
/// Numbers of a vector.
pub(super) const RANK: ValueKind = ValueKind::Whole { min: 1, max: 1_024 };
/// Updates before a feature has numbers.
const COUNTS: ValueKind = ValueKind::Whole { min: 1, max: EntryPolicy::MAX_COUNT as u64 };
/// Steps after which numbers are dropped.
const PERIOD: ValueKind = ValueKind::Whole { min: 1, max: i64::MAX as u64 };
/// The key that most defaults depend on.
pub(super) const MODEL: &str = "model.kind";
/// The kinds of colour pictures.
pub(super) const PICTURES: &[&str] = &["images", "fake-images"];

/// Every key of the section but those of layers.
pub(super) fn model_keys() -> Vec<KeySpec> {
    let kind = "data.kind";
    let models = ValueKind::Word(&[
        "softmax",
        "logistic",
        "fm",
        "ffm",
        "deepfm",
        "wide-deep",
        "sparse-softmax",
        "lenet",
        "alexnet",
        "network",
    ]);
    let networks: &[&str] = &["lenet", "alexnet", "network"];
    let init = "how the initial weights are spread (docs/models.md)";
    let inits = ValueKind::Word(&["glorot", "he", "pytorch"]);
    let rank = "length of a feature's vector; with ffm a feature has one vector for each field";
    let hidden = "outputs of each hidden layer of the perceptron";
    let numbers = "how the perceptron uses the numbers of a table: as inputs, or as factors of \
        the vectors of their columns";
    let dense = "update every parameter at every step, not only those that a batch touches";
    let min_count = "update at which a feature gets its numbers, counting only updates whose \
        batches contain it; until then the feature counts as zero";
    let evict_after = "number of steps after which the numbers of features that did not occur in \
        them are dropped; by default none are dropped";
    vec![
        key(MODEL, models, "\"softmax\"", "model to train")
            .default_when("\"network\"", &[(LAYERS, &[])])
            .default_when("\"softmax\"", &[("data.inputs", &[])])
            .default_when("\"logistic\"", &[(kind, CACHED_ROWS)])
            .default_when("\"alexnet\"", &[(kind, PICTURES)]),
        key("model.init", inits, "\"glorot\"", init).with(MODEL, networks),
        key(
            "model.dropout",
            ValueKind::Fraction,
            "0.5",
            "fraction of values that dropout sets to zero",
        )
        .default_when("0.0", &[(MODEL, DEEP)])
        .with(MODEL, &["alexnet", "deepfm", "wide-deep"]),
        key("model.dense", ValueKind::Flag, "false", dense).with(MODEL, &["logistic"]),
        key("model.rank", RANK, "8", rank)
            .default_when("4", &[(MODEL, &["ffm"])])
            .with(MODEL, FACTORS),
        key("model.min_count", COUNTS, "1", min_count).with(MODEL, ENTRIES),
        optional("model.evict_after", PERIOD, evict_after).with(MODEL, ENTRIES),
        key("model.numbers", ValueKind::Word(&[DENSE_NUMBERS, "vectors"]), "\"inputs\"", numbers)
            .with(MODEL, DEEP)
            .with(kind, &["table"]),
        key("model.hidden", ValueKind::Sizes { max: 65_536 }, "[64, 32]", hidden).with(MODEL, DEEP),
    ]
}
