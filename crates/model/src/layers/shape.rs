//! The shape of an example between two layers, and its layout in memory.
//!
//! In files an example is channels of rows of pixels, as in PyTorch. Inside a network the channels
//! of a pixel lie together: the part of an image row that a kernel covers is then contiguous,
//! pooling runs along the channels, and no layer copies patches. An image that a convolution pads
//! has a border of zeros around it from the start.

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

    /// Whether it has only one pixel.
    pub fn is_flat(&self) -> bool {
        self.height == 1 && self.width == 1
    }

    /// The number of values of an example.
    pub fn values(&self) -> usize {
        self.channels.saturating_mul(self.height).saturating_mul(self.width)
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

/// The shape of an example in memory, with the border of zeros around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PaddedShape {
    pub(crate) shape: Shape,
    /// Rows above and below, and pixels left and right.
    pub(crate) border: [usize; 2],
}

impl PaddedShape {
    /// The distance between two rows of pixels, in numbers.
    pub(crate) fn row(&self) -> usize {
        (self.shape.width + 2 * self.border[1]) * self.shape.channels
    }

    /// The numbers of one example, including the border.
    pub(crate) fn len(&self) -> usize {
        (self.shape.height + 2 * self.border[0]) * self.row()
    }

    /// The index of a pixel's first channel.
    pub(crate) fn at(&self, y: usize, x: usize) -> usize {
        (y + self.border[0]) * self.row() + (x + self.border[1]) * self.shape.channels
    }
}
