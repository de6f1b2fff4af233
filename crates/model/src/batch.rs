//! The examples that a model sees at a time.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::kernels::prefetch;
use crate::row::Row;

/// Some labelled examples, borrowed from the code that read them.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The examples themselves.
    pub inputs: Inputs<'a>,
    /// The class of each example.
    pub labels: &'a [u32],
    /// The weight of each example in the loss and its gradient; empty if every weight is 1. Only
    /// models that [use weights](crate::Model::uses_weights) are given any.
    pub weights: &'a [f32],
    /// The field of each key of sparse examples, in the order of their values; empty if the
    /// examples have no fields.
    pub fields: &'a [u16],
    /// The seed of random numbers for models that need them (dropout): example `i` uses
    /// `draw + i`. It is the first example's position in the plan, so the numbers do not depend on
    /// how a step is cut into slots and blocks, and repeat when a step is computed again.
    pub draw: u64,
}

/// The examples of a [`Batch`], in one of three forms.
#[derive(Clone, Copy, Debug)]
pub enum Inputs<'a> {
    /// All values of the examples, one example after another.
    Dense(&'a [f32]),
    /// Only the values that are not zero, with their keys.
    Sparse(Rows<'a>),
    /// Images of bytes, without patches of zeros.
    Patches(SharedPatches<'a>),
}

/// Images of bytes, most of which are zero. A byte b stands for the value b / 255.
///
/// An image is cut into patches of 8 neighbouring bytes. It is stored as a map with one bit for
/// each patch, padded to whole words, and then one word for each patch that is not all zero, with
/// the patch's bytes in memory order. The images are shared, so that the threads of a model read
/// them in place.
#[derive(Clone, Copy)]
pub struct SharedPatches<'a> {
    /// All images of the data set, each a map and the patches that are not empty.
    pub words: &'a Arc<dyn AsRef<[u64]> + Send + Sync>,
    /// The index of each image's first word, and the end of the last image.
    pub starts: &'a Arc<Vec<u32>>,
    /// The images of the batch.
    pub which: &'a [u32],
}

impl fmt::Debug for SharedPatches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patchy").field("which", &self.which).finish_non_exhaustive()
    }
}

/// Examples with only the values that are not zero.
///
/// The parameters that belong to them are a *compact slice*: one parameter for each key that the
/// batch touches, in the order of the keys. The `places` are indices into that slice.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The index of each example's first value in `places` and `values`, and the end of the last
    /// example.
    pub starts: &'a [u32],
    /// The index in the compact slice of the parameter of each value.
    pub places: &'a [u32],
    /// The values; empty if all of them are 1.
    pub values: &'a [f32],
}

/// How many rows ahead of their use parameters are prefetched: enough for main memory to answer.
const ROWS_AHEAD: usize = 4;

impl Rows<'_> {
    /// Appends the score of each row by a linear model, which is `row.dot(params)` plus the last
    /// parameter, the bias: what [`SparseLinear`](crate::SparseLinear) judges, bit for bit. It
    /// prefetches parameters, so that large tables are read at the speed of memory.
    ///
    /// # Panics
    /// If a place is not an index into `params`.
    pub fn linear_scores(&self, params: &[f32], scores: &mut Vec<f32>) {
        let bias = params.last().copied().unwrap_or_default();
        let range = |ends: &[u32]| ends[0] as usize..ends[1] as usize;
        let mut ahead = self.starts.windows(2).map(range);
        let fetch = |places: Option<Range<usize>>| {
            let places = &self.places[places.unwrap_or_default()];
            places.iter().for_each(|&place| prefetch(params, place as usize));
        };
        (0..ROWS_AHEAD).for_each(|_| fetch(ahead.next()));
        for ends in self.starts.windows(2) {
            fetch(ahead.next());
            let range = range(ends);
            let values = if self.values.is_empty() { &[] } else { &self.values[range.clone()] };
            let row = Row { label: 0, weight: 1.0, keys: &self.places[range], values, fields: &[] };
            scores.push(row.dot(params) + bias);
        }
    }
}

impl<'a> Batch<'a> {
    /// Examples with all their values.
    pub fn dense(inputs: &'a [f32], labels: &'a [u32]) -> Self {
        Self { inputs: Inputs::Dense(inputs), labels, weights: &[], fields: &[], draw: 0 }
    }

    /// Examples with only the values that are not zero.
    pub fn sparse(rows: Rows<'a>, labels: &'a [u32]) -> Self {
        Self { inputs: Inputs::Sparse(rows), labels, weights: &[], fields: &[], draw: 0 }
    }

    /// Images of bytes that are mostly zero.
    pub fn patches(examples: SharedPatches<'a>, labels: &'a [u32]) -> Self {
        Self { inputs: Inputs::Patches(examples), labels, weights: &[], fields: &[], draw: 0 }
    }

    /// The same examples with a weight each, or with equal ones if `weights` is empty.
    ///
    /// # Panics
    /// If the number of weights is neither zero nor that of the examples.
    #[must_use]
    pub fn weighted(self, weights: &'a [f32]) -> Self {
        assert!(weights.is_empty() || weights.len() == self.len(), "weights of the examples");
        Self { weights, ..self }
    }

    /// The same sparse examples with the field of each key, or without fields if there are none.
    ///
    /// # Panics
    /// If there are some, but not one for each key.
    #[must_use]
    pub fn with_fields(self, fields: &'a [u16]) -> Self {
        assert!(fields.is_empty() || fields.len() == self.rows().places.len(), "fields of keys");
        Self { fields, ..self }
    }

    /// All values of dense examples.
    ///
    /// # Panics
    /// If the examples are in another form: the data and the model do not fit.
    pub fn values(&self) -> &'a [f32] {
        match self.inputs {
            Inputs::Dense(values) => values,
            Inputs::Sparse(_) | Inputs::Patches(_) => {
                panic!("a dense model needs examples with all their values")
            }
        }
    }

    /// All values of sparse examples.
    ///
    /// # Panics
    /// If the examples are in another form: the data and the model do not fit.
    pub fn rows(&self) -> Rows<'a> {
        match self.inputs {
            Inputs::Sparse(rows) => rows,
            Inputs::Dense(_) | Inputs::Patches(_) => {
                panic!("a sparse model needs examples without their zeros")
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
        let (weights, fields) = (self.weights, self.fields);
        rows.starts.windows(2).zip(self.labels).enumerate().map(move |(at, (ends, &label))| {
            let range = ends[0] as usize..ends[1] as usize;
            let values = if rows.values.is_empty() { &[] } else { &rows.values[range.clone()] };
            let weight = weights.get(at).copied().unwrap_or(1.0);
            let fields = if fields.is_empty() { &[] } else { &fields[range.clone()] };
            Row { label, weight, keys: &rows.places[range], values, fields }
        })
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no examples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}
