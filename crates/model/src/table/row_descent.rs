//! Steps of a linear model where its parameters live.
//!
//! A worker that has the table in its own process needs no compact slice: copying rows and making
//! their keys unique would be half of a step. Rows go forward and backward with their own keys.
//!
//! A single thread sums the gradient beside each parameter, in the order of the rows, as in a
//! compact slice. After all rows, each key moves its parameter by that sum and clears it; where a
//! key occurs again the sum is zero and nothing changes. So the bits are those of the compact way.
//!
//! Threads that share a table would mix up such sums. They keep what each row adds to the gradient
//! by its score, and move the parameters row by row afterwards (Hogwild, with batches).

use std::sync::PoisonError;

use super::atomic_cells::AtomicCell;
use super::storage::{Table, TableSpan};
use crate::kernels::prefetch;
use crate::row::Row;
use crate::sparse_model::ScoreLoss;

/// Makes the steps of a linear model directly on a table, which other threads may share.
/// The table holds the whole model: the weights, then the bias.
///
/// A step is one [`RowDescent::gradient`] and one [`RowDescent::update`] with the same rows.
#[derive(Clone, Debug)]
pub struct RowDescent {
    /// Rows whose losses are summed before they are added to the rest.
    block: usize,
    /// The gradient of the bias.
    bias: f32,
    /// What each row adds to the gradient, where the table has no room for sums.
    deltas: Vec<f32>,
}

impl RowDescent {
    /// Steps that sum losses block by block, as a model does with a compact slice: `block` is the
    /// model's [`max_block`](crate::Model::max_block). Memory grows with the first batches.
    pub fn new(block: usize) -> Self {
        Self { block, bias: 0.0, deltas: Vec::new() }
    }

    /// Returns the mean loss of some rows and keeps their gradient for [`RowDescent::update`].
    ///
    /// Before each row it takes the keys of a later row from `ahead` and prefetches their
    /// parameters.
    ///
    /// # Panics
    /// If [`Table::steps_in_place`] is false, or a key is not that of a weight.
    pub fn gradient<'r>(
        &mut self,
        loss: &(impl ScoreLoss + ?Sized),
        table: &Table,
        rows: impl ExactSizeIterator<Item = Row<'r>>,
        ahead: impl Iterator<Item = &'r [u32]>,
    ) -> f32 {
        let _shared =
            table.decays().then(|| table.fold_lock.read().unwrap_or_else(PoisonError::into_inner));
        let Self { block, bias, deltas } = self;
        deltas.clear();
        let pass = RowForward { loss, table, block: *block, bias_grad: bias };
        if table.width == 1 {
            return pass.run(rows, ahead, |_: &[[AtomicCell; 1]], _, delta| deltas.push(delta));
        }
        pass.run(rows, ahead, |cells: &[[AtomicCell; 2]], row, delta| {
            row.for_each_scaled(delta, |key, slope| {
                let [_, sum] = &cells[key as usize];
                sum.set(sum.get() + slope);
            });
        })
    }

    /// Moves the parameters by the gradient of the last rows, which are passed again. `step` is
    /// the number of updates made before this one.
    ///
    /// # Panics
    /// If the number of rows is another one.
    pub fn update<'r>(
        &mut self,
        table: &Table,
        step: u64,
        rows: impl ExactSizeIterator<Item = Row<'r>>,
    ) {
        let [weights, bias] = table.weights_and_bias();
        table.with_decay(step, weights, |rate| match table.width {
            1 => {
                assert_eq!(rows.len(), self.deltas.len(), "rows of the gradient");
                let cells = table.weights::<1>();
                for (row, &delta) in rows.zip(&self.deltas) {
                    row.for_each_scaled(rate * delta, |key, way| {
                        let [param] = &cells[key as usize];
                        param.set(param.get() - way);
                    });
                }
            }
            _ => {
                let cells = table.weights::<2>();
                for row in rows {
                    for &key in row.keys {
                        let [param, sum] = &cells[key as usize];
                        param.set(param.get() - rate * sum.get());
                        sum.set(0.0);
                    }
                }
            }
        });
        table.update_span(step, bias, &[bias.range.start as u32], &[self.bias]);
    }
}

/// The forward pass over some rows.
struct RowForward<'a, L: ?Sized> {
    loss: &'a L,
    table: &'a Table,
    block: usize,
    bias_grad: &'a mut f32,
}

impl<L: ScoreLoss + ?Sized> RowForward<'_, L> {
    /// The mean loss of the rows. `add` receives the cells of the weights, each row and what it
    /// adds to the gradient by its score, which is also summed up for the bias.
    #[inline(always)]
    fn run<'r, const WIDTH: usize>(
        self,
        mut rows: impl ExactSizeIterator<Item = Row<'r>>,
        mut ahead: impl Iterator<Item = &'r [u32]>,
        mut add: impl FnMut(&[[AtomicCell; WIDTH]], Row<'r>, f32),
    ) -> f32 {
        let Self { loss: score_loss, table, block, bias_grad } = self;
        let ([weights, bias], cells) = (table.weights_and_bias(), table.weights::<WIDTH>());
        let scale = weights.scale();
        let bias = bias.scale() * table.cells.all()[table.cells.all().len() - WIDTH].get();
        let share = 1.0 / rows.len() as f32;
        let mut mean = 0.0;
        *bias_grad = 0.0;
        // Block by block, for the bits of the compact way.
        for _ in 0..rows.len().div_ceil(block) {
            let (mut loss, mut slope) = (0.0, 0.0);
            for row in rows.by_ref().take(block) {
                for &key in ahead.next().unwrap_or_default() {
                    prefetch(cells, key as usize);
                }
                let score = row.dot_with(|key| scale * cells[key as usize][0].get()) + bias;
                let point = score_loss.loss(score, row.label);
                let delta = share * point.slope;
                add(cells, row, delta);
                slope += delta;
                loss += point.loss;
            }
            *bias_grad += slope;
            mean += loss * share;
        }
        mean
    }
}

impl Table {
    /// The spans of a whole linear model.
    fn weights_and_bias(&self) -> [&TableSpan; 2] {
        assert!(self.steps_in_place(), "{} does not step in place", self.spec.optimizer().name());
        let [weights, bias] = &self.spans[..] else { panic!("not a table of weights and a bias") };
        assert!(weights.range.start == 0 && bias.range.len() == 1, "not a whole model");
        [weights, bias]
    }

    /// The cells of the weights, by their keys.
    fn weights<const WIDTH: usize>(&self) -> &[[AtomicCell; WIDTH]] {
        let cells = self.cells.all().as_chunks().0;
        &cells[..cells.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::batch::{Batch, Rows};
    use crate::kernels::OutputMode;
    use crate::keys::Compactor;
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
                Row { label, keys: &self.keys[range], values }
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
        let (compact, alone, shared) = (table(), table().with_sums(), table());
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
        let table = Table::new(spec(0.0), Logistic::new(4).layout(), 0..5).with_sums();
        let batch = OwnedRows::new(vec![(true, vec![(4, 1.0)])], true);
        step_in_place(&mut RowDescent::new(BLOCK), &table, 0, &batch);
    }

    #[test]
    #[should_panic(expected = "adagrad does not step in place")]
    fn an_optimizer_that_repeated_keys_would_disturb_is_refused() {
        let table = Table::new(AdaGrad::new(0.7), Logistic::new(4).layout(), 0..5);
        let mut descent = RowDescent::new(BLOCK);
        descent.gradient(&LogisticLoss, &table, [].into_iter(), [].into_iter());
    }
}
