//! The gradient of a convolution by its weights.
//!
//! It is a sum over all pixels of all examples: the part that the kernel covers, times the
//! gradient by the output. Threads divide the rows of the sums, so one thread computes each sum in
//! a fixed order. A task takes as many rows as let an image's share of both factors fit into the
//! second-level cache. The second factor is packed into panels beforehand, so that a panel is in
//! the first-level cache while all rows of a task use it.

use pulp::{Simd, WithSimd};

use super::conv::{Conv, divided};
use super::conv_grad_tiles::{ConvSums, TASK_ROWS};
use super::layer_op::LayerPass;
use crate::kernels::OutputMode;
use crate::kernels::each;
use crate::kernels::pack::copy_row;
use crate::kernels::panels::Panels;
use crate::thread_pool::{Pieces, ThreadPool};

/// The intended number of tasks. If there are too few rows for them, examples form groups.
const TASKS: usize = 8;

/// The division of a gradient into tasks, which depends on sizes alone.
struct GradientCut {
    /// Rows of a task.
    rows: usize,
    /// Tasks that cover all rows.
    blocks: usize,
    /// Groups of examples, each with its own sums.
    groups: usize,
    /// Examples of a group.
    examples: usize,
}

impl Conv {
    /// Cuts the work for `count` examples.
    fn cut(&self, count: usize) -> GradientCut {
        let run = self.run();
        let rows = if run > TASK_ROWS { TASK_ROWS } else { TASK_ROWS / run * run };
        let blocks = self.covered().div_ceil(rows);
        let examples = count.div_ceil(groups(blocks, count));
        GradientCut { rows, blocks, groups: count.div_ceil(examples.max(1)).max(1), examples }
    }

    /// The panels of an example's gradient by the output.
    fn panels(&self) -> Panels {
        Panels::new(self.pixels.len(), self.to.shape.channels)
    }

    /// The scratch memory for `count` examples: the packed gradient by the output, the sums, and
    /// each example's part of the bias.
    pub(super) fn weight_gradient_scratch(&self, count: usize) -> usize {
        // Fewer examples may form more groups, but never more than these.
        let GradientCut { rows, blocks, .. } = self.cut(count);
        let sums = groups(blocks, count) * blocks * rows * self.outputs.stored_columns();
        sums + count * (self.panels().len() + self.to.shape.channels)
    }

    /// Computes the gradient by weights and bias.
    pub(super) fn weight_gradient(
        &self,
        pass: &mut LayerPass<'_>,
        x: &[f32],
        dy: &[f32],
        mode: OutputMode,
        grad: &mut [f32],
    ) {
        let outputs = self.to.shape.channels;
        let stored = self.outputs.stored_columns();
        let cut = self.cut(pass.count);
        let group = cut.blocks * cut.rows * stored;
        let panels = self.panels();
        let (packed, rest) = pass.scratch.split_at_mut(pass.count * panels.len());
        let (sums, rest) = rest.split_at_mut(cut.groups * group);
        let parts = &mut rest[..pass.count * outputs];
        pass.pool.for_each_pair(
            Pieces { whole: &mut *packed, piece: panels.len() },
            Pieces { whole: &mut *parts, piece: outputs },
            |example, packed, part| {
                let dy = &dy[example * self.to.len()..][..self.to.len()];
                panels.vectors().dispatch(PackOutputGrad { conv: self, panels, dy, packed });
                self.sum_of_pixels(dy, part);
            },
        );
        let dy_packed = &*packed;
        pass.pool.for_each_piece(sums, cut.rows * stored, |task, sums| {
            let (group, block) = divided(task, cut.blocks);
            let first = block * cut.rows;
            let rows = cut.rows.min(self.covered() - first);
            let sums = &mut sums[..rows * stored];
            let from = group * cut.examples;
            let examples = from..(from + cut.examples).min(pass.count);
            panels.vectors().dispatch(ConvSums {
                conv: self,
                x,
                panels,
                dy_packed,
                first,
                rows,
                examples,
                sums,
            });
        });
        let (weights, bias) = grad.split_at_mut(self.covered() * outputs);
        let sums = &*sums;
        let some = self.outputs.full();
        pass.pool.for_each_piece(weights, some * self.covered(), |task, weights| {
            let mut mode = mode;
            for sums in sums.chunks_exact(group) {
                let sums = &sums[..self.covered() * stored];
                self.put_weights(sums, task * some, mode, weights);
                mode = OutputMode::Add;
            }
        });
        add_parts(parts, mode, bias);
    }

    /// Computes the gradient by the bias, with a part of the sum for each example.
    pub(super) fn bias_gradient(
        &self,
        pool: &ThreadPool,
        dy: &[f32],
        parts: &mut [f32],
        mode: OutputMode,
        bias: &mut [f32],
    ) {
        let outputs = self.to.shape.channels;
        pool.for_each_piece(parts, outputs, |example, part| {
            self.sum_of_pixels(&dy[example * self.to.len()..][..self.to.len()], part);
        });
        add_parts(parts, mode, bias);
    }

    /// An example's part of the gradient by the bias.
    fn sum_of_pixels(&self, dy: &[f32], part: &mut [f32]) {
        each(
            #[inline(always)]
            || self.sum_pixels(dy, part),
        );
    }

    /// Writes the gradient of some outputs' weights, from output `first` on, in the weights' order.
    fn put_weights(&self, sums: &[f32], first: usize, mode: OutputMode, weights: &mut [f32]) {
        let inputs = self.from.shape.channels;
        let taps = self.kernel[0] * self.kernel[1];
        let stored = self.outputs.stored_columns();
        for (row, sums) in sums.chunks_exact(stored).enumerate() {
            let (tap, input) = divided(row, inputs);
            let weights = weights[input * taps + tap..].iter_mut().step_by(inputs * taps);
            for (weight, sum) in weights.zip(&sums[first..]) {
                *weight = if mode == OutputMode::Overwrite { *sum } else { *weight + sum };
            }
        }
    }

    /// The sum over an example's pixels, for each output.
    #[inline(always)]
    fn sum_pixels(&self, dy: &[f32], part: &mut [f32]) {
        match part.len() {
            4 => return self.sum_few::<4>(dy, part),
            6 => return self.sum_few::<6>(dy, part),
            8 => return self.sum_few::<8>(dy, part),
            16 => return self.sum_few::<16>(dy, part),
            _ => {}
        }
        part.fill(0.0);
        for pixel in &self.pixels {
            let pixel = &dy[pixel.output..][..part.len()];
            part.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += value);
        }
    }
}

impl Conv {
    /// As [`Conv::sum_pixels`] for few outputs: the sums stay in registers.
    #[inline(always)]
    fn sum_few<const N: usize>(&self, dy: &[f32], part: &mut [f32]) {
        let mut sums = [0.0; N];
        for pixel in &self.pixels {
            let Some(pixel) = dy[pixel.output..].first_chunk::<N>() else { break };
            for n in 0..N {
                sums[n] += pixel[n];
            }
        }
        part.copy_from_slice(&sums);
    }
}

/// Adds the parts of all examples.
fn add_parts(parts: &[f32], mode: OutputMode, bias: &mut [f32]) {
    mode.prepare(bias);
    for part in parts.chunks_exact(bias.len()) {
        bias.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
}

/// The most groups that `count` examples form.
fn groups(blocks: usize, count: usize) -> usize {
    (TASKS / blocks).clamp(1, count.max(1))
}

/// Packs an example's gradient by the output into panels.
struct PackOutputGrad<'a> {
    conv: &'a Conv,
    panels: Panels,
    dy: &'a [f32],
    packed: &'a mut [f32],
}

impl WithSimd for PackOutputGrad<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for panel in self.panels.iter() {
            let rows = self.packed[panel.start..].chunks_exact_mut(panel.width);
            for (row, pixel) in rows.zip(&self.conv.pixels) {
                let pixel = &self.dy[pixel.output + panel.column..][..panel.used];
                copy_row(simd, pixel, row);
            }
        }
    }
}
