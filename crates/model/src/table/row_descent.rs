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
    /// parameters. Other work that `ahead` does then, too, takes place while memory is slow.
    ///
    /// # Panics
    /// If [`Table::steps_in_place`] is false, or a key is not that of a weight.
    pub fn gradient<'r>(
        &mut self,
        loss: &(impl ScoreLoss + ?Sized),
        table: &Table,
        rows: impl ExactSizeIterator<Item = Row<'r>>,
        ahead: impl KeysAhead,
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

/// The keys of later rows.
pub trait KeysAhead {
    /// Calls `prefetch` with each key of the next row; not at all after the last.
    fn for_next_row(&mut self, prefetch: impl FnMut(u32));
}

impl<'r, I: Iterator<Item = &'r [u32]>> KeysAhead for I {
    #[inline]
    fn for_next_row(&mut self, prefetch: impl FnMut(u32)) {
        self.next().unwrap_or_default().iter().copied().for_each(prefetch);
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
        mut ahead: impl KeysAhead,
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
                ahead.for_next_row(|key| prefetch(cells, key as usize));
                let score = row.dot_with(|key| scale * cells[key as usize][0].get()) + bias;
                let point = score_loss.loss(score, row.label);
                let delta = share * row.weight * point.slope;
                add(cells, row, delta);
                slope += delta;
                loss += row.weight * point.loss;
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
mod tests;
