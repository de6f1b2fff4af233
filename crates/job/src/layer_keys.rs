//! The keys of a layer, for the table of all keys.

use super::condition::KeyCondition;
use super::key_spec::{KeySpec, ValueKind, key, optional};

/// A layer's kind.
pub(super) const LAYER_KIND: &str = "model.layers.#.kind";
/// The size of a dense layer that follows from the data.
pub(super) const CLASSES: &str = "classes";
/// Sizes of layers. The check of the network's memory refuses those that are too large.
const SIZE: ValueKind = ValueKind::Whole { min: 1, max: MOST };
const MOST: u64 = i64::MAX as u64;

/// Every key of a layer.
pub(super) fn layer_keys() -> Vec<KeySpec> {
    let kinds = ValueKind::Word(&[
        "dense",
        "conv",
        "max-pool",
        "average-pool",
        "adaptive-average-pool",
        "flatten",
        "relu",
        "tanh",
        "dropout",
    ]);
    let with_size: &[&str] =
        &["dense", "conv", "max-pool", "average-pool", "adaptive-average-pool"];
    let windows: &[&str] = &["conv", "max-pool", "average-pool"];
    let name = "name of the layer, and of its tensors in the model file; defaults to its number, \
                as in `torch.nn.Sequential`";
    let size = "outputs of a dense layer, \"classes\" for as many as the data has classes; rows \
                and columns of a convolution's kernel, of the windows of pooling, or of the \
                output of adaptive pooling";
    let sizes = ValueKind::WholeOr { min: 1, max: MOST, word: CLASSES };
    let stride = "distance between two windows; defaults to 1 for a convolution and to the size \
                  for pooling";
    let padding = "zeros around the image, on each side; less than the size, and at most half of \
                   it for pooling";
    let from_0 = ValueKind::Whole { min: 0, max: MOST };
    let groups = "groups of channels: each group of outputs sees its own group of inputs";
    let rate = "probability with which training sets a value to zero";
    let at = |name: &str| format!("model.layers.#.{name}");
    let keys = vec![
        optional(LAYER_KIND, kinds, "what the layer does (docs/models.md); required"),
        optional(&at("name"), ValueKind::Name, name),
        optional(&at("channels"), SIZE, "channels of the output; required")
            .with(LAYER_KIND, &["conv"]),
        optional(&at("size"), sizes, size).with(LAYER_KIND, with_size),
        optional(&at("stride"), SIZE, stride).with(LAYER_KIND, windows),
        key(&at("padding"), from_0, "0", padding).with(LAYER_KIND, windows),
        key(&at("groups"), SIZE, "1", groups).with(LAYER_KIND, &["conv"]),
        key(&at("rate"), ValueKind::Fraction, "0.5", rate).with(LAYER_KIND, &["dropout"]),
    ];
    let network = || KeyCondition::Has { key: "model.kind".into(), values: &["network"] };
    keys.into_iter().map(|key| key.when_first(network())).collect()
}
