//! Conversion between the order of values in files, channel after channel, and the order inside a
//! network, where a pixel's channels lie together.

use super::layer_op::{BackwardInputs, BufferedLayer, LayerPass};
use super::shape::PaddedShape;

/// Turns an image into a flat row, channel after channel, as PyTorch's `Flatten` does.
pub(crate) struct Flatten {
    from: PaddedShape,
}

impl Flatten {
    pub(crate) fn new(from: PaddedShape) -> Self {
        Self { from }
    }
}

impl BufferedLayer for Flatten {
    fn forward(&self, pass: &mut LayerPass<'_>, _: &[f32], x: &[f32], y: &mut [f32]) {
        let values = self.from.shape.values();
        pass.pool.for_each_piece(&mut y[..pass.count * values], values, |example, y| {
            let x = &x[example * self.from.len()..][..self.from.len()];
            pixels(self.from, |outside, inside| {
                let planes = y[outside..].iter_mut().step_by(plane(self.from));
                planes.zip(&x[inside..]).for_each(|(y, x)| *y = *x);
            });
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
        let values = self.from.shape.values();
        pass.pool.for_each_piece(
            &mut dx[..pass.count * self.from.len()],
            self.from.len(),
            |example, dx| {
                copy_in(self.from, &inputs.dy[example * values..][..values], dx);
                (pass.finish)(example, dx);
            },
        );
    }
}

/// Copies an example into a padded buffer; the border stays as it is.
pub(crate) fn copy_in(place: PaddedShape, outside: &[f32], inside: &mut [f32]) {
    let (channels, width) = (place.shape.channels, place.shape.width);
    if channels == 1 {
        for (y, row) in outside.chunks_exact(width).enumerate() {
            inside[place.at(y, 0)..][..width].copy_from_slice(row);
        }
        return;
    }
    pixels(place, |from, to| {
        let planes = outside[from..].iter().step_by(plane(place));
        inside[to..][..channels].iter_mut().zip(planes).for_each(|(to, from)| *to = *from);
    });
}

/// Values of one channel.
fn plane(place: PaddedShape) -> usize {
    place.shape.height * place.shape.width
}

/// Calls `work` for every pixel with its index in a plane and its offset in the buffer.
#[inline(always)]
fn pixels(place: PaddedShape, mut work: impl FnMut(usize, usize)) {
    for y in 0..place.shape.height {
        for x in 0..place.shape.width {
            work(y * place.shape.width + x, place.at(y, x));
        }
    }
}

/// Copies a buffer, for a layer that works in place where the input must be kept.
pub(crate) struct CopyLayer {
    pub(crate) from: PaddedShape,
    pub(crate) to: PaddedShape,
}

impl CopyLayer {
    fn rows(&self, mut work: impl FnMut(usize, usize, usize)) {
        for y in 0..self.from.shape.height {
            let len = self.from.shape.width * self.from.shape.channels;
            work(self.from.at(y, 0), self.to.at(y, 0), len);
        }
    }
}

impl BufferedLayer for CopyLayer {
    fn forward(&self, pass: &mut LayerPass<'_>, _: &[f32], x: &[f32], y: &mut [f32]) {
        pass.pool.for_each_piece(
            &mut y[..pass.count * self.to.len()],
            self.to.len(),
            |example, y| {
                let x = &x[example * self.from.len()..];
                self.rows(|from, to, len| y[to..][..len].copy_from_slice(&x[from..][..len]));
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
        pass.pool.for_each_piece(
            &mut dx[..pass.count * self.from.len()],
            self.from.len(),
            |example, dx| {
                let dy = &inputs.dy[example * self.to.len()..];
                self.rows(|from, to, len| dx[from..][..len].copy_from_slice(&dy[to..][..len]));
                (pass.finish)(example, dx);
            },
        );
    }
}
