//! Pooling: the largest or the mean of each window, channel by channel.
//!
//! A window's pixels each have their channels together, so every loop runs along the channels.
//! Windows are cut off at the image's edge; a mean is still over the whole window, as if what is
//! outside were zeros (PyTorch's `count_include_pad`). The way back of the largest looks again
//! for the first pixel that is as large as the output, and so needs no memory of its own.

use std::ops::Range;

use super::shape::Place;
use super::stage::{Pass, Seen, Stage};
use crate::kernels::each;

/// What is taken of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    Largest,
    Mean,
}

/// Pooling between two places.
pub(crate) struct Pool {
    take: Take,
    from: Place,
    to: Place,
    /// For each row and each column of the output, the input's that its window covers.
    rows: Vec<Window>,
    columns: Vec<Window>,
}

/// A window in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    /// What it covers of the image.
    inside: Range<usize>,
    /// How long it is, with what is outside.
    size: usize,
}

impl Pool {
    /// Windows of one size at regular distances.
    pub(crate) fn regular(
        take: Take,
        (from, to): (Place, Place),
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
    ) -> Self {
        let windows = |inputs: usize, outputs: usize, axis: usize| {
            let window = |index: usize| {
                let start = index * stride[axis];
                let end = (start + kernel[axis]).saturating_sub(padding[axis]);
                let start = start.saturating_sub(padding[axis]);
                Window { inside: start.min(inputs)..end.min(inputs), size: kernel[axis] }
            };
            (0..outputs).map(window).collect()
        };
        let rows = windows(from.shape.height, to.shape.height, 0);
        let columns = windows(from.shape.width, to.shape.width, 1);
        Self { take, from, to, rows, columns }
    }

    /// Means over windows that share the image out as evenly as can be, as PyTorch's
    /// `AdaptiveAvgPool2d` does.
    pub(crate) fn adaptive(from: Place, to: Place) -> Self {
        let windows = |inputs: usize, outputs: usize| {
            let window = |index: usize| {
                let inside = index * inputs / outputs..((index + 1) * inputs).div_ceil(outputs);
                Window { size: inside.len(), inside }
            };
            (0..outputs).map(window).collect()
        };
        let rows = windows(from.shape.height, to.shape.height);
        let columns = windows(from.shape.width, to.shape.width);
        Self { take: Take::Mean, from, to, rows, columns }
    }

    /// Goes through the windows of an image: where the output is, where in the input the
    /// window begins, its rows and columns, and the share of each pixel in a mean.
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
        let distance = self.from.row();
        self.windows(|to, from, [rows, columns], share| {
            let y = &mut y[to..][..channels];
            y.fill(if self.take == Take::Largest { f32::NEG_INFINITY } else { 0.0 });
            for row in 0..rows {
                let pixels = &x[from + row * distance..][..columns * channels];
                for pixel in pixels.chunks_exact(channels) {
                    let pairs = y.iter_mut().zip(pixel);
                    match self.take {
                        // What is not a number shall come through.
                        Take::Largest => pairs.for_each(|(y, &x)| {
                            *y = if x > *y || x.is_nan() { x } else { *y };
                        }),
                        Take::Mean => pairs.for_each(|(y, x)| *y += share * x),
                    }
                }
            }
        });
    }

    #[inline(always)]
    fn back_image(&self, from: Seen<'_>, left: &mut [f32], dx: &mut [f32]) {
        let Seen { x, y, dy } = from;
        let channels = self.to.shape.channels;
        let distance = self.from.row();
        dx.fill(0.0);
        self.windows(|to, from, [rows, columns], share| {
            let (y, dy) = (&y[to..][..channels], &dy[to..][..channels]);
            left.copy_from_slice(dy);
            for row in 0..rows {
                let at = from + row * distance;
                let pixels = x[at..][..columns * channels].chunks_exact(channels);
                let changes = dx[at..][..columns * channels].chunks_exact_mut(channels);
                for (x, dx) in pixels.zip(changes) {
                    match self.take {
                        Take::Largest => hand_over(x, y, left, dx),
                        Take::Mean => {
                            dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx += share * dy);
                        }
                    }
                }
            }
        });
    }
}

/// Gives what is left of a window's gradient to the pixel at hand, where it is the largest.
#[inline(always)]
fn hand_over(x: &[f32], y: &[f32], left: &mut [f32], dx: &mut [f32]) {
    let len = x.len();
    let (y, left, dx) = (&y[..len], &mut left[..len], &mut dx[..len]);
    for channel in 0..len {
        // All ones where it is, else all zeros: there is no branch to take.
        let here = u32::from(x[channel] == y[channel]).wrapping_neg();
        let bits = left[channel].to_bits();
        dx[channel] += f32::from_bits(bits & here);
        left[channel] = f32::from_bits(bits & !here);
    }
}

impl Stage for Pool {
    fn scratch(&self, count: usize) -> usize {
        count * self.to.shape.channels
    }

    fn forward(&self, pass: &mut Pass<'_>, _: &[f32], x: &[f32], y: &mut [f32]) {
        pass.crew.each(&mut y[..pass.count * self.to.len()], self.to.len(), |example, y| {
            let x = &x[example * self.from.len()..][..self.from.len()];
            each(
                #[inline(always)]
                || self.forward_image(x, y),
            );
        });
    }

    fn back(&self, pass: &mut Pass<'_>, _: &[f32], seen: Seen<'_>, dx: &mut [f32]) {
        let (from, to) = (self.from.len(), self.to.len());
        let channels = self.to.shape.channels;
        let left = &mut pass.scratch[..pass.count * channels];
        pass.crew.both(
            (&mut dx[..pass.count * from], from),
            (left, channels),
            |example, dx, left| {
                let image = Seen {
                    x: &seen.x[example * from..][..from],
                    y: &seen.y[example * to..][..to],
                    dy: &seen.dy[example * to..][..to],
                };
                each(
                    #[inline(always)]
                    || self.back_image(image, left, dx),
                );
            },
        );
    }
}
