//! Tests a sparse model on rows that were not trained on.
//!
//! The evaluator determines once which keys its rows touch, and requests their values alone. It
//! reads the rows block by block, so its memory is that of one block plus one number per key.

use std::sync::Arc;

use paceline_data::{SparseBuffer, SparseRows};
use paceline_model::{Batch, Compactor, Rows, Score, SparseModel, Tally};

use crate::error::TrainError;
use crate::evaluator::{Evaluator, counted};
use crate::test_watch::TestWatch;

/// Rows read and tested at a time.
const BLOCK: usize = 1_024;

/// Tests parameters on the first rows of a set.
pub(crate) struct SparseEvaluator {
    rows: SparseRows,
    model: Box<dyn SparseModel>,
    /// Every key the rows touch, sorted.
    keys: Arc<[u32]>,
    buffer: SparseBuffer,
    compactor: Compactor,
    /// The values of a block's keys.
    values: Vec<f32>,
}

impl SparseEvaluator {
    /// Tests on the first `examples` of the rows, or all.
    pub(crate) fn new(
        rows: &SparseRows,
        examples: Option<usize>,
        model: Box<dyn SparseModel>,
    ) -> Self {
        let rows = rows.slice(0..examples.unwrap_or(rows.len()).min(rows.len()));
        let (mut buffer, mut compactor) = (SparseBuffer::default(), Compactor::new());
        let mut keys: Vec<u32> = Vec::new();
        let mut tidy_at = 1 << 20;
        for from in (0..rows.len()).step_by(BLOCK) {
            buffer.fill(&rows, from..(from + BLOCK).min(rows.len()));
            compactor.compact(&buffer.keys, model.shared_keys());
            keys.extend_from_slice(compactor.keys());
            if keys.len() > tidy_at {
                deduplicate(&mut keys);
                tidy_at = 2 * keys.len().max(1 << 19);
            }
        }
        deduplicate(&mut keys);
        let (values, keys) = (Vec::new(), keys.into());
        Self { rows, model, keys, buffer, compactor, values }
    }
}

impl Evaluator for SparseEvaluator {
    fn keys(&self) -> Option<Arc<[u32]>> {
        Some(self.keys.clone())
    }

    fn test(&mut self, params: &[f32], watch: &TestWatch) -> Result<Score, TrainError> {
        let width = self.model.layout().width();
        assert_eq!(params.len(), self.keys.len() * width, "parameters of the tested keys");
        let mut tally = Tally::default();
        let block = BLOCK.min(self.model.max_block());
        for from in (0..self.rows.len()).step_by(block) {
            let to = (from + block).min(self.rows.len());
            self.buffer.fill(&self.rows, from..to);
            self.compactor.compact(&self.buffer.keys, self.model.shared_keys());
            gather(&self.keys, params, width, self.compactor.keys(), &mut self.values);
            let SparseBuffer { starts, values, labels, fields, .. } = &self.buffer;
            let rows = Rows { starts, places: self.compactor.places(), values };
            let batch = Batch::sparse(rows, labels).with_fields(fields);
            self.model.evaluate(&self.values, batch, &mut tally);
            watch.tested(to, self.rows.len())?;
        }
        counted(&tally, self.rows.len())
    }
}

fn deduplicate(keys: &mut Vec<u32>) {
    keys.sort_unstable();
    keys.dedup();
}

/// Collects the values of `wanted`, some of the sorted `keys`, into `values`: `width` for each.
fn gather(keys: &[u32], params: &[f32], width: usize, wanted: &[u32], values: &mut Vec<f32>) {
    values.clear();
    let mut at = 0;
    for key in wanted {
        // Strides that double, then a search between the last two: the next key is seldom far.
        let mut stride = 1;
        while at + stride < keys.len() && keys[at + stride] < *key {
            at += stride;
            stride *= 2;
        }
        let within = &keys[at..keys.len().min(at + stride + 1)];
        at += within.partition_point(|known| known < key);
        values.extend_from_slice(&params[at * width..(at + 1) * width]);
    }
}

#[cfg(test)]
mod tests;
