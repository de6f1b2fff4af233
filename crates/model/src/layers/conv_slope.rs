//! The gradient of a convolution by its weights.
//!
//! It is a sum over all pixels of all examples: what the kernel covers, times the gradient by
//! the output. Threads share it by rows of the sums, so each sum is one thread's and its order
//! is fixed. A task takes so many rows that an image's share of both factors fits into the
//! second-level cache. The second factor is packed into panels beforehand, so that a panel is in
//! the first-level cache while all rows of a task use it.

use pulp::{Arch, Simd, WithSimd};

use super::conv::{Conv, divided};
use super::conv_sums::{Sums, TASK_ROWS};
use super::stage::Pass;
use crate::OutputMode;
use crate::kernels::each;
use crate::kernels::pack::copy_row;
use crate::kernels::panels::Panels;
use crate::kernels::tile::VECTORS;

/// There shall be so many tasks; where the rows do not give them, groups of examples do.
const TASKS: usize = 8;

/// How a gradient by weights is cut into tasks. It depends on sizes alone.
struct Cut {
    /// Rows of the sums that a task takes.
    rows: usize,
    /// Tasks that it takes for all rows.
    blocks: usize,
    /// Groups of examples, each with its own sums.
    groups: usize,
    /// Examples of a group.
    examples: usize,
}

impl Conv {
    /// Cuts the work for so many examples.
    fn cut(&self, count: usize) -> Cut {
        let run = self.run();
        let rows = if run > TASK_ROWS { TASK_ROWS } else { TASK_ROWS / run * run };
        let blocks = self.covered().div_ceil(rows);
        let examples = count.div_ceil(groups(blocks, count));
        Cut { rows, blocks, groups: count.div_ceil(examples.max(1)).max(1), examples }
    }

    /// An example's gradient by the output, packed.
    fn panels(&self) -> Panels {
        Panels::new(self.pixels.len(), self.to.shape.channels)
    }

    /// Scratch memory for so many examples: the packed gradient by the output, the sums, and
    /// each example's part of the bias.
    pub(super) fn slope_scratch(&self, count: usize) -> usize {
        // Fewer examples than planned for may make more groups, but no more than this.
        let Cut { rows, blocks, .. } = self.cut(count);
        let sums = groups(blocks, count) * blocks * rows * self.outputs.stored_columns();
        sums + count * (self.panels().len() + self.to.shape.channels)
    }

    /// Puts the gradient by weights and bias onto `grad`.
    pub(super) fn put_slope(
        &self,
        pass: &mut Pass<'_>,
        x: &[f32],
        dy: &[f32],
        onto: OutputMode,
        grad: &mut [f32],
    ) {
        let outputs = self.to.shape.channels;
        let stored = self.outputs.stored_columns();
        let cut = self.cut(pass.count);
        let group = cut.blocks * cut.rows * stored;
        let panels = self.panels();
        let (packed, rest) = pass.scratch.split_at_mut(pass.count * panels.len());
        pass.crew.each(packed, panels.len(), |example, packed| {
            let dy = &dy[example * self.to.len()..][..self.to.len()];
            Arch::new().dispatch(Pack { conv: self, panels, dy, packed });
        });
        let (dy_packed, (sums, rest)) = (&*packed, rest.split_at_mut(cut.groups * group));
        pass.crew.each(sums, cut.rows * stored, |task, sums| {
            let (group, block) = divided(task, cut.blocks);
            let first = block * cut.rows;
            let rows = cut.rows.min(self.covered() - first);
            let sums = &mut sums[..rows * stored];
            let from = group * cut.examples;
            let examples = from..(from + cut.examples).min(pass.count);
            Arch::new().dispatch(Sums {
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
        pass.crew.each(weights, some * self.covered(), |task, weights| {
            let mut onto = onto;
            for sums in sums.chunks_exact(group) {
                let sums = &sums[..self.covered() * stored];
                self.put_weights(sums, task * some, onto, weights);
                onto = OutputMode::Add;
            }
        });
        let parts = &mut rest[..pass.count * outputs];
        pass.crew.each(parts, outputs, |example, part| {
            each(
                #[inline(always)]
                || self.sum_pixels(&dy[example * self.to.len()..][..self.to.len()], part),
            );
        });
        if onto == OutputMode::Overwrite {
            bias.fill(0.0);
        }
        for part in parts.chunks_exact(outputs) {
            bias.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
    }

    /// The weights of some outputs, from the first on, out of the sums' order.
    fn put_weights(&self, sums: &[f32], first: usize, onto: OutputMode, weights: &mut [f32]) {
        let inputs = self.from.shape.channels;
        let taps = self.kernel[0] * self.kernel[1];
        let stored = self.outputs.stored_columns();
        for (row, sums) in sums.chunks_exact(stored).enumerate() {
            let (tap, input) = divided(row, inputs);
            let weights = weights[input * taps + tap..].iter_mut().step_by(inputs * taps);
            for (weight, sum) in weights.zip(&sums[first..]) {
                *weight = if onto == OutputMode::Overwrite { *sum } else { *weight + sum };
            }
        }
    }

    /// The sum over an example's pixels, for each output.
    #[inline(always)]
    fn sum_pixels(&self, dy: &[f32], part: &mut [f32]) {
        part.fill(0.0);
        for &(_, at) in &self.pixels {
            let pixel = &dy[at..][..part.len()];
            part.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += value);
        }
    }
}

/// The most groups that so many examples are worth.
fn groups(blocks: usize, count: usize) -> usize {
    (TASKS / blocks).clamp(1, count.max(1))
}

/// An example's gradient by the output, to be packed.
struct Pack<'a> {
    conv: &'a Conv,
    panels: Panels,
    dy: &'a [f32],
    packed: &'a mut [f32],
}

impl WithSimd for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for panel in self.panels.iter() {
            let rows = self.packed[panel.start..].chunks_exact_mut(panel.width);
            for (row, &(_, at)) in rows.zip(&self.conv.pixels) {
                let pixel = &self.dy[at + panel.column..][..panel.used];
                if panel.width == S::F32_LANES {
                    copy_row::<S, 1>(pixel, row);
                } else {
                    copy_row::<S, VECTORS>(pixel, row);
                }
            }
        }
    }
}
