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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<Tensor>,
    /// Parameters of each key of a sparse model.
    width: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Self::of_width(1)
    }
}

impl Layout {
    /// A layout without tensors; add them with [`Layout::push`].
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`Layout::new`], for a sparse model whose keys have `width` parameters each. Its first
    /// tensor has the shape `[features, width]`, so that key `i` owns the parameters from
    /// `i * width` on; the tensors behind it belong to the keys that follow the features.
    ///
    /// ```
    /// use paceline_model::{Group, Layout};
    ///
    /// let mut layout = Layout::of_width(3);
    /// layout.push("factors", &[10, 3], Group::Weights);
    /// layout.push("bias", &[1], Group::Biases);
    /// assert_eq!((layout.keys(), layout.params_of(9..11)), (11, 27..31));
    /// ```
    ///
    /// # Panics
    /// If the width is zero.
    pub fn of_width(width: usize) -> Self {
        assert!(width > 0, "a key needs a parameter");
        Self { tensors: Vec::new(), width }
    }

    /// Parameters of each key of a sparse model: 1 unless the layout says otherwise.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of keys of a sparse model. The last one may have fewer parameters than the
    /// others; where keys travel, zeros take the place of those that are missing.
    pub fn keys(&self) -> usize {
        self.len().div_ceil(self.width)
    }

    /// The parameters that a range of keys owns.
    pub fn params_of(&self, keys: Range<usize>) -> Range<usize> {
        let end = |key: usize| (key * self.width).min(self.len());
        end(keys.start)..end(keys.end)
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

    /// The parameters of each tensor, for a layout of `N` tensors.
    ///
    /// ```
    /// # use paceline_model::{Group, Layout};
    /// # let mut layout = Layout::new();
    /// # layout.push("weight", &[2], Group::Weights);
    /// # layout.push("bias", &[1], Group::Biases);
    /// let [weight, bias] = layout.split(&[0.1, 0.2, 0.3]);
    /// assert_eq!((weight, bias), (&[0.1, 0.2][..], &[0.3][..]));
    /// ```
    ///
    /// # Panics
    /// If the layout does not have `N` tensors, or `params` has another length.
    pub fn split<'p, const N: usize>(&self, params: &'p [f32]) -> [&'p [f32]; N] {
        self.check_split(N, params.len());
        std::array::from_fn(|index| &params[self.tensors[index].range.clone()])
    }

    /// As [`Layout::split`], for a mutable slice such as a gradient.
    ///
    /// # Panics
    /// In the same cases.
    pub fn split_mut<'p, const N: usize>(&self, params: &'p mut [f32]) -> [&'p mut [f32]; N] {
        self.check_split(N, params.len());
        let mut rest = params;
        std::array::from_fn(|index| {
            let (tensor, more) =
                std::mem::take(&mut rest).split_at_mut(self.tensors[index].range.len());
            rest = more;
            tensor
        })
    }

    fn check_split(&self, tensors: usize, params: usize) {
        assert_eq!(self.tensors.len(), tensors, "tensors of the layout");
        assert_eq!(self.len(), params, "parameters");
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
