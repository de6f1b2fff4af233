//! Weights into transformed kernels.

use pulp::{Simd, WithSimd};

use crate::panels::Panel;
use crate::tile::WIDEST;
use crate::winograd::{TILE, column, transform_taps};

/// Which way a kernel is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From inputs to outputs.
    Forward,
    /// From the gradient by the outputs to that by the inputs: the kernel is turned round.
    Backward,
}

/// Transforms the kernels of one panel of columns: a panel for each of the 36 values.
///
/// Forward, rows are inputs and columns outputs; backward it is the other way round.
pub struct TransformKernels<'a, const TAPS: usize> {
    /// Which way the kernels are applied.
    pub direction: Direction,
    /// The weights as `[outputs, inputs, TAPS, TAPS]`.
    pub weights: &'a [f32],
    /// Inputs of the convolution.
    pub inputs: usize,
    /// The columns that are transformed.
    pub panel: Panel,
    /// Rows of a panel.
    pub depth: usize,
    /// The transformed kernels.
    pub kernels: &'a mut [f32],
}

impl<const TAPS: usize> WithSimd for TransformKernels<'_, TAPS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.panel.width;
        // The taps of one row, side by side for all columns; unused columns stay zero.
        let mut taps = [[[0.0; WIDEST]; TAPS]; TAPS];
        for row in 0..self.depth {
            self.gather(row, &mut taps);
            for first in (0..width).step_by(S::F32_LANES) {
                let mut half = [[simd.splat_f32s(0.0); TILE]; TAPS];
                for x in 0..TAPS {
                    let mut column = [simd.splat_f32s(0.0); TAPS];
                    for y in 0..TAPS {
                        column[y] = S::as_simd_f32s(&taps[y][x][first..first + S::F32_LANES]).0[0];
                    }
                    half[x] = transform_taps::<S, TAPS>(simd, column);
                }
                for y in 0..TILE {
                    let values = transform_taps::<S, TAPS>(simd, column(&half, y));
                    for (x, value) in values.into_iter().enumerate() {
                        let at = ((y * TILE + x) * self.depth + row) * width + first;
                        S::as_mut_simd_f32s(&mut self.kernels[at..at + S::F32_LANES]).0[0] = value;
                    }
                }
            }
        }
    }
}

impl<const TAPS: usize> TransformKernels<'_, TAPS> {
    #[inline(always)]
    fn gather(&self, row: usize, taps: &mut [[[f32; WIDEST]; TAPS]; TAPS]) {
        let kernel = TAPS * TAPS;
        let columns = self.panel.column..self.panel.column + self.panel.used;
        for (lane, column) in columns.enumerate() {
            let (output, input) = match self.direction {
                Direction::Forward => (column, row),
                Direction::Backward => (row, column),
            };
            let from = &self.weights[(output * self.inputs + input) * kernel..][..kernel];
            for (place, &weight) in from.iter().enumerate() {
                let to = match self.direction {
                    Direction::Forward => place,
                    Direction::Backward => kernel - 1 - place,
                };
                taps[to / TAPS][to % TAPS][lane] = weight;
            }
        }
    }
}
