//! What goes from layer to layer, and how it lies in memory.
//!
//! People and files see an example as channels of rows of pixels, as PyTorch does. Inside, the
//! channels of a pixel lie together: then whatever a kernel covers in one row of an image is one
//! stretch of memory, pooling runs along the channels, and no layer has to copy patches. An
//! image that a convolution will pad has a border of zeros around it from the start.

use std::fmt;

/// The shape of one example: an image, or a flat row of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Values of a pixel, or of a flat row.
    pub channels: usize,
    /// Rows of pixels; 1 if flat.
    pub height: usize,
    /// Pixels of a row; 1 if flat.
    pub width: usize,
}

impl Shape {
    /// An image.
    pub fn image(channels: usize, height: usize, width: usize) -> Self {
        Self { channels, height, width }
    }

    /// A flat row of values.
    pub fn flat(values: usize) -> Self {
        Self::image(values, 1, 1)
    }

    /// Whether it has but one pixel.
    pub fn is_flat(&self) -> bool {
        self.height == 1 && self.width == 1
    }

    /// How many values an example has.
    pub fn values(&self) -> usize {
        self.channels * self.height * self.width
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_flat() {
            write!(out, "{}", self.channels)
        } else {
            write!(out, "{}x{}x{}", self.channels, self.height, self.width)
        }
    }
}

/// An example in memory: the shape, and the border of zeros around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) shape: Shape,
    /// Rows above and below, pixels left and right.
    pub(crate) border: [usize; 2],
}

impl Place {
    /// Numbers from one row of pixels to the next.
    pub(crate) fn row(&self) -> usize {
        (self.shape.width + 2 * self.border[1]) * self.shape.channels
    }

    /// Numbers of one example.
    pub(crate) fn len(&self) -> usize {
        (self.shape.height + 2 * self.border[0]) * self.row()
    }

    /// Where a pixel's channels begin.
    pub(crate) fn at(&self, y: usize, x: usize) -> usize {
        (y + self.border[0]) * self.row() + (x + self.border[1]) * self.shape.channels
    }
}
