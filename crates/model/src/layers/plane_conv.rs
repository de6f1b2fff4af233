//! The beginning of a network for images with one channel, such as LeNet: a convolution with few
//! outputs, and the means of 2x2 pixels. Between the two each channel is a plane.

use super::layer_op::{BackwardInputs, BufferedLayer, LayerPass};
use super::shape::{PaddedShape, Shape};
use super::windows::Windows;
use crate::kernels::{OutputMode, PLANE_WIDTH, PlaneConv, PlanePool, each};

/// Groups of examples whose gradients are summed apart.
const GROUPS: usize = 8;
/// As many outputs fill a vector, so that the convolution for any channels is as fast.
const OUTPUTS: usize = 16;

/// Whether two layers, from one shape to the next, are such a convolution and such means.
pub(crate) fn fits(shapes: [Shape; 2], conv: Windows, pool: Windows) -> bool {
    let [from, between] = shapes;
    from.channels == 1
        && between.channels < OUTPUTS
        && between.width >= PLANE_WIDTH
        && conv.stride == [1; 2]
        && pool == Windows::square(2, 2)
        && between.height.is_multiple_of(2)
        && between.width.is_multiple_of(2)
}

/// The convolution. It is the first layer, so nothing needs the gradient by its input.
pub(crate) struct FirstConv {
    from: PaddedShape,
    plane: PlaneConv,
    /// The offset of the part of an image that the kernel covers.
    corner: usize,
}

impl FirstConv {
    /// Plans the convolution. The border of `from` is at least the padding.
    pub(crate) fn new(from: PaddedShape, to: Shape, windows: Windows) -> Self {
        let Windows { kernel, padding, .. } = windows;
        let Shape { channels: outputs, height, width } = to;
        let corner = (from.border[0] - padding[0]) * from.row() + from.border[1] - padding[1];
        Self { from, plane: PlaneConv { kernel, row: from.row(), height, width, outputs }, corner }
    }

    fn weights(&self) -> usize {
        self.plane.taps() * self.plane.outputs
    }

    /// Numbers of an example's planes.
    fn planes(&self) -> usize {
        self.plane.outputs * self.plane.height * self.plane.width
    }

    /// The part of an example that the kernel covers.
    fn covered<'x>(&self, x: &'x [f32], example: usize) -> &'x [f32] {
        let len = self.from.len();
        &x[example * len..][self.corner..len]
    }

    /// Scratch memory of a group: its sums, and what the kernel needs.
    fn group(&self) -> usize {
        self.plane.sums() + self.plane.scratch()
    }
}

impl BufferedLayer for FirstConv {
    fn scratch(&self, _: usize) -> usize {
        self.weights().max(GROUPS * self.group())
    }

    fn forward(&self, pass: &mut LayerPass<'_>, params: &[f32], x: &[f32], y: &mut [f32]) {
        let (weights, bias) = params.split_at(self.weights());
        let (taps, len) = (self.plane.taps(), self.planes());
        let packed = &mut pass.scratch[..weights.len()];
        for (tap, packed) in packed.chunks_exact_mut(self.plane.outputs).enumerate() {
            let weights = weights[tap..].iter().step_by(taps);
            packed.iter_mut().zip(weights).for_each(|(to, from)| *to = *from);
        }
        let packed = &*packed;
        pass.pool.for_each_piece(&mut y[..pass.count * len], len, |example, y| {
            self.plane.forward(self.covered(x, example), packed, bias, y);
            (pass.finish)(example, y);
        });
    }

    fn param_gradient(
        &self,
        pass: &mut LayerPass<'_>,
        x: &[f32],
        dy: &[f32],
        mode: OutputMode,
        grad: &mut [f32],
    ) {
        let (count, len, sums) = (pass.count, self.planes(), self.plane.sums());
        let examples = count.div_ceil(GROUPS).max(1);
        let groups = &mut pass.scratch[..count.div_ceil(examples) * self.group()];
        pass.pool.for_each_piece(groups, self.group(), |group, memory| {
            let (sums, scratch) = memory.split_at_mut(sums);
            sums.fill(0.0);
            for example in group * examples..((group + 1) * examples).min(count) {
                let dy = &dy[example * len..][..len];
                self.plane.add_gradient(self.covered(x, example), dy, scratch, sums);
            }
        });
        mode.prepare(grad);
        let mut groups = groups.chunks_exact_mut(self.group());
        let Some(first) = groups.next() else { return };
        let first = &mut first[..sums];
        for group in groups {
            each(
                #[inline(always)]
                || first.iter_mut().zip(&*group).for_each(|(sum, part)| *sum += part),
            );
        }
        let (weights, bias) = grad.split_at_mut(self.weights());
        let taps = self.plane.taps();
        self.plane.total(first, |tap, output, sum| {
            if tap == taps {
                bias[output] += sum;
            } else {
                weights[output * taps + tap] += sum;
            }
        });
    }

    fn input_gradient(
        &self,
        _: &mut LayerPass<'_>,
        _: &[f32],
        _: BackwardInputs<'_>,
        _: &mut [f32],
    ) {
        unreachable!("nothing is before the first layer")
    }
}

/// The means of 2x2 pixels of planes.
pub(crate) struct PlaneMeans {
    pool: PlanePool,
    to: PaddedShape,
}

impl PlaneMeans {
    /// Plans the means of an image.
    pub(crate) fn new(from: Shape, to: PaddedShape) -> Self {
        let Shape { channels, height, width } = from;
        Self { pool: PlanePool { height, width, channels, row: to.row() }, to }
    }

    /// Numbers of an example's planes.
    fn planes(&self) -> usize {
        self.pool.channels * self.pool.height * self.pool.width
    }
}

impl BufferedLayer for PlaneMeans {
    fn forward(&self, pass: &mut LayerPass<'_>, _: &[f32], x: &[f32], y: &mut [f32]) {
        let (len, planes) = (self.to.len(), self.planes());
        pass.pool.for_each_piece(&mut y[..pass.count * len], len, |example, y| {
            self.pool.forward(&x[example * planes..][..planes], &mut y[self.to.at(0, 0)..]);
            (pass.finish)(example, y);
        });
    }

    fn input_gradient(
        &self,
        pass: &mut LayerPass<'_>,
        _: &[f32],
        inputs: BackwardInputs<'_>,
        dx: &mut [f32],
    ) {
        let (len, planes) = (self.to.len(), self.planes());
        pass.pool.for_each_piece(&mut dx[..pass.count * planes], planes, |example, dx| {
            self.pool.gradient(&inputs.dy[example * len..][self.to.at(0, 0)..len], dx);
            (pass.finish)(example, dx);
        });
    }
}

#[cfg(test)]
mod tests;
