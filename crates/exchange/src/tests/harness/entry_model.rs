//! A sparse model of which only the entries matter.

use paceline_model::{Batch, Layout, Model, OutputMode, SparseModel, Tally};

/// A model whose gradients come from elsewhere.
pub(crate) struct EntryModel {
    pub(crate) layout: Layout,
    pub(crate) features: usize,
}

impl Model for EntryModel {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn inputs(&self) -> usize {
        self.features
    }

    fn gradient(&mut self, _: &[f32], _: Batch<'_>, _: f32, _: OutputMode, _: &mut [f32]) -> f32 {
        unreachable!("its gradients come from elsewhere")
    }

    fn evaluate(&mut self, _: &[f32], _: Batch<'_>, _: &mut Tally) {
        unreachable!("it is not tested")
    }
}

impl SparseModel for EntryModel {}
