//! What a mesh link trains.

use paceline_model::{Model, SparseModel};

/// The model of a replica.
#[derive(Clone, Copy)]
pub(crate) enum MeshModel<'a> {
    Dense(&'a dyn Model),
    Sparse(&'a dyn SparseModel),
}

impl<'a> MeshModel<'a> {
    /// The sparse model if there is one, and otherwise the dense one.
    pub(crate) fn of(dense: &'a dyn Model, sparse: Option<&'a dyn SparseModel>) -> Self {
        sparse.map_or(MeshModel::Dense(dense), MeshModel::Sparse)
    }
}
