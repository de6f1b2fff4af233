//! The windows of convolutions and pooling.

/// Windows at regular distances over an image. Pairs are for rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Size of a window.
    pub kernel: [usize; 2],
    /// Distance from one window to the next.
    pub stride: [usize; 2],
    /// How far windows reach over the image's edge; for pooling at most half of their size.
    pub padding: [usize; 2],
}

impl Windows {
    /// Square windows that stay inside the image.
    pub fn square(kernel: usize, stride: usize) -> Self {
        Self { kernel: [kernel; 2], stride: [stride; 2], padding: [0; 2] }
    }
}
