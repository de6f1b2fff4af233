//! The named tensors inside the flat slice of parameters.
//!
//! Code that moves or stores parameters (shards, checkpoints, the wire) sees a flat `[f32]`; only
//! the layout knows what the numbers mean.

use std::ops::Range;

/// A group of tensors that share the optimizer's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Matrices and kernels.
    Weights,
    /// Offsets added to a layer's output.
    Biases,
}

impl Group {
    /// All groups.
    pub const ALL: [Group; 2] = [Group::Weights, Group::Biases];

    /// The group's name in job files.
    pub fn name(self) -> &'static str {
        match self {
            Group::Weights => "weights",
            Group::Biases => "biases",
        }
    }
}

/// One named tensor of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The name, as written to `model.safetensors`.
    pub name: String,
    /// The shape; the last index varies fastest.
    pub shape: Vec<usize>,
    /// Its range in the flat slice.
    pub range: Range<usize>,
    /// The group whose optimizer settings it takes.
    pub group: Group,
}

/// The named tensors of a model, one after another without gaps.
///
/// ```
/// use paceline_model::{Group, Layout};
///
/// let mut layout = Layout::new();
/// layout.push("weight", &[10, 784], Group::Weights);
/// layout.push("bias", &[10], Group::Biases);
/// assert_eq!(layout.tensors()[1].range, 7840..7850);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<Tensor>,
}

impl Layout {
    /// A layout without tensors; add them with [`Layout::push`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor after the last one.
    ///
    /// # Panics
    /// If the layout already has a tensor of that name.
    pub fn push(&mut self, name: &str, shape: &[usize], group: Group) {
        assert!(
            self.tensors.iter().all(|t| t.name != name),
            "the layout already has a tensor {name}"
        );
        let start = self.len();
        let range = start..start + shape.iter().product::<usize>();
        self.tensors.push(Tensor { name: name.to_owned(), shape: shape.to_vec(), range, group });
    }

    /// The tensors in order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The number of parameters.
    pub fn len(&self) -> usize {
        self.tensors.last().map_or(0, |last| last.range.end)
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_follow_each_other_without_gaps() {
        let mut layout = Layout::new();
        layout.push("a", &[2, 3], Group::Weights);
        layout.push("b", &[3], Group::Biases);
        let ranges: Vec<_> = layout.tensors().iter().map(|t| t.range.clone()).collect();
        assert_eq!(ranges, [0..6, 6..9]);
        assert_eq!(layout.len(), 9);
    }

    #[test]
    #[should_panic(expected = "already has a tensor a")]
    fn a_duplicate_name_is_refused() {
        let mut layout = Layout::new();
        layout.push("a", &[1], Group::Weights);
        layout.push("a", &[1], Group::Weights);
    }
}
