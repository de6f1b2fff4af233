//! A dense layer: every output from every input.
//!
//! Its weights are read or written once in each direction, and at usual batches that takes as
//! long as the arithmetic; so all three products are arranged around the weights, a row for each
//! output, as they lie. Forward, rows of weights go against the examples packed side by side;
//! backward, the examples' rows go against pieces of the weights. Threads share outputs or
//! inputs, never examples, so that each of the weights goes through one core alone.

use super::stage::{Pass, Seen, Stage};
use crate::OutputMode;
use crate::kernels::pack::pack_panels;
use crate::kernels::panels::Panels;
use crate::kernels::tile::{RowsTimesPanel, Run};
use crate::kernels::{OUTER_ROWS, outer_rows};

/// Rows of weights, one for each output, that a task takes.
const TASK_ROWS: usize = OUTER_ROWS;
/// Tasks, for each thread, whose gradient is made before it is handed on. Enough to keep threads
/// busy, and few enough for it to be in the last cache still.
const TASKS_AT_A_TIME: usize = 2;
/// Inputs that go through the tiles together on the way forward: packed examples of so many
/// inputs stay in the first-level cache.
const DEPTH: usize = 128;
/// Inputs that a task takes on the way back: a page of each row, so that the memory behind a
/// page's address is looked up once.
const TASK_COLUMNS: usize = 1024;
/// Outputs whose weights are packed at a time on the way back.
const PACKED_ROWS: usize = 32;

/// A dense layer.
pub(crate) struct Dense {
    inputs: usize,
    outputs: usize,
}

impl Dense {
    /// Plans a layer.
    pub(crate) fn new(inputs: usize, outputs: usize) -> Self {
        Self { inputs, outputs }
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
    fn pack_columns<'p>(&self, pass: &'p mut Pass<'_>, x: &[f32]) -> &'p [f32] {
        let columns = self.columns(pass.count);
        let packed = &mut pass.scratch[..columns.len()];
        pass.crew.each(packed, columns.full() * pass.count, |index, packed| {
            let panel = columns.get(index);
            let columns = Panels::new(pass.count, panel.used);
            pack_panels(columns, &x[panel.column..], self.inputs, pass.count, packed);
        });
        packed
    }

    /// The gradient by the biases.
    fn put_bias(&self, dy: &[f32], onto: OutputMode, bias: &mut [f32]) {
        if onto == OutputMode::Overwrite {
            bias.fill(0.0);
        }
        for dy in dy.chunks_exact(self.outputs) {
            bias.iter_mut().zip(dy).for_each(|(sum, value)| *sum += value);
        }
    }

    /// The outputs of some rows of weights, from row `first`, a row of `out` for each.
    fn forward_rows(&self, examples: Panels, packed: &[f32], weights: &[f32], out: &mut [f32]) {
        let stored = examples.stored_columns();
        for first in (0..self.inputs).step_by(DEPTH) {
            let depth = DEPTH.min(self.inputs - first);
            for panel in examples.iter() {
                RowsTimesPanel {
                    count: out.len() / stored,
                    place: |row: usize| (row * self.inputs + first, row * stored + panel.column),
                    left: weights,
                    runs: &[Run { start: 0, len: depth }],
                    panel: &packed[panel.start + first * panel.width..][..depth * panel.width],
                    width: panel.width,
                    used: panel.width,
                    start: &[],
                    onto: if first == 0 { OutputMode::Overwrite } else { OutputMode::Add },
                    out,
                }
                .run();
            }
        }
    }

    /// The gradient by some inputs, from input `first` on, a row of `out` for each example. `dy`
    /// comes cut into pieces of [`PACKED_ROWS`] outputs.
    fn back_columns(
        &self,
        weights: &[f32],
        (count, dy): (usize, &[f32]),
        first: usize,
        out: &mut [f32],
    ) {
        let columns = TASK_COLUMNS.min(self.inputs - first);
        let panels = Panels::new(PACKED_ROWS, columns);
        let mut packed = [0.0; PACKED_ROWS * TASK_COLUMNS];
        for (piece, dy) in dy.chunks_exact(count * PACKED_ROWS).enumerate() {
            let output = piece * PACKED_ROWS;
            let depth = PACKED_ROWS.min(self.outputs - output);
            let weights = &weights[output * self.inputs + first..];
            pack_panels(panels, weights, self.inputs, depth, &mut packed);
            for panel in panels.iter() {
                RowsTimesPanel {
                    count,
                    place: |row: usize| (row * PACKED_ROWS, row * TASK_COLUMNS + panel.column),
                    left: dy,
                    runs: &[Run { start: 0, len: depth }],
                    panel: &packed[panel.start..][..depth * panel.width],
                    width: panel.width,
                    used: panel.used,
                    start: &[],
                    onto: if output == 0 { OutputMode::Overwrite } else { OutputMode::Add },
                    out,
                }
                .run();
            }
        }
    }
}

impl Stage for Dense {
    fn scratch(&self, count: usize) -> usize {
        let examples = self.examples(count);
        let forward = examples.len() + self.outputs * examples.stored_columns();
        let sums = count * self.inputs.next_multiple_of(TASK_COLUMNS);
        let back = sums + count * self.outputs.next_multiple_of(PACKED_ROWS);
        forward.max(back).max(self.columns(count).len())
    }

    fn forward(&self, pass: &mut Pass<'_>, params: &[f32], x: &[f32], y: &mut [f32]) {
        let (weights, bias) = params.split_at(self.inputs * self.outputs);
        let examples = self.examples(pass.count);
        let (packed, rest) = pass.scratch.split_at_mut(examples.len());
        pass.crew.each(packed, examples.full() * self.inputs, |index, packed| {
            let panel = examples.get(index);
            for (column, packed) in packed.chunks_exact_mut(panel.width).enumerate() {
                let values = x[panel.column * self.inputs + column..].iter().step_by(self.inputs);
                packed[panel.used..].fill(0.0);
                packed.iter_mut().take(panel.used).zip(values).for_each(|(to, from)| *to = *from);
            }
        });
        let (packed, stored) = (&*packed, examples.stored_columns());
        let out = &mut rest[..self.outputs * stored];
        pass.crew.each(out, TASK_ROWS * stored, |task, out| {
            let weights = &weights[task * TASK_ROWS * self.inputs..];
            self.forward_rows(examples, packed, weights, out);
        });
        let out = &*out;
        pass.crew.each(&mut y[..pass.count * self.outputs], self.outputs, |example, y| {
            let sums = out[example..].iter().step_by(stored);
            for ((y, sum), bias) in y.iter_mut().zip(sums).zip(bias) {
                *y = sum + bias;
            }
        });
    }

    fn slope(
        &self,
        pass: &mut Pass<'_>,
        x: &[f32],
        dy: &[f32],
        onto: OutputMode,
        grad: &mut [f32],
    ) {
        let (x, dy) = (&x[..pass.count * self.inputs], &dy[..pass.count * self.outputs]);
        let (crew, columns) = (pass.crew, self.columns(pass.count));
        let packed = self.pack_columns(pass, x);
        let (weights, bias) = grad.split_at_mut(self.inputs * self.outputs);
        crew.each(weights, TASK_ROWS * self.inputs, |task, weights| {
            outer_rows(columns, packed, (dy, self.outputs, task * TASK_ROWS), onto, weights);
        });
        self.put_bias(dy, onto, bias);
    }

    fn piece(&self, params: usize, threads: usize) -> usize {
        (threads * TASKS_AT_A_TIME * TASK_ROWS * self.inputs).max(self.outputs).min(params)
    }

    fn slope_in_pieces(
        &self,
        pass: &mut Pass<'_>,
        x: &[f32],
        dy: &[f32],
        piece: &mut [f32],
        hand_on: &mut dyn FnMut(usize, &[f32]),
    ) {
        let (x, dy) = (&x[..pass.count * self.inputs], &dy[..pass.count * self.outputs]);
        let (crew, columns) = (pass.crew, self.columns(pass.count));
        let packed = self.pack_columns(pass, x);
        let rows_at_a_time = crew.threads() * TASKS_AT_A_TIME * TASK_ROWS;
        for first in (0..self.outputs).step_by(rows_at_a_time) {
            let rows = rows_at_a_time.min(self.outputs - first);
            let piece = &mut piece[..rows * self.inputs];
            crew.each(piece, TASK_ROWS * self.inputs, |task, weights| {
                let row = first + task * TASK_ROWS;
                outer_rows(
                    columns,
                    packed,
                    (dy, self.outputs, row),
                    OutputMode::Overwrite,
                    weights,
                );
            });
            hand_on(first * self.inputs, piece);
        }
        let bias = &mut piece[..self.outputs];
        self.put_bias(dy, OutputMode::Overwrite, bias);
        hand_on(self.inputs * self.outputs, bias);
    }

    fn back(&self, pass: &mut Pass<'_>, params: &[f32], from: Seen<'_>, dx: &mut [f32]) {
        let count = pass.count;
        let piece = count * TASK_COLUMNS;
        let (out, rest) = pass.scratch.split_at_mut(piece * self.inputs.div_ceil(TASK_COLUMNS));
        // Examples lie far apart, and often just so that they push each other out of the cache.
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
        pass.crew.each(out, piece, |task, out| {
            self.back_columns(params, (count, dy), task * TASK_COLUMNS, out);
        });
        let out = &*out;
        pass.crew.each(&mut dx[..pass.count * self.inputs], self.inputs, |example, dx| {
            for (task, dx) in dx.chunks_mut(TASK_COLUMNS).enumerate() {
                let columns = &out[task * piece + example * TASK_COLUMNS..];
                dx.copy_from_slice(&columns[..dx.len()]);
            }
        });
    }
}
