//! Tests of steps in place on a table.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::batch::{Batch, Rows};
use crate::kernels::Compactor;
use crate::kernels::OutputMode;
use crate::linear::{Logistic, LogisticLoss};
use crate::model::Model;
use crate::optimizer::{AdaGrad, OptimizerSpec, Sgd};
use crate::schedule::Schedule;
use crate::sparse_model::SparseModel;

const BLOCK: usize = 4_096;

/// A batch that owns its rows.
#[derive(Debug)]
struct OwnedRows {
    starts: Vec<u32>,
    keys: Vec<u32>,
    values: Vec<f32>,
    labels: Vec<u32>,
}

impl OwnedRows {
    fn new(rows: Vec<(bool, Vec<(u32, f32)>)>, ones: bool) -> Self {
        let (mut starts, mut keys, mut values) = (vec![0], vec![], vec![]);
        for (_, entries) in &rows {
            keys.extend(entries.iter().map(|entry| entry.0));
            values.extend(entries.iter().map(|entry| entry.1).filter(|_| !ones));
            starts.push(keys.len() as u32);
        }
        let labels = rows.iter().map(|row| row.0.into()).collect();
        Self { starts, keys, values, labels }
    }

    fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        self.labels.iter().enumerate().map(|(at, &label)| {
            let range = self.starts[at] as usize..self.starts[at + 1] as usize;
            let values = if self.values.is_empty() { &[] } else { &self.values[range.clone()] };
            Row { label, weight: 1.0, keys: &self.keys[range], values, fields: &[] }
        })
    }
}

/// A step of the compact way, with the model's blocks.
fn step_compactly(model: &mut Logistic, table: &Table, step: u64, batch: &OwnedRows) -> f32 {
    let mut compactor = Compactor::new();
    compactor.compact(&batch.keys, model.shared_keys());
    let keys = compactor.keys();
    let (mut params, mut grad) = (vec![0.0; keys.len()], vec![0.0; keys.len()]);
    table.read(keys, &mut params);
    let share = 1.0 / batch.labels.len() as f32;
    let mut loss = 0.0;
    for from in (0..batch.labels.len()).step_by(BLOCK) {
        let to = (from + BLOCK).min(batch.labels.len());
        let starts = &batch.starts[from..=to];
        let rows = Rows { starts, places: compactor.places(), values: &batch.values };
        let block = Batch::sparse(rows, &batch.labels[from..to]);
        loss += model.gradient(&params, block, share, OutputMode::Add, &mut grad);
    }
    table.update(step, keys, &grad);
    loss
}

fn step_in_place(descent: &mut RowDescent, table: &Table, step: u64, batch: &OwnedRows) -> f32 {
    let ahead = batch.rows().skip(3).map(|row| row.keys);
    let loss = descent.gradient(&LogisticLoss, table, batch.rows(), ahead);
    descent.update(table, step, batch.rows());
    loss
}

fn spec(decay: f32) -> OptimizerSpec {
    let mut spec = Sgd::new(0.7);
    spec.weights.rate = Schedule::Exponential { rate: 0.9, factor: 0.5, every: 3 };
    spec.weights.decay = decay;
    spec
}

fn bits(table: &Table) -> Vec<u32> {
    let mut params = vec![0.0; table.len()];
    table.read_range(table.range(), &mut params);
    params.into_iter().map(f32::to_bits).collect()
}

/// Makes the same steps both ways and compares every bit after each.
fn check(features: usize, decay: f32, batches: &[OwnedRows]) {
    let mut model = Logistic::new(features);
    let table = || Table::new(spec(decay), model.layout(), 0..features + 1);
    let (compact, alone, shared) = (table(), table().with_sums().unwrap(), table());
    let mut descents = [RowDescent::new(BLOCK), RowDescent::new(BLOCK)];
    for (batch, step) in batches.iter().zip(0..) {
        let loss = step_compactly(&mut model, &compact, step, batch);
        let got = step_in_place(&mut descents[0], &alone, step, batch);
        assert_eq!(got.to_bits(), loss.to_bits(), "{got}, not {loss}");
        assert_eq!(bits(&alone), bits(&compact));
        step_in_place(&mut descents[1], &shared, step, batch);
        for (got, want) in bits(&shared).into_iter().zip(bits(&compact)) {
            let [got, want] = [got, want].map(f32::from_bits);
            assert!((got - want).abs() <= 1e-4 * want.abs().max(1.0), "{got}, not {want}");
        }
    }
}

fn rows(features: u32) -> impl Strategy<Value = Vec<(bool, Vec<(u32, f32)>)>> {
    vec((any::<bool>(), vec((0..features, -1.0f32..1.0), 0..14)), 1..40)
}

proptest! {
    #[test]
    fn steps_in_place_have_the_bits_of_the_compact_way(
        (features, batches) in (1u32..60).prop_flat_map(|n| (Just(n), vec(rows(n), 1..5))),
        ones: bool,
        // The last one has to be folded into the parameters at every other step.
        decay in prop::sample::select(vec![0.0, 0.01, 1.0, 1.1111112]),
    ) {
        let batches: Vec<_> =
            batches.into_iter().map(|rows| OwnedRows::new(rows, ones)).collect();
        check(features as usize, decay, &batches);
    }
}

#[test]
fn batches_of_several_blocks_have_the_same_bits_too() {
    let row = |at: usize| (at.is_multiple_of(3), vec![(at as u32 * 7 % 50, 1.0), (49, 1.0)]);
    check(50, 0.0, &[OwnedRows::new((0..2 * BLOCK + 5).map(row).collect(), true)]);
}

#[test]
fn threads_that_share_a_table_learn_together() {
    let rows = |at: usize| (at.is_multiple_of(2), vec![(at as u32 % 8, 1.0)]);
    let batch = OwnedRows::new((0..64).map(rows).collect(), true);
    let model = Logistic::new(8);
    let table = Table::new(Sgd::new(0.5), model.layout(), 0..9);
    let train = || {
        let mut descent = RowDescent::new(BLOCK);
        (0..400).map(|step| step_in_place(&mut descent, &table, step, &batch)).last()
    };
    let losses = std::thread::scope(|scope| {
        let threads = [scope.spawn(train), scope.spawn(train)];
        threads.map(|thread| thread.join().ok().flatten())
    });
    assert!(losses.iter().all(|loss| loss.is_some_and(|loss| loss < 0.1)), "{losses:?}");
}

#[test]
#[should_panic(expected = "out of bounds")]
fn the_key_of_the_bias_is_refused_as_a_feature() {
    let table = Table::new(spec(0.0), Logistic::new(4).layout(), 0..5).with_sums().unwrap();
    let batch = OwnedRows::new(vec![(true, vec![(4, 1.0)])], true);
    step_in_place(&mut RowDescent::new(BLOCK), &table, 0, &batch);
}

#[test]
#[should_panic(expected = "adagrad does not step in place")]
fn an_optimizer_that_repeated_keys_would_disturb_is_refused() {
    let table = Table::new(AdaGrad::new(0.7), Logistic::new(4).layout(), 0..5);
    let mut descent = RowDescent::new(BLOCK);
    descent.gradient(&LogisticLoss, &table, [].into_iter(), std::iter::empty());
}
