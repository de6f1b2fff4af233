//! Convolution by Winograd's method: fewer products, for kernels of 3x3 and 5x5 with a stride of 1.
//!
//! An image is cut into tiles of 6x6 values that overlap, one for every `STEP x STEP` outputs. In
//! the transformed domain a tile times a kernel is 36 products instead of `(STEP * TAPS)²`, and the
//! sums over channels are 36 matrix products: `tiles x inputs` by `inputs x outputs`. The
//! gradient by the input is such a convolution too, of the gradient by the output with the kernel
//! turned round; in the gradient by the weights the sums run over tiles instead of channels.
//!
//! Some images are transformed at a time, so that their tiles stay in the cache and the memory does
//! not grow with the batch. Each of the 36 products is one task, with both factors in the
//! second-level cache.

mod grid;
mod outputs;
mod passes;
#[cfg(test)]
mod tests;
mod values;

use self::grid::TileGrid;
use self::passes::WinogradConv;
use super::layer_op::BufferedLayer;
use super::shape::PaddedShape;
use super::windows::Windows;
use crate::kernels::winograd::{TILE, TILE_VALUES};

/// The fewest channels on either side for which the method pays: with fewer, the transforms cost
/// more than the products that they save.
const CHANNELS: usize = 16;

/// Plans a convolution by this method, if its sizes let it save a third of the products or more.
pub(crate) fn winograd(
    from: PaddedShape,
    to: PaddedShape,
    windows: Windows,
) -> Option<Box<dyn BufferedLayer>> {
    let Windows { kernel, stride, padding } = windows;
    if stride != [1; 2] || from.shape.channels.min(to.shape.channels) < CHANNELS {
        return None;
    }
    match kernel {
        [3, 3] if pays(to, 3) => Some(Box::new(WinogradConv::<3, 4>::new(from, to, padding))),
        [5, 5] if pays(to, 5) => Some(Box::new(WinogradConv::<5, 2>::new(from, to, padding))),
        _ => None,
    }
}

/// Whether few enough of the tiles' outputs lie outside the image.
fn pays(to: PaddedShape, taps: usize) -> bool {
    let products = TILE_VALUES * TileGrid::new(to, TILE + 1 - taps).count();
    3 * products <= 2 * taps * taps * to.shape.height * to.shape.width
}
