//! Tests a sparse model on rows that were not trained on.
//!
//! The tester knows once and for all which keys its rows touch, and asks for their values alone.
//! It goes through the rows block by block, so its memory is that of one block and of one number
//! for each key, however many rows there are.

use std::sync::Arc;

use paceline_data::{SparseBuffer, SparseRows};
use paceline_model::{Batch, Compactor, Rows, Score, SparseModel, Tally};

use crate::Failure;
use crate::tester::Examiner;

/// Rows that are read and tested at a time.
const BLOCK: usize = 1_024;

/// Tests parameters on the first rows of a set.
pub struct RowTester {
    rows: SparseRows,
    model: Box<dyn SparseModel>,
    /// Every key that the rows touch, sorted.
    keys: Arc<[u32]>,
    buffer: SparseBuffer,
    compactor: Compactor,
    /// The values of a block's keys.
    values: Vec<f32>,
    /// Whether it is shown all parameters, and not only those of its keys.
    sees_all: bool,
}

impl RowTester {
    /// A tester over the first `examples` of the rows, or all.
    pub fn new(rows: &SparseRows, examples: Option<usize>, model: Box<dyn SparseModel>) -> Self {
        let rows = rows.slice(0..examples.unwrap_or(rows.len()).min(rows.len()));
        let (mut buffer, mut compactor) = (SparseBuffer::default(), Compactor::new());
        let mut keys: Vec<u32> = Vec::new();
        let mut tidy_at = 1 << 20;
        for from in (0..rows.len()).step_by(BLOCK) {
            buffer.fill(&rows, from..(from + BLOCK).min(rows.len()));
            compactor.compact(&buffer.keys, model.shared_keys());
            keys.extend_from_slice(compactor.keys());
            if keys.len() > tidy_at {
                make_unique(&mut keys);
                tidy_at = 2 * keys.len().max(1 << 19);
            }
        }
        make_unique(&mut keys);
        Self {
            rows,
            model,
            keys: keys.into(),
            buffer,
            compactor,
            values: Vec::new(),
            sees_all: false,
        }
    }

    /// The same, shown all parameters.
    pub fn of_all_parameters(self) -> Self {
        Self { sees_all: true, ..self }
    }
}

impl Examiner for RowTester {
    fn keys(&self) -> Option<Arc<[u32]>> {
        (!self.sees_all).then(|| self.keys.clone())
    }

    fn test(&mut self, params: &[f32]) -> Result<Score, Failure> {
        assert!(self.sees_all || params.len() == self.keys.len(), "parameters of the tested keys");
        let mut tally = Tally::default();
        for from in (0..self.rows.len()).step_by(BLOCK) {
            self.buffer.fill(&self.rows, from..(from + BLOCK).min(self.rows.len()));
            self.compactor.compact(&self.buffer.keys, self.model.shared_keys());
            let keys = self.compactor.keys();
            match self.sees_all {
                true => {
                    self.values.clear();
                    self.values.extend(keys.iter().map(|&key| params[key as usize]));
                }
                false => gather(&self.keys, params, keys, &mut self.values),
            }
            let SparseBuffer { starts, values, labels, .. } = &self.buffer;
            let rows = Rows { starts, places: self.compactor.places(), values };
            self.model.evaluate(&self.values, Batch::sparse(rows, labels), &mut tally);
        }
        Ok(tally.score())
    }
}

fn make_unique(keys: &mut Vec<u32>) {
    keys.sort_unstable();
    keys.dedup();
}

/// The values of some of the sorted keys; each is looked for from the last one on.
fn gather(keys: &[u32], params: &[f32], wanted: &[u32], values: &mut Vec<f32>) {
    values.clear();
    let mut at = 0;
    for key in wanted {
        // Steps that double, then a search between the last two: the next key is seldom far.
        let mut stride = 1;
        while at + stride < keys.len() && keys[at + stride] < *key {
            at += stride;
            stride *= 2;
        }
        let within = &keys[at..keys.len().min(at + stride + 1)];
        at += within.partition_point(|known| known < key);
        values.push(params[at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_key_finds_its_value(
            keys in proptest::collection::btree_set(0u32..500, 1..100),
            picks in proptest::collection::vec(any::<bool>(), 100),
        ) {
            let keys: Vec<u32> = keys.into_iter().collect();
            let params: Vec<f32> = keys.iter().map(|&key| key as f32).collect();
            let wanted: Vec<u32> =
                keys.iter().zip(picks).filter(|(_, pick)| *pick).map(|(&key, _)| key).collect();
            let mut values = Vec::new();
            gather(&keys, &params, &wanted, &mut values);
            prop_assert_eq!(values, wanted.iter().map(|&key| key as f32).collect::<Vec<_>>());
        }
    }
}
