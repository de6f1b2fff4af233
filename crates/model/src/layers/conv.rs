//! Convolution in two dimensions, without copies of patches.
//!
//! Forward, an output pixel is a row of a product: what the kernel covers, times the weights.
//! Because a pixel's channels lie together, what the kernel covers in one row of the image is
//! one run of memory, and tiles read it where it lies. Backward to the input, the same product
//! the other way round is added onto what the kernel covers. The weights are packed once a step
//! for each direction. The gradient by the weights is in `conv_slope.rs`.

use super::shape::Place;
use super::stage::{Pass, Seen, Stage};
use crate::OutputMode;
use crate::kernels::panels::{Panel, Panels};
use crate::kernels::tile::{RowsTimesPanel, Run};

/// Rows of a panel that go through the tiles together, so that they stay in the first-level
/// cache: 384 rows of 64 bytes.
const DEPTH: usize = 384;
/// Numbers of an input image that are worked on together, so that they stay in the second-level
/// cache while every panel of weights goes over them.
const SLAB: usize = 64 * 1024;

/// A convolution between two places.
pub(crate) struct Conv {
    pub(super) from: Place,
    pub(super) to: Place,
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    /// For each output pixel: where what the kernel covers begins, and where the pixel lies.
    pub(super) pixels: Vec<(usize, usize)>,
    /// Output pixels that are worked on together.
    slab: usize,
    /// What the kernel covers, in runs, in groups of at most [`DEPTH`].
    groups: Vec<Vec<Run>>,
    /// The weights as `[rows, columns, inputs] x outputs`.
    pub(super) outputs: Panels,
    /// The weights of one row of the kernel as `outputs x [columns, inputs]`.
    taps: Panels,
}

impl Conv {
    /// Plans a convolution; the border of `from` is at least the padding.
    pub(crate) fn new(
        from: Place,
        to: Place,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
    ) -> Self {
        let corner = (from.border[0] - padding[0]) * from.row()
            + (from.border[1] - padding[1]) * from.shape.channels;
        let place = |y: usize, x: usize| {
            let covered = y * stride[0] * from.row() + x * stride[1] * from.shape.channels;
            (corner + covered, to.at(y, x))
        };
        let (height, width) = (to.shape.height, to.shape.width);
        let run = kernel[1] * from.shape.channels;
        let slab_rows = (SLAB / (stride[0] * from.row())).saturating_sub(kernel[0]).max(1);
        let slabs = height.div_ceil(slab_rows);
        Self {
            pixels: (0..height * width).map(|pixel| place(pixel / width, pixel % width)).collect(),
            slab: height.div_ceil(slabs) * width,
            groups: groups(kernel[0], run, from.row()),
            outputs: Panels::new(kernel[0] * run, to.shape.channels),
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

    /// One panel of the weights for the way forward.
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

    /// The weights of one row of the kernel for the way back.
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
                let mut onto = OutputMode::Overwrite;
                for runs in &self.groups {
                    let depth = runs.iter().map(|run| run.len).sum::<usize>() * panel.width;
                    RowsTimesPanel {
                        count: pixels.len(),
                        place: |row: usize| (pixels[row].0, pixels[row].1 + panel.column),
                        left: x,
                        runs,
                        panel: &packed[..depth],
                        width: panel.width,
                        used: panel.used,
                        start: if onto == OutputMode::Overwrite {
                            &bias[panel.column..]
                        } else {
                            &[]
                        },
                        onto,
                        out: y,
                    }
                    .run();
                    packed = &packed[depth..];
                    onto = OutputMode::Add;
                }
            }
        }
    }

    fn back_image(&self, packed: &[f32], dy: &[f32], dx: &mut [f32]) {
        dx.fill(0.0);
        for pixels in self.pixels.chunks(self.slab) {
            for y in 0..self.kernel[0] {
                let packed = &packed[y * self.taps.len()..][..self.taps.len()];
                for panel in self.taps.iter() {
                    let to = y * self.from.row() + panel.column;
                    self.back_panel(&packed[panel.start..], panel, (pixels, to), dy, dx);
                }
            }
        }
    }

    /// What one panel of the weights adds to what the kernel covers at some pixels, `to` numbers
    /// from its beginning.
    fn back_panel(
        &self,
        packed: &[f32],
        panel: Panel,
        (pixels, to): (&[(usize, usize)], usize),
        dy: &[f32],
        dx: &mut [f32],
    ) {
        let outputs = self.to.shape.channels;
        for first in (0..outputs).step_by(DEPTH) {
            let depth = DEPTH.min(outputs - first);
            RowsTimesPanel {
                count: pixels.len(),
                place: |row: usize| (pixels[row].1, pixels[row].0 + to),
                left: dy,
                runs: &[Run { start: first, len: depth }],
                panel: &packed[first * panel.width..][..depth * panel.width],
                width: panel.width,
                used: panel.used,
                start: &[],
                onto: OutputMode::Add,
                out: dx,
            }
            .run();
        }
    }
}

impl Stage for Conv {
    fn scratch(&self, count: usize) -> usize {
        self.outputs.len().max(self.kernel[0] * self.taps.len()).max(self.slope_scratch(count))
    }

    fn forward(&self, pass: &mut Pass<'_>, params: &[f32], x: &[f32], y: &mut [f32]) {
        let (weights, bias) = params.split_at(self.covered() * self.to.shape.channels);
        let packed = &mut pass.scratch[..self.outputs.len()];
        pass.crew.each(packed, self.outputs.full() * self.covered(), |panel, packed| {
            self.pack_outputs(weights, self.outputs.get(panel), packed);
        });
        let packed = &*packed;
        pass.crew.each(&mut y[..pass.count * self.to.len()], self.to.len(), |example, y| {
            let x = &x[example * self.from.len()..][..self.from.len()];
            self.forward_image(packed, bias, x, y);
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
        self.put_slope(pass, x, dy, onto, grad);
    }

    fn back(&self, pass: &mut Pass<'_>, params: &[f32], from: Seen<'_>, dx: &mut [f32]) {
        let weights = &params[..self.covered() * self.to.shape.channels];
        let packed = &mut pass.scratch[..self.kernel[0] * self.taps.len()];
        pass.crew.each(packed, self.taps.len(), |y, packed| self.pack_taps(weights, y, packed));
        let packed = &*packed;
        pass.crew.each(&mut dx[..pass.count * self.from.len()], self.from.len(), |example, dx| {
            let dy = &from.dy[example * self.to.len()..][..self.to.len()];
            self.back_image(packed, dy, dx);
        });
    }
}

/// The runs of a kernel of so many rows in groups: several short ones together, long ones cut.
fn groups(rows: usize, run: usize, distance: usize) -> Vec<Vec<Run>> {
    let pieces = run.div_ceil(DEPTH);
    let piece = run.div_ceil(pieces);
    let together = (DEPTH / piece).max(1);
    let mut runs = Vec::new();
    for y in 0..rows {
        for first in (0..run).step_by(piece) {
            runs.push(Run { start: y * distance + first, len: piece.min(run - first) });
        }
    }
    runs.chunks(together).map(<[Run]>::to_vec).collect()
}

/// Quotient and remainder.
pub(super) fn divided(number: usize, by: usize) -> (usize, usize) {
    (number / by, number % by)
}
