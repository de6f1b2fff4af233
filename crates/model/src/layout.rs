//! Where each named tensor lies in the one flat slice of parameters.
//!
//! Everything that moves or stores parameters (shards, checkpoints, the wire) sees a flat
//! `[f32]`; the layout is the only place that knows what the numbers mean.

use std::ops::Range;

/// Which settings of the optimizer a tensor takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Matrices and kernels.
    Weights,
    /// Offsets added to a layer's output.
    Biases,
}

impl Group {
    /// Every group, in the order of their indices.
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
    /// Its name, as written to `model.safetensors`.
    pub name: String,
    /// Its shape; the last index runs fastest.
    pub shape: Vec<usize>,
    /// Where it lies in the flat slice.
    pub range: Range<usize>,
    /// Which settings of the optimizer it takes.
    pub group: Group,
}

/// The named tensors of a model, one after another without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<Tensor>,
}

impl Layout {
    /// A layout without tensors, to be filled with [`Layout::push`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor behind the last one.
    ///
    /// # Panics
    /// If a tensor of that name is there already: two tensors could not be told apart in a file.
    pub fn push(&mut self, name: &str, shape: &[usize], group: Group) {
        assert!(self.tensors.iter().all(|t| t.name != name), "tensor {name} is there already");
        let start = self.len();
        let range = start..start + shape.iter().product::<usize>();
        self.tensors.push(Tensor { name: name.to_owned(), shape: shape.to_vec(), range, group });
    }

    /// The tensors in order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// How many parameters there are in all.
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
    fn tensors_lie_behind_each_other_without_gaps() {
        let mut layout = Layout::new();
        layout.push("a", &[2, 3], Group::Weights);
        layout.push("b", &[3], Group::Biases);
        let ranges: Vec<_> = layout.tensors().iter().map(|t| t.range.clone()).collect();
        assert_eq!(ranges, [0..6, 6..9]);
        assert_eq!(layout.len(), 9);
    }

    #[test]
    #[should_panic(expected = "there already")]
    fn a_name_is_taken_once() {
        let mut layout = Layout::new();
        layout.push("a", &[1], Group::Weights);
        layout.push("a", &[1], Group::Weights);
    }
}
