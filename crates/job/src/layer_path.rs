//! The keys of layers. `model.layers.3.size` is the key `model.layers.#.size` of layer 3: the
//! schema describes the keys of all layers once.

use std::borrow::Cow;

use super::column_path::{COLUMNS, split_column};

/// The list of layers.
pub(super) const LAYERS: &str = "model.layers";
/// The most layers of a network; more are a mistake.
pub(super) const MOST_LAYERS: usize = 1000;

/// The layer whose key this is, from 0, and the part of the path after its number.
fn split(path: &str) -> Option<(usize, &str)> {
    let rest = path.strip_prefix(LAYERS)?.strip_prefix('.')?;
    let (number, rest) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    let layer: usize = number.parse().ok().filter(|&layer| layer < MOST_LAYERS)?;
    // One layer has one path.
    (layer.to_string() == number).then_some((layer, rest))
}

/// The layer whose key this is, from 0.
pub(super) fn layer_of(path: &str) -> Option<usize> {
    split(path).map(|(layer, _)| layer)
}

/// The layer or the column whose key this is, as the path has it.
pub(super) fn place_of(path: &str) -> Option<Cow<'_, str>> {
    let layer = layer_of(path).map(|layer| Cow::Owned(layer.to_string()));
    layer.or_else(|| split_column(path).map(|(column, _)| Cow::Borrowed(column)))
}

/// The path as the schema has it.
pub(super) fn pattern_of(path: &str) -> Cow<'_, str> {
    match (split(path), split_column(path)) {
        (Some((_, rest)), _) => Cow::Owned(format!("{LAYERS}.#{rest}")),
        (_, Some((_, rest))) => Cow::Owned(format!("{COLUMNS}.#{rest}")),
        _ if path.contains('#') => Cow::Borrowed(""),
        _ => Cow::Borrowed(path),
    }
}

/// The path of a key of the schema for this layer or column; any other key is its own path.
pub(super) fn at_place(pattern: &str, place: Option<&str>) -> String {
    match place {
        Some(place) => pattern.replace('#', place),
        None => pattern.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_of_layers_are_replaced() {
        assert_eq!(pattern_of("model.layers.12.size"), "model.layers.#.size");
        assert_eq!(pattern_of("model.layers.0"), "model.layers.#");
        for other in ["model.layers", "model.kind", "train.layers.1.size", "model.layers.x.size"] {
            assert_eq!(pattern_of(other), other);
        }
        for wrong in ["model.layers.01.size", "model.layers.1000.size", "model.layers.-1.size"] {
            assert_eq!(layer_of(wrong), None, "{wrong}");
        }
        assert_eq!(pattern_of("model.layers.#.size"), "");
        assert_eq!(at_place("model.layers.#.size", Some("7")), "model.layers.7.size");
    }
}
