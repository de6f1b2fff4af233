//! What a model is shown at a time.

use std::fmt;
use std::sync::Arc;

use crate::row::Row;

/// A handful of labelled examples, borrowed from whoever read them.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The examples themselves.
    pub inputs: Inputs<'a>,
    /// The class of each example.
    pub labels: &'a [u32],
    /// What chance hangs on, for models that draw lots (dropout): example `i` draws from
    /// `draw + i`. It is the example's position in the plan, so the lots do not depend on how
    /// many slots and blocks a step is cut into, and are the same when it is computed again.
    pub draw: u64,
}

/// The examples of a [`Batch`], in one of three forms.
#[derive(Clone, Copy, Debug)]
pub enum Inputs<'a> {
    /// The examples' values, row after row, each as long as the model's input.
    Dense(&'a [f32]),
    /// Only the values that are not zero.
    Sparse(Rows<'a>),
    /// Bytes, without stretches of zeros.
    Patches(SharedPatches<'a>),
}

/// Examples of bytes, each standing for its 255th part, most of which are zero.
///
/// They are written down as [`PatchView`](crate::kernels::Patches) says, and shared, so that a
/// model's threads can read them where they lie.
#[derive(Clone, Copy)]
pub struct SharedPatches<'a> {
    /// All examples that there are, each a map and the patches that are not empty.
    pub words: &'a Arc<dyn AsRef<[u64]> + Send + Sync>,
    /// Where each example begins, and at last where they end.
    pub starts: &'a Arc<Vec<u32>>,
    /// Which of the examples the batch has.
    pub which: &'a [u32],
}

impl fmt::Debug for SharedPatches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patchy").field("which", &self.which).finish_non_exhaustive()
    }
}

/// Examples of which only the values that are not zero are written down.
///
/// The parameters that go with them are a *compact slice*: one parameter for each key that the
/// whole batch touches, in the order of the keys. So `places` count within that slice.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Where each example begins in `places` and `values`, and at last where they end.
    pub starts: &'a [u32],
    /// Which parameter of the compact slice each value belongs to.
    pub places: &'a [u32],
    /// The values; empty if all of them are 1.
    pub values: &'a [f32],
}

impl<'a> Batch<'a> {
    /// Examples with all their values, and no lots to draw.
    pub fn dense(inputs: &'a [f32], labels: &'a [u32]) -> Self {
        Self { inputs: Inputs::Dense(inputs), labels, draw: 0 }
    }

    /// Examples with the values that are not zero.
    pub fn sparse(rows: Rows<'a>, labels: &'a [u32]) -> Self {
        Self { inputs: Inputs::Sparse(rows), labels, draw: 0 }
    }

    /// Examples whose bytes are mostly zero.
    pub fn patches(examples: SharedPatches<'a>, labels: &'a [u32]) -> Self {
        Self { inputs: Inputs::Patches(examples), labels, draw: 0 }
    }

    /// All values of the examples, for models that need them all.
    ///
    /// # Panics
    /// If they are in another form: the data and the model do not fit.
    pub fn values(&self) -> &'a [f32] {
        match self.inputs {
            Inputs::Dense(values) => values,
            Inputs::Sparse(_) | Inputs::Patches(_) => {
                panic!("a dense model was shown examples without their zeros")
            }
        }
    }

    /// The sparse form of the examples, for models that need it.
    ///
    /// # Panics
    /// If they are in another form: the data and the model do not fit.
    pub fn rows(&self) -> Rows<'a> {
        match self.inputs {
            Inputs::Sparse(rows) => rows,
            Inputs::Dense(_) | Inputs::Patches(_) => {
                panic!("a sparse model was shown examples with their zeros")
            }
        }
    }

    /// The examples one by one, in their sparse form. Keys are indices into the compact slice.
    ///
    /// # Panics
    /// If the examples are in another form.
    pub fn sparse_rows(&self) -> impl Iterator<Item = Row<'a>> + use<'a> {
        let rows = self.rows();
        assert_eq!(rows.starts.len(), self.len() + 1, "rows of the block");
        rows.starts.windows(2).zip(self.labels).map(move |(ends, &label)| {
            let range = ends[0] as usize..ends[1] as usize;
            let values = if rows.values.is_empty() { &[] } else { &rows.values[range.clone()] };
            Row { label, keys: &rows.places[range], values }
        })
    }

    /// How many examples there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no examples at all.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}
