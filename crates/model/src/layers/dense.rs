//! A dense layer: every output from every input.
//!
//! The weights are read or written once in each direction, and at usual batch sizes that takes as
//! long as the arithmetic; so all three products follow the memory order of the weights, a row
//! for each output. Forward, rows of weights are multiplied with the examples packed side by side;
//! backward, the examples' rows with pieces of the weights. Threads divide outputs or inputs,
//! never examples, so that one core alone reads each weight.

use super::layer_op::{BackwardInputs, BufferedLayer, FactorScratch, LayerPass};
use crate::kernels::OutputMode;
use crate::kernels::pack::pack_panels;
use crate::kernels::panels::Panels;
use crate::kernels::tile::{MemoryRun, ROWS, RowsTimesPanel};
use crate::kernels::{OUTER_ROWS, OutputGrad, add_scaled, dense_backward_bias, outer_rows, scale};
use crate::layered::{FactorSizes, WeightedFactors};
use crate::thread_pool::{Pieces, ThreadPool};

/// The least number of tasks of a pass, if the layer has as many tiles.
const TASKS: usize = 4;
/// Tasks for each thread whose gradient is computed before it is emitted: enough to keep threads
/// busy, and few enough for the gradient to stay in the last-level cache.
const TASKS_AT_A_TIME: usize = 2;
/// Inputs that the tiles use together in the forward pass: packed examples of this many inputs
/// stay in the first-level cache.
const DEPTH: usize = 128;
/// The most inputs of a task in the backward pass: a page of each row, so that the address of a
/// page is translated once.
const TASK_COLUMNS: usize = 1024;
/// Numbers of a cache line.
const CACHE_LINE: usize = 16;
/// Outputs whose weights are packed together in the backward pass.
const PACKED_ROWS: usize = 32;

/// A dense layer.
pub(crate) struct Dense {
    inputs: usize,
    outputs: usize,
}

impl Dense {
    pub(crate) fn new(inputs: usize, outputs: usize) -> Self {
        Self { inputs, outputs }
    }

    /// Rows of weights, one for each output, of a task.
    fn task_rows(&self) -> usize {
        self.outputs.div_ceil(TASKS).next_multiple_of(ROWS).min(OUTER_ROWS)
    }

    /// Inputs of a task in the backward pass.
    fn task_columns(&self) -> usize {
        self.inputs.div_ceil(TASKS).next_multiple_of(CACHE_LINE).min(TASK_COLUMNS)
    }

    /// Memory of such a task: its sums for `count` examples, and packed weights.
    fn task_memory(&self, count: usize) -> usize {
        let packed = Panels::new(PACKED_ROWS, self.task_columns()).len();
        count * self.task_columns() + packed
    }

    /// Examples side by side, input for input.
    fn examples(&self, count: usize) -> Panels {
        Panels::new(self.inputs, count)
    }

    /// Inputs side by side, example for example.
    fn columns(&self, count: usize) -> Panels {
        Panels::new(count, self.inputs)
    }

    /// Packs the inputs of all examples for the gradient by the weights.
    fn pack_columns<'p>(&self, pass: &'p mut LayerPass<'_>, x: &[f32]) -> &'p [f32] {
        let packed = &mut pass.scratch[..self.columns(pass.count).len()];
        self.pack_columns_into(pass.pool, pass.count, x, packed);
        packed
    }

    fn pack_columns_into(&self, pool: &ThreadPool, count: usize, x: &[f32], packed: &mut [f32]) {
        let columns = self.columns(count);
        pool.for_each_piece(packed, columns.full() * count, |index, packed| {
            let panel = columns.get(index);
            let columns = columns.alone(panel);
            pack_panels(columns, &x[panel.column..], self.inputs, count, packed);
        });
    }

    /// Computes the outputs of some rows of weights, a row of `out` for each.
    fn forward_rows(&self, examples: Panels, packed: &[f32], weights: &[f32], out: &mut [f32]) {
        let stored = examples.stored_columns();
        for first in (0..self.inputs).step_by(DEPTH) {
            let depth = DEPTH.min(self.inputs - first);
            for panel in examples.iter() {
                RowsTimesPanel {
                    count: out.len() / stored,
                    place: &|row: usize| (row * self.inputs + first, row * stored + panel.column),
                    left: weights,
                    runs: &[MemoryRun { start: 0, len: depth }],
                    right: &packed[panel.start + first * panel.width..][..depth * panel.width],
                    panel,
                    used: panel.width,
                    spills: false,
                    start: &[],
                    mode: if first == 0 { OutputMode::Overwrite } else { OutputMode::Add },
                    out,
                }
                .run();
            }
        }
    }

    /// Computes the gradient by the inputs of a task, a row for each of `count` examples at the
    /// beginning of its memory. `dy` is cut into pieces of [`PACKED_ROWS`] outputs.
    fn input_gradient_columns(
        &self,
        weights: &[f32],
        count: usize,
        dy: &[f32],
        task: usize,
        memory: &mut [f32],
    ) {
        let (row, first) = (self.task_columns(), task * self.task_columns());
        let columns = row.min(self.inputs - first);
        let panels = Panels::new(PACKED_ROWS, columns);
        let (out, packed) = memory.split_at_mut(count * row);
        for (piece, dy) in dy.chunks_exact(count * PACKED_ROWS).enumerate() {
            let output = piece * PACKED_ROWS;
            let depth = PACKED_ROWS.min(self.outputs - output);
            let weights = &weights[output * self.inputs + first..];
            pack_panels(panels, weights, self.inputs, depth, packed);
            for panel in panels.iter() {
                RowsTimesPanel {
                    count,
                    place: &|example: usize| (example * PACKED_ROWS, example * row + panel.column),
                    left: dy,
                    runs: &[MemoryRun { start: 0, len: depth }],
                    right: &packed[panel.start..][..depth * panel.width],
                    panel,
                    used: panel.used,
                    spills: false,
                    start: &[],
                    mode: if output == 0 { OutputMode::Overwrite } else { OutputMode::Add },
                    out,
                }
                .run();
            }
        }
    }
}

impl BufferedLayer for Dense {
    fn scratch(&self, count: usize) -> usize {
        let examples = self.examples(count);
        let forward = examples.len() + self.outputs * examples.stored_columns();
        let input_gradient = self.inputs.div_ceil(self.task_columns()) * self.task_memory(count)
            + count * self.outputs.next_multiple_of(PACKED_ROWS);
        forward.max(input_gradient).max(self.columns(count).len())
    }

    fn forward(&self, pass: &mut LayerPass<'_>, params: &[f32], x: &[f32], y: &mut [f32]) {
        let (weights, bias) = params.split_at(self.inputs * self.outputs);
        let examples = self.examples(pass.count);
        let (packed, rest) = pass.scratch.split_at_mut(examples.len());
        pass.pool.for_each_piece(packed, examples.full() * self.inputs, |index, packed| {
            let panel = examples.get(index);
            for (column, packed) in packed.chunks_exact_mut(panel.width).enumerate() {
                let values = x[panel.column * self.inputs + column..].iter().step_by(self.inputs);
                packed[panel.used..].fill(0.0);
                packed.iter_mut().take(panel.used).zip(values).for_each(|(to, from)| *to = *from);
            }
        });
        let (packed, stored) = (&*packed, examples.stored_columns());
        let out = &mut rest[..self.outputs * stored];
        pass.pool.for_each_piece(out, self.task_rows() * stored, |task, out| {
            let weights = &weights[task * self.task_rows() * self.inputs..];
            self.forward_rows(examples, packed, weights, out);
        });
        let out = &*out;
        pass.pool.for_each_piece(
            &mut y[..pass.count * self.outputs],
            self.outputs,
            |example, y| {
                let sums = out[example..].iter().step_by(stored);
                for ((y, sum), bias) in y.iter_mut().zip(sums).zip(bias) {
                    *y = sum + bias;
                }
                (pass.finish)(example, y);
            },
        );
    }

    fn param_gradient(
        &self,
        pass: &mut LayerPass<'_>,
        x: &[f32],
        dy: &[f32],
        mode: OutputMode,
        grad: &mut [f32],
    ) {
        let (x, dy) = (&x[..pass.count * self.inputs], &dy[..pass.count * self.outputs]);
        let (pool, columns) = (pass.pool, self.columns(pass.count));
        let packed = self.pack_columns(pass, x);
        let (weights, bias) = grad.split_at_mut(self.inputs * self.outputs);
        pool.for_each_piece(weights, self.task_rows() * self.inputs, |task, weights| {
            let dy =
                OutputGrad { values: dy, outputs: self.outputs, first: task * self.task_rows() };
            outer_rows(columns, packed, dy, mode, weights);
        });
        dense_backward_bias(dy, mode, bias);
    }

    fn piece(&self, params: usize, threads: usize) -> usize {
        (threads * TASKS_AT_A_TIME * self.task_rows() * self.inputs).max(self.outputs).min(params)
    }

    fn param_gradient_pieces(
        &self,
        pass: &mut LayerPass<'_>,
        x: &[f32],
        dy: &[f32],
        piece: &mut [f32],
        emit: &mut dyn FnMut(usize, &[f32]),
    ) {
        let (x, dy) = (&x[..pass.count * self.inputs], &dy[..pass.count * self.outputs]);
        let (pool, columns) = (pass.pool, self.columns(pass.count));
        let packed = self.pack_columns(pass, x);
        let rows_at_a_time = pool.threads() * TASKS_AT_A_TIME * self.task_rows();
        for first in (0..self.outputs).step_by(rows_at_a_time) {
            let rows = rows_at_a_time.min(self.outputs - first);
            let piece = &mut piece[..rows * self.inputs];
            pool.for_each_piece(piece, self.task_rows() * self.inputs, |task, weights| {
                let row = first + task * self.task_rows();
                let dy = OutputGrad { values: dy, outputs: self.outputs, first: row };
                outer_rows(columns, packed, dy, OutputMode::Overwrite, weights);
            });
            emit(first * self.inputs, piece);
        }
        let bias = &mut piece[..self.outputs];
        dense_backward_bias(dy, OutputMode::Overwrite, bias);
        emit(self.inputs * self.outputs, bias);
    }

    fn factor_sizes(&self) -> Option<FactorSizes> {
        Some(FactorSizes { inputs: self.inputs, outputs: self.outputs })
    }

    fn mean_gradient_pieces(
        &self,
        pool: &ThreadPool,
        workers: &[WeightedFactors<'_>],
        scratch: &mut FactorScratch,
        emit: &mut dyn FnMut(usize, &[f32]),
    ) {
        let FactorScratch { packed, mean, single } = scratch;
        packed.resize_with(packed.len().max(workers.len()), Default::default);
        for (packed, worker) in packed.iter_mut().zip(workers) {
            let (x, count) = (worker.factors.inputs, worker.factors.deltas.len() / self.outputs);
            let len = self.columns(count).len();
            packed.grow(len);
            self.pack_columns_into(pool, count, x, &mut packed[..len]);
        }
        let packed = &*packed;
        let rows_at_a_time = pool.threads() * TASKS_AT_A_TIME * self.task_rows();
        let most = (rows_at_a_time.min(self.outputs) * self.inputs).max(self.outputs);
        mean.grow(most);
        single.grow(most);
        for first in (0..self.outputs).step_by(rows_at_a_time) {
            let floats = rows_at_a_time.min(self.outputs - first) * self.inputs;
            let piece = self.task_rows() * self.inputs;
            let means = Pieces { whole: &mut mean[..floats], piece };
            let singles = Pieces { whole: &mut single[..floats], piece };
            pool.for_each_pair(means, singles, |task, mean, single| {
                let first = first + task * self.task_rows();
                weighted_mean(workers, mean, single, |nth, to| {
                    let values = workers[nth].factors.deltas;
                    let columns = self.columns(values.len() / self.outputs);
                    let dy = OutputGrad { values, outputs: self.outputs, first };
                    outer_rows(columns, &packed[nth], dy, OutputMode::Overwrite, to);
                });
            });
            emit(first * self.inputs, &mean[..floats]);
        }
        let (mean, single) = (&mut mean[..self.outputs], &mut single[..self.outputs]);
        weighted_mean(workers, mean, single, |nth, to| {
            dense_backward_bias(workers[nth].factors.deltas, OutputMode::Overwrite, to);
        });
        emit(self.inputs * self.outputs, mean);
    }

    fn input_gradient(
        &self,
        pass: &mut LayerPass<'_>,
        params: &[f32],
        from: BackwardInputs<'_>,
        dx: &mut [f32],
    ) {
        let (count, columns) = (pass.count, self.task_columns());
        let piece = self.task_memory(count);
        let (out, rest) = pass.scratch.split_at_mut(piece * self.inputs.div_ceil(columns));
        // Examples lie far apart, often at distances at which they evict each other from the cache.
        let dy = &mut rest[..count * self.outputs.next_multiple_of(PACKED_ROWS)];
        for (piece, dy) in dy.chunks_exact_mut(count * PACKED_ROWS).enumerate() {
            let first = piece * PACKED_ROWS;
            let depth = PACKED_ROWS.min(self.outputs - first);
            let rows = from.dy.chunks_exact(self.outputs);
            for (to, from) in dy.chunks_exact_mut(PACKED_ROWS).zip(rows) {
                to[..depth].copy_from_slice(&from[first..][..depth]);
            }
        }
        let dy = &*dy;
        pass.pool.for_each_piece(out, piece, |task, out| {
            self.input_gradient_columns(params, count, dy, task, out);
        });
        let out = &*out;
        pass.pool.for_each_piece(
            &mut dx[..pass.count * self.inputs],
            self.inputs,
            |example, dx| {
                for (task, dx) in dx.chunks_mut(columns).enumerate() {
                    let row = &out[task * piece + example * columns..];
                    dx.copy_from_slice(&row[..dx.len()]);
                }
                (pass.finish)(example, dx);
            },
        );
    }
}

/// The weighted mean of what `compute` gives for each worker, with the bits of
/// [`set_scaled_pair`](crate::kernels::set_scaled_pair) and [`add_scaled`].
fn weighted_mean(
    workers: &[WeightedFactors<'_>],
    mean: &mut [f32],
    single: &mut [f32],
    compute: impl Fn(usize, &mut [f32]),
) {
    for (nth, worker) in workers.iter().enumerate() {
        if nth == 0 {
            compute(nth, mean);
            scale(mean, worker.weight);
        } else {
            compute(nth, single);
            add_scaled(mean, single, worker.weight);
        }
    }
}
