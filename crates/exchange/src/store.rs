//! The storage of a server's shard: a dense array, or a table addressed by key.
//!
//! Both can also keep the values before the last update. A process that takes over a slot in the
//! middle of a push needs exactly the parameters that its predecessor had.

use std::ops::Range;

use paceline_model::{OptimizerState, ParamTable};

use crate::{KeysError, decode_keys, max_keys};

/// A shard of the parameters, with the optimizer that changes them.
pub enum Store {
    /// Every batch touches every parameter.
    Dense(DenseStore),
    /// A batch touches few parameters.
    Sparse(SparseStore),
}

impl Store {
    /// The shard of a dense model.
    pub fn dense(params: Vec<f32>, optimizer: OptimizerState) -> Self {
        Store::Dense(DenseStore { params, previous: Vec::new(), optimizer })
    }

    /// The shard of a sparse model.
    pub fn sparse(table: impl Into<ParamTable>) -> Self {
        let (touched, previous, values) = Default::default();
        let table = table.into();
        Store::Sparse(SparseStore { table, keeps_previous: false, touched, previous, values })
    }

    /// The number of parameters; for a sparse model, of keys.
    pub fn len(&self) -> usize {
        match self {
            Store::Dense(dense) => dense.params.len(),
            Store::Sparse(sparse) => sparse.table.keys().len(),
        }
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The parameters of a dense model; empty for a sparse one, whose table has them.
    pub fn params(&self) -> &[f32] {
        match self {
            Store::Dense(dense) => &dense.params,
            Store::Sparse(_) => &[],
        }
    }

    /// From now on, keeps what an update changes until the next one.
    pub(crate) fn keep_previous(&mut self) {
        match self {
            Store::Dense(dense) => dense.previous = dense.params.clone(),
            Store::Sparse(sparse) => sparse.keeps_previous = true,
        }
    }

    pub(crate) fn has_previous(&self) -> bool {
        match self {
            Store::Dense(dense) => !dense.previous.is_empty(),
            Store::Sparse(sparse) => sparse.keeps_previous,
        }
    }
}

/// See [`Store::Dense`].
pub struct DenseStore {
    params: Vec<f32>,
    /// The parameters one version ago, if they are kept; otherwise empty.
    previous: Vec<f32>,
    optimizer: OptimizerState,
}

impl DenseStore {
    /// The parameters, in order.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// The optimizer, with its state.
    pub fn optimizer(&self) -> &OptimizerState {
        &self.optimizer
    }

    /// Applies a gradient to a range of the parameters, as update number `version`.
    pub(crate) fn apply(&mut self, version: u64, range: &Range<usize>, gradient: &[f32]) {
        let params = &mut self.params[range.clone()];
        if !self.previous.is_empty() {
            self.previous[range.clone()].copy_from_slice(params);
        }
        self.optimizer.apply(version, range.start, params, gradient);
    }

    pub(crate) fn values(&self, range: &Range<usize>, previous: bool) -> &[f32] {
        let params = if previous { &self.previous } else { &self.params };
        &params[range.clone()]
    }
}

/// See [`Store::Sparse`].
pub struct SparseStore {
    table: ParamTable,
    keeps_previous: bool,
    /// The keys that the last update touched, and their values before it.
    touched: Vec<u32>,
    previous: Vec<f32>,
    /// Values about to be sent.
    values: Vec<f32>,
}

impl SparseStore {
    /// The table.
    pub fn table(&self) -> &ParamTable {
        &self.table
    }

    /// The range of the keys, which count over all servers.
    pub(crate) fn bounds(&self) -> Range<u64> {
        let Range { start, end } = self.table.keys();
        start as u64..end as u64
    }

    /// Replaces `keys` with the decoded ones: keys of this shard, and not more of them than fit a
    /// frame with their values.
    pub(crate) fn decode_keys(&self, bytes: &[u8], keys: &mut Vec<u32>) -> Result<(), KeysError> {
        decode_keys(self.bounds(), bytes, keys)?;
        if keys.len() > max_keys(self.table.width()) {
            return Err(KeysError::TooMany);
        }
        Ok(())
    }

    /// Applies a gradient to some keys, as update number `version`.
    pub(crate) fn apply(&mut self, version: u64, keys: &[u32], gradient: &[f32]) {
        if self.keeps_previous {
            self.touched.clear();
            self.touched.extend_from_slice(keys);
            self.previous.resize(keys.len() * self.table.width(), 0.0);
            self.table.read(keys, &mut self.previous);
        }
        self.table.update(version, keys, gradient);
    }

    /// The values of some keys, present or before the last update.
    ///
    /// The previous values are right only for keys that the update touched: decay, or a falling
    /// rate of FTRL, changes all others too. A process that requests previous values computes the
    /// same batch as the update, so it requests no other keys.
    pub(crate) fn values(&mut self, keys: &[u32], previous: bool) -> &[f32] {
        let width = self.table.width();
        self.values.resize(keys.len() * width, 0.0);
        self.table.read(keys, &mut self.values);
        if previous {
            let mut touched = self.touched.iter().zip(self.previous.chunks_exact(width)).peekable();
            for (key, values) in keys.iter().zip(self.values.chunks_exact_mut(width)) {
                while touched.next_if(|(touched, _)| *touched < key).is_some() {}
                if let Some((_, old)) = touched.next_if(|(touched, _)| *touched == key) {
                    values.copy_from_slice(old);
                }
            }
        }
        &self.values
    }

    /// The current values of some keys, and zeros for those that no gradient has touched.
    pub(crate) fn known_values(&mut self, keys: &[u32]) -> &[f32] {
        self.values.resize(keys.len() * self.table.width(), 0.0);
        self.table.read_known(keys, &mut self.values);
        &self.values
    }
}
