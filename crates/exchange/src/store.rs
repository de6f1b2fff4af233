//! Where a server keeps its shard: every parameter in its place, or a table asked for by key.
//!
//! Both can also tell how they were one update ago, if they were asked to remember it: a process
//! that takes a slot over in the middle of a push needs the very parameters that its predecessor
//! had.

use std::ops::Range;

use paceline_model::{OptimizerState, Table};

/// A shard of the parameters, with the optimizer that changes them.
pub enum Store {
    /// A model of which every batch touches every parameter.
    Dense(DenseStore),
    /// A model of which a batch touches few parameters.
    Sparse(SparseStore),
}

impl Store {
    /// The shard of a dense model.
    pub fn dense(params: Vec<f32>, optimizer: OptimizerState) -> Self {
        Store::Dense(DenseStore { params, previous: Vec::new(), optimizer })
    }

    /// The shard of a sparse model.
    pub fn sparse(table: Table) -> Self {
        let (keys, old, values) = Default::default();
        Store::Sparse(SparseStore { table, remembers: false, keys, old, values })
    }

    /// How many parameters there are.
    pub fn len(&self) -> usize {
        match self {
            Store::Dense(dense) => dense.params.len(),
            Store::Sparse(sparse) => sparse.table.range().len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The parameters of a dense model; of a sparse one, none: read its table.
    pub fn params(&self) -> &[f32] {
        match self {
            Store::Dense(dense) => &dense.params,
            Store::Sparse(_) => &[],
        }
    }

    /// From now on, what an update changes is remembered until the next one.
    pub(crate) fn remember(&mut self) {
        match self {
            Store::Dense(dense) => dense.previous = dense.params.clone(),
            Store::Sparse(sparse) => sparse.remembers = true,
        }
    }

    pub(crate) fn remembers(&self) -> bool {
        match self {
            Store::Dense(dense) => !dense.previous.is_empty(),
            Store::Sparse(sparse) => sparse.remembers,
        }
    }
}

/// See [`Store::Dense`].
pub struct DenseStore {
    params: Vec<f32>,
    /// The parameters one version ago, where they are kept; else empty.
    previous: Vec<f32>,
    optimizer: OptimizerState,
}

impl DenseStore {
    /// The parameters, in their order.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// The optimizer, with its slots.
    pub fn optimizer(&self) -> &OptimizerState {
        &self.optimizer
    }

    /// Applies a gradient of some parameters as update number `version`.
    pub(crate) fn apply(&mut self, version: u64, range: &Range<usize>, gradient: &[f32]) {
        let params = &mut self.params[range.clone()];
        if !self.previous.is_empty() {
            self.previous[range.clone()].copy_from_slice(params);
        }
        self.optimizer.apply(version, range.start, params, gradient);
    }

    pub(crate) fn values(&self, range: &Range<usize>, before: bool) -> &[f32] {
        let params = if before { &self.previous } else { &self.params };
        &params[range.clone()]
    }
}

/// See [`Store::Sparse`].
pub struct SparseStore {
    table: Table,
    remembers: bool,
    /// What the last update touched, and the values before it.
    keys: Vec<u32>,
    old: Vec<f32>,
    /// Values on their way out.
    values: Vec<f32>,
}

impl SparseStore {
    /// The table itself.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Which keys there are, as the flat parameters count.
    pub(crate) fn bounds(&self) -> (u32, u64) {
        let Range { start, end } = self.table.range();
        (start as u32, end as u64)
    }

    /// Applies a gradient of some keys as update number `version`.
    pub(crate) fn apply(&mut self, version: u64, keys: &[u32], gradient: &[f32]) {
        if self.remembers {
            self.keys.clear();
            self.keys.extend_from_slice(keys);
            self.old.resize(keys.len(), 0.0);
            self.table.read(keys, &mut self.old);
        }
        self.table.update(version, keys, gradient);
    }

    /// The values of some keys, as they are or as they were one update ago.
    ///
    /// The latter holds for keys that the update touched: decay, or a rate of FTRL that falls,
    /// changes all others too. Who asks for it made the update with the same batch, so it asks
    /// for no others.
    pub(crate) fn values(&mut self, keys: &[u32], before: bool) -> &[f32] {
        self.values.resize(keys.len(), 0.0);
        self.table.read(keys, &mut self.values);
        if before {
            let mut touched = self.keys.iter().zip(&self.old).peekable();
            for (key, value) in keys.iter().zip(&mut self.values) {
                while touched.next_if(|(touched, _)| *touched < key).is_some() {}
                if let Some((_, old)) = touched.next_if(|(touched, _)| *touched == key) {
                    *value = *old;
                }
            }
        }
        &self.values
    }
}
