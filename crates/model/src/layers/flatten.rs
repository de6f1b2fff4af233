//! Between the order that people and files see, channel after channel, and the one inside,
//! where a pixel's channels lie together.

use super::shape::Place;
use super::stage::{Pass, Seen, Stage};

/// Makes a flat row of an image, channel after channel, as PyTorch's `Flatten` does.
pub(crate) struct Flatten {
    from: Place,
}

impl Flatten {
    /// Plans it.
    pub(crate) fn new(from: Place) -> Self {
        Self { from }
    }
}

impl Stage for Flatten {
    fn forward(&self, pass: &mut Pass<'_>, _: &[f32], x: &[f32], y: &mut [f32]) {
        let values = self.from.shape.values();
        pass.crew.each(&mut y[..pass.count * values], values, |example, y| {
            let x = &x[example * self.from.len()..][..self.from.len()];
            pixels(self.from, |outside, inside| {
                let planes = y[outside..].iter_mut().step_by(plane(self.from));
                planes.zip(&x[inside..]).for_each(|(y, x)| *y = *x);
            });
        });
    }

    fn back(&self, pass: &mut Pass<'_>, _: &[f32], seen: Seen<'_>, dx: &mut [f32]) {
        let values = self.from.shape.values();
        pass.crew.each(&mut dx[..pass.count * self.from.len()], self.from.len(), |example, dx| {
            take_in(self.from, &seen.dy[example * values..][..values], dx);
        });
    }
}

/// Copies an example from outside into its place; the border stays as it is.
pub(crate) fn take_in(place: Place, outside: &[f32], inside: &mut [f32]) {
    let channels = place.shape.channels;
    pixels(place, |from, to| {
        let planes = outside[from..].iter().step_by(plane(place));
        inside[to..][..channels].iter_mut().zip(planes).for_each(|(to, from)| *to = *from);
    });
}

/// Values of one channel.
fn plane(place: Place) -> usize {
    place.shape.height * place.shape.width
}

/// Goes through the pixels: where each is in a plane, and where inside.
#[inline(always)]
fn pixels(place: Place, mut work: impl FnMut(usize, usize)) {
    for y in 0..place.shape.height {
        for x in 0..place.shape.width {
            work(y * place.shape.width + x, place.at(y, x));
        }
    }
}

/// A copy of what is there, for a layer that works in place where it must not.
pub(crate) struct Copy {
    /// Numbers of an example, in both places.
    pub(crate) from: Place,
    pub(crate) to: Place,
}

impl Copy {
    fn rows(&self, mut work: impl FnMut(usize, usize, usize)) {
        for y in 0..self.from.shape.height {
            let len = self.from.shape.width * self.from.shape.channels;
            work(self.from.at(y, 0), self.to.at(y, 0), len);
        }
    }
}

impl Stage for Copy {
    fn forward(&self, pass: &mut Pass<'_>, _: &[f32], x: &[f32], y: &mut [f32]) {
        pass.crew.each(&mut y[..pass.count * self.to.len()], self.to.len(), |example, y| {
            let x = &x[example * self.from.len()..];
            self.rows(|from, to, len| y[to..][..len].copy_from_slice(&x[from..][..len]));
        });
    }

    fn back(&self, pass: &mut Pass<'_>, _: &[f32], seen: Seen<'_>, dx: &mut [f32]) {
        pass.crew.each(&mut dx[..pass.count * self.from.len()], self.from.len(), |example, dx| {
            let dy = &seen.dy[example * self.to.len()..];
            self.rows(|from, to, len| dx[from..][..len].copy_from_slice(&dy[to..][..len]));
        });
    }
}
