//! Pooling: the largest or the mean of each window, channel by channel.
//!
//! The channels of a pixel lie together, so every loop runs along the channels. Windows are cut
//! off at the image's edge; a mean is still over the whole window, as if there were zeros outside
//! (PyTorch's `count_include_pad`). The backward pass of the largest looks again for the first
//! pixel that is equal to the output, and so needs no memory of its own.

use std::ops::Range;

use super::layer_op::{BackwardInputs, BufferedLayer, LayerPass};
use super::shape::PaddedShape;
use super::windows::Windows;
use crate::kernels::each;
use crate::thread_pool::Pieces;

/// Which value represents a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolKind {
    Largest,
    Mean,
}

/// A pooling layer.
pub(crate) struct Pooling {
    kind: PoolKind,
    from: PaddedShape,
    to: PaddedShape,
    /// For each row of the output, the input rows that its window covers; then the same for
    /// columns.
    rows: Vec<PoolWindow>,
    columns: Vec<PoolWindow>,
    /// Whether each input pixel is in exactly one window.
    covers_once: bool,
}

/// A window in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PoolWindow {
    /// The part inside the image.
    inside: Range<usize>,
    /// The length, including the part outside the image.
    size: usize,
}

impl Pooling {
    /// Pooling with windows of one size at regular distances.
    pub(crate) fn regular(
        kind: PoolKind,
        from: PaddedShape,
        to: PaddedShape,
        windows: Windows,
    ) -> Self {
        let Windows { kernel, stride, padding } = windows;
        let along = |inputs: usize, outputs: usize, axis: usize| {
            let window = |index: usize| {
                let start = index * stride[axis];
                let end = (start + kernel[axis]).saturating_sub(padding[axis]);
                let start = start.saturating_sub(padding[axis]);
                PoolWindow { inside: start.min(inputs)..end.min(inputs), size: kernel[axis] }
            };
            (0..outputs).map(window).collect()
        };
        let rows = along(from.shape.height, to.shape.height, 0);
        let columns = along(from.shape.width, to.shape.width, 1);
        Self::new(kind, from, to, rows, columns)
    }

    fn new(
        kind: PoolKind,
        from: PaddedShape,
        to: PaddedShape,
        rows: Vec<PoolWindow>,
        columns: Vec<PoolWindow>,
    ) -> Self {
        let covers_once =
            covers_once(&rows, from.shape.height) && covers_once(&columns, from.shape.width);
        Self { kind, from, to, rows, columns, covers_once }
    }

    /// Means over windows that divide the image as evenly as possible, as PyTorch's
    /// `AdaptiveAvgPool2d` does.
    pub(crate) fn adaptive(from: PaddedShape, to: PaddedShape) -> Self {
        let windows = |inputs: usize, outputs: usize| {
            let window = |index: usize| {
                let inside = index * inputs / outputs..((index + 1) * inputs).div_ceil(outputs);
                PoolWindow { size: inside.len(), inside }
            };
            (0..outputs).map(window).collect()
        };
        let rows = windows(from.shape.height, to.shape.height);
        let columns = windows(from.shape.width, to.shape.width);
        Self::new(PoolKind::Mean, from, to, rows, columns)
    }

    /// Calls `work` for every window of an image with the offset of the output, the offset of the
    /// window in the input, its rows and columns, and the share of each pixel in a mean.
    #[inline(always)]
    fn windows(&self, mut work: impl FnMut(usize, usize, [usize; 2], f32)) {
        for (y, row) in self.rows.iter().enumerate() {
            for (x, column) in self.columns.iter().enumerate() {
                let size = [row.inside.len(), column.inside.len()];
                let share = 1.0 / (row.size * column.size) as f32;
                let from = self.from.at(row.inside.start, column.inside.start);
                work(self.to.at(y, x), from, size, share);
            }
        }
    }

    #[inline(always)]
    fn forward_image(&self, x: &[f32], y: &mut [f32]) {
        let channels = self.to.shape.channels;
        if self.kind == PoolKind::Mean {
            match channels {
                1 => return self.few_means::<1>(x, y),
                2 => return self.few_means::<2>(x, y),
                3 => return self.few_means::<3>(x, y),
                4 => return self.few_means::<4>(x, y),
                6 => return self.few_means::<6>(x, y),
                8 => return self.few_means::<8>(x, y),
                _ => {}
            }
        }
        let distance = self.from.row();
        self.windows(
            #[inline(always)]
            |to, from, [rows, columns], share| {
                let y = &mut y[to..][..channels];
                y.fill(if self.kind == PoolKind::Largest { f32::NEG_INFINITY } else { 0.0 });
                for row in 0..rows {
                    let pixels = &x[from + row * distance..][..columns * channels];
                    for pixel in pixels.chunks_exact(channels) {
                        let pairs = y.iter_mut().zip(pixel);
                        match self.kind {
                            // A NaN in the window becomes the output.
                            PoolKind::Largest => pairs.for_each(|(y, &x)| {
                                *y = if x > *y || x.is_nan() { x } else { *y };
                            }),
                            PoolKind::Mean => pairs.for_each(|(y, x)| *y += share * x),
                        }
                    }
                }
            },
        );
    }

    /// The means of an image with few channels: a loop over so few must have a fixed length to be
    /// quick.
    #[inline(always)]
    fn few_means<const C: usize>(&self, x: &[f32], y: &mut [f32]) {
        let distance = self.from.row();
        self.windows(
            #[inline(always)]
            |to, from, [rows, columns], share| {
                let mut sums = [0.0; C];
                for row in 0..rows {
                    let pixels = x[from + row * distance..].as_chunks::<C>().0;
                    for pixel in &pixels[..columns] {
                        for c in 0..C {
                            sums[c] += share * pixel[c];
                        }
                    }
                }
                y[to..][..C].copy_from_slice(&sums);
            },
        );
    }

    /// The gradient of [`Pooling::few_means`].
    #[inline(always)]
    fn few_mean_gradients<const C: usize>(&self, dy: &[f32], dx: &mut [f32]) {
        let distance = self.from.row();
        self.windows(
            #[inline(always)]
            |to, from, [rows, columns], share| {
                let Some(dy) = dy[to..].first_chunk::<C>() else { return };
                let mut parts = [0.0; C];
                for c in 0..C {
                    // A sum, so that zeros have the sign that they have when they are added.
                    parts[c] = 0.0 + share * dy[c];
                }
                for row in 0..rows {
                    let pixels = dx[from + row * distance..].as_chunks_mut::<C>().0;
                    for pixel in &mut pixels[..columns] {
                        if self.covers_once {
                            *pixel = parts;
                            continue;
                        }
                        for c in 0..C {
                            pixel[c] += parts[c];
                        }
                    }
                }
            },
        );
    }

    #[inline(always)]
    fn input_gradient_image(&self, from: BackwardInputs<'_>, left: &mut [f32], dx: &mut [f32]) {
        let BackwardInputs { x, y, dy } = from;
        let channels = self.to.shape.channels;
        let distance = self.from.row();
        if self.kind == PoolKind::Largest || !self.covers_once {
            dx.fill(0.0);
        }
        if self.kind == PoolKind::Mean {
            match channels {
                1 => return self.few_mean_gradients::<1>(dy, dx),
                2 => return self.few_mean_gradients::<2>(dy, dx),
                3 => return self.few_mean_gradients::<3>(dy, dx),
                4 => return self.few_mean_gradients::<4>(dy, dx),
                6 => return self.few_mean_gradients::<6>(dy, dx),
                8 => return self.few_mean_gradients::<8>(dy, dx),
                _ => {}
            }
        }
        self.windows(
            #[inline(always)]
            |to, from, [rows, columns], share| {
                let (y, dy) = (&y[to..][..channels], &dy[to..][..channels]);
                left.copy_from_slice(dy);
                for row in 0..rows {
                    let at = from + row * distance;
                    let pixels = x[at..][..columns * channels].chunks_exact(channels);
                    let changes = dx[at..][..columns * channels].chunks_exact_mut(channels);
                    for (x, dx) in pixels.zip(changes) {
                        match self.kind {
                            PoolKind::Largest => give_to_largest(x, y, left, dx),
                            PoolKind::Mean if self.covers_once => {
                                dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx = 0.0 + share * dy);
                            }
                            PoolKind::Mean => {
                                dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx += share * dy);
                            }
                        }
                    }
                }
            },
        );
    }
}

/// Whether windows are next to each other and cover everything.
fn covers_once(windows: &[PoolWindow], inputs: usize) -> bool {
    let mut end = 0;
    for window in windows {
        if window.inside.start != end {
            return false;
        }
        end = window.inside.end;
    }
    end == inputs
}

/// Adds the rest of a window's gradient to a pixel in the channels where it is the largest.
#[inline(always)]
fn give_to_largest(x: &[f32], y: &[f32], left: &mut [f32], dx: &mut [f32]) {
    let len = x.len();
    let (y, left, dx) = (&y[..len], &mut left[..len], &mut dx[..len]);
    for channel in 0..len {
        // All ones or all zeros, instead of a branch.
        let here = u32::from(x[channel] == y[channel]).wrapping_neg();
        let bits = left[channel].to_bits();
        dx[channel] += f32::from_bits(bits & here);
        left[channel] = f32::from_bits(bits & !here);
    }
}

impl BufferedLayer for Pooling {
    fn scratch(&self, count: usize) -> usize {
        count * self.to.shape.channels
    }

    fn forward(&self, pass: &mut LayerPass<'_>, _: &[f32], x: &[f32], y: &mut [f32]) {
        pass.pool.for_each_piece(
            &mut y[..pass.count * self.to.len()],
            self.to.len(),
            |example, y| {
                let x = &x[example * self.from.len()..][..self.from.len()];
                each(
                    #[inline(always)]
                    || self.forward_image(x, y),
                );
                (pass.finish)(example, y);
            },
        );
    }

    fn input_gradient(
        &self,
        pass: &mut LayerPass<'_>,
        _: &[f32],
        inputs: BackwardInputs<'_>,
        dx: &mut [f32],
    ) {
        let (from, to) = (self.from.len(), self.to.len());
        let channels = self.to.shape.channels;
        let left = &mut pass.scratch[..pass.count * channels];
        pass.pool.for_each_pair(
            Pieces { whole: &mut dx[..pass.count * from], piece: from },
            Pieces { whole: left, piece: channels },
            |example, dx, left| {
                let image = BackwardInputs {
                    x: &inputs.x[example * from..][..from],
                    y: &inputs.y[example * to..][..to],
                    dy: &inputs.dy[example * to..][..to],
                };
                each(
                    #[inline(always)]
                    || self.input_gradient_image(image, left, dx),
                );
                (pass.finish)(example, dx);
            },
        );
    }
}
