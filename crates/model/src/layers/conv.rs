//! Convolution in two dimensions, without copies of patches.
//!
//! Forward, an output pixel is a row of a product: the part of the image that the kernel covers,
//! times the weights. Because a pixel's channels lie together, the covered part of an image row
//! is contiguous, and tiles read it in place. Backward, the transposed product is added to the
//! gradient of the covered part. The weights are packed once per step for each direction. The
//! gradient by the weights is in `conv_weight_grad.rs`.

use super::layer_op::{BackwardInputs, BufferedLayer, LayerPass};
use super::shape::PaddedShape;
use super::windows::Windows;
use crate::kernels::OutputMode;
use crate::kernels::panels::{Panel, Panels};
use crate::kernels::tile::{MemoryRun, RowsTimesPanel};

/// Rows of a panel that the tiles use together, so that they stay in the first-level cache: 384
/// rows of 64 bytes.
const DEPTH: usize = 384;
/// Numbers of an input image that are processed together, so that they stay in the second-level
/// cache while every panel of weights is applied to them.
const SLAB: usize = 64 * 1024;

/// A convolution layer.
pub(crate) struct Conv {
    pub(super) from: PaddedShape,
    pub(super) to: PaddedShape,
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) pixels: Vec<ConvPixel>,
    /// The same pixels, column by column within each slab: what the kernel covers at neighbours in
    /// a column is in different rows, so no tile reads what has just been written.
    by_column: Vec<ConvPixel>,
    /// Output pixels that are processed together.
    slab: usize,
    /// The part that the kernel covers as contiguous runs, in groups of at most [`DEPTH`].
    groups: Vec<Vec<MemoryRun>>,
    /// The weights as `[rows, columns, inputs] x outputs`.
    pub(super) outputs: Panels,
    /// The weights of one row of the kernel as `outputs x [columns, inputs]`.
    taps: Panels,
    /// Whether the forward pass may write zeros behind a pixel: the next pixel, which comes later,
    /// follows at once.
    spills: bool,
}

/// An output pixel.
#[derive(Clone, Copy)]
pub(super) struct ConvPixel {
    /// The offset of the part of the input that the kernel covers.
    pub(super) covered: usize,
    /// The offset of the pixel in the output.
    pub(super) output: usize,
}

impl Conv {
    /// Plans a convolution. The border of `from` is at least the padding of the windows.
    pub(crate) fn new(from: PaddedShape, to: PaddedShape, windows: Windows) -> Self {
        let Windows { kernel, stride, padding } = windows;
        let corner = (from.border[0] - padding[0]) * from.row()
            + (from.border[1] - padding[1]) * from.shape.channels;
        let place = |y: usize, x: usize| {
            let covered = y * stride[0] * from.row() + x * stride[1] * from.shape.channels;
            ConvPixel { covered: corner + covered, output: to.at(y, x) }
        };
        let (height, width) = (to.shape.height, to.shape.width);
        let run = kernel[1] * from.shape.channels;
        let slab_rows = (SLAB / (stride[0] * from.row())).saturating_sub(kernel[0]).max(1);
        let slabs = height.div_ceil(slab_rows);
        let outputs = Panels::new(kernel[0] * run, to.shape.channels);
        let slab = height.div_ceil(slabs);
        let by_column = (0..height).step_by(slab).flat_map(|first| {
            let rows = first..(first + slab).min(height);
            (0..width).flat_map(move |x| rows.clone().map(move |y| (y, x)))
        });
        Self {
            by_column: by_column.map(|(y, x)| place(y, x)).collect(),
            spills: outputs.count() == 1 && to.border == [0; 2],
            pixels: (0..height * width).map(|pixel| place(pixel / width, pixel % width)).collect(),
            slab: slab * width,
            groups: groups(kernel[0], run, from.row()),
            outputs,
            taps: Panels::new(to.shape.channels, run),
            from,
            to,
            kernel,
            stride,
        }
    }

    /// Numbers that the kernel covers.
    pub(super) fn covered(&self) -> usize {
        self.kernel[0] * self.run()
    }

    /// Numbers that one row of the kernel covers.
    pub(super) fn run(&self) -> usize {
        self.kernel[1] * self.from.shape.channels
    }

    /// Packs one panel of the weights for the forward pass.
    fn pack_outputs(&self, weights: &[f32], panel: Panel, packed: &mut [f32]) {
        let (inputs, taps) = (self.from.shape.channels, self.kernel[0] * self.kernel[1]);
        if panel.used < panel.width {
            packed.fill(0.0);
        }
        let rows = weights[panel.column * inputs * taps..].chunks_exact(inputs * taps);
        for (column, row) in rows.take(panel.used).enumerate() {
            for (input, kernel) in row.chunks_exact(taps).enumerate() {
                for (tap, &weight) in kernel.iter().enumerate() {
                    packed[(tap * inputs + input) * panel.width + column] = weight;
                }
            }
        }
    }

    /// Packs the weights of one row of the kernel for the backward pass.
    fn pack_taps(&self, weights: &[f32], y: usize, packed: &mut [f32]) {
        let inputs = self.from.shape.channels;
        let taps = self.kernel[0] * self.kernel[1];
        for panel in self.taps.iter() {
            let rows = packed[panel.start..].chunks_exact_mut(panel.width);
            for (packed, weights) in rows.zip(weights.chunks_exact(inputs * taps)) {
                packed[panel.used..].fill(0.0);
                for (column, packed) in packed[..panel.used].iter_mut().enumerate() {
                    let (x, input) = divided(panel.column + column, inputs);
                    *packed = weights[input * taps + y * self.kernel[1] + x];
                }
            }
        }
    }

    fn forward_image(&self, packed: &[f32], bias: &[f32], x: &[f32], y: &mut [f32]) {
        for pixels in self.pixels.chunks(self.slab) {
            for panel in self.outputs.iter() {
                let mut packed = &packed[panel.start..];
                let mut mode = OutputMode::Overwrite;
                for runs in &self.groups {
                    let depth = runs.iter().map(|run| run.len).sum::<usize>() * panel.width;
                    RowsTimesPanel {
                        count: pixels.len(),
                        place: &|row: usize| {
                            (pixels[row].covered, pixels[row].output + panel.column)
                        },
                        left: x,
                        runs,
                        right: &packed[..depth],
                        panel,
                        used: panel.used,
                        spills: self.spills,
                        start: if mode == OutputMode::Overwrite {
                            &bias[panel.column..]
                        } else {
                            &[]
                        },
                        mode,
                        out: y,
                    }
                    .run();
                    packed = &packed[depth..];
                    mode = OutputMode::Add;
                }
            }
        }
    }

    fn input_gradient_image(&self, packed: &[f32], dy: &[f32], dx: &mut [f32]) {
        dx.fill(0.0);
        for pixels in self.by_column.chunks(self.slab) {
            for y in 0..self.kernel[0] {
                let packed = &packed[y * self.taps.len()..][..self.taps.len()];
                for panel in self.taps.iter() {
                    let to = y * self.from.row() + panel.column;
                    self.input_gradient_panel(&packed[panel.start..], panel, pixels, to, dy, dx);
                }
            }
        }
    }

    /// Adds the product with one panel of the weights to the part that the kernel covers at some
    /// pixels, `to` numbers from its beginning.
    fn input_gradient_panel(
        &self,
        packed: &[f32],
        panel: Panel,
        pixels: &[ConvPixel],
        to: usize,
        dy: &[f32],
        dx: &mut [f32],
    ) {
        let outputs = self.to.shape.channels;
        for first in (0..outputs).step_by(DEPTH) {
            let depth = DEPTH.min(outputs - first);
            RowsTimesPanel {
                count: pixels.len(),
                place: &|row: usize| (pixels[row].output, pixels[row].covered + to),
                left: dy,
                runs: &[MemoryRun { start: first, len: depth }],
                right: &packed[first * panel.width..][..depth * panel.width],
                panel,
                used: panel.used,
                spills: true,
                start: &[],
                mode: OutputMode::Add,
                out: dx,
            }
            .run();
        }
    }
}

impl BufferedLayer for Conv {
    fn scratch(&self, count: usize) -> usize {
        self.outputs
            .len()
            .max(self.kernel[0] * self.taps.len())
            .max(self.weight_gradient_scratch(count))
    }

    fn forward(&self, pass: &mut LayerPass<'_>, params: &[f32], x: &[f32], y: &mut [f32]) {
        let (weights, bias) = params.split_at(self.covered() * self.to.shape.channels);
        let packed = &mut pass.scratch[..self.outputs.len()];
        pass.pool.for_each_piece(packed, self.outputs.full() * self.covered(), |panel, packed| {
            self.pack_outputs(weights, self.outputs.get(panel), packed);
        });
        let packed = &*packed;
        pass.pool.for_each_piece(
            &mut y[..pass.count * self.to.len()],
            self.to.len(),
            |example, y| {
                let x = &x[example * self.from.len()..][..self.from.len()];
                self.forward_image(packed, bias, x, y);
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
        self.weight_gradient(pass, x, dy, mode, grad);
    }

    fn input_gradient(
        &self,
        pass: &mut LayerPass<'_>,
        params: &[f32],
        from: BackwardInputs<'_>,
        dx: &mut [f32],
    ) {
        let weights = &params[..self.covered() * self.to.shape.channels];
        let packed = &mut pass.scratch[..self.kernel[0] * self.taps.len()];
        pass.pool.for_each_piece(packed, self.taps.len(), |y, packed| {
            self.pack_taps(weights, y, packed)
        });
        let packed = &*packed;
        pass.pool.for_each_piece(
            &mut dx[..pass.count * self.from.len()],
            self.from.len(),
            |example, dx| {
                let dy = &from.dy[example * self.to.len()..][..self.to.len()];
                self.input_gradient_image(packed, dy, dx);
                (pass.finish)(example, dx);
            },
        );
    }
}

/// The runs of a kernel of `rows` rows in groups: short ones together, long ones cut.
fn groups(rows: usize, run: usize, distance: usize) -> Vec<Vec<MemoryRun>> {
    let pieces = run.div_ceil(DEPTH);
    let piece = run.div_ceil(pieces);
    let together = (DEPTH / piece).max(1);
    let mut runs = Vec::new();
    for y in 0..rows {
        for first in (0..run).step_by(piece) {
            runs.push(MemoryRun { start: y * distance + first, len: piece.min(run - first) });
        }
    }
    runs.chunks(together).map(<[MemoryRun]>::to_vec).collect()
}

/// Quotient and remainder.
pub(super) fn divided(number: usize, by: usize) -> (usize, usize) {
    (number / by, number % by)
}
