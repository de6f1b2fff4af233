//! Convolution of images with one channel, by vectors that run along the pixels of a row.
//!
//! Elsewhere the channels of a pixel fill a vector. With one input channel and few outputs much of
//! such a vector would be empty. Here the output is a plane for each channel, and a vector holds
//! neighbouring pixels of a plane. The last vector of a row overlaps the one before it if the row
//! is not a whole number of vectors.

use pulp::{Simd, WithSimd};

use crate::tile::{ROWS, TileRows, tiles};
use crate::vectors::Vectors;

/// The least pixels of a row: no vector is longer.
pub const PLANE_WIDTH: usize = 16;
/// Positions of a vector that the forward pass works on together.
const POSITIONS: usize = 2;
/// The most taps of a row of the kernel that the gradient works on together, with 32 registers.
const TAPS: usize = 3;

/// The sizes of a convolution with one input channel and a stride of 1.
#[derive(Clone, Copy, Debug)]
pub struct PlaneConv {
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
    /// Numbers from one row of the image to the next.
    pub row: usize,
    /// Rows of the output.
    pub height: usize,
    /// Pixels of a row of the output, at least [`PLANE_WIDTH`].
    pub width: usize,
    /// Channels of the output.
    pub outputs: usize,
}

impl PlaneConv {
    /// Computes `out[o][y][x] = bias[o] + sum over taps of image[y + ky][x + kx] * weights[o]`.
    ///
    /// `weights` holds the weights of all outputs for each tap.
    pub fn forward(&self, image: &[f32], weights: &[f32], bias: &[f32], out: &mut [f32]) {
        self.vectors().dispatch(Forward { sizes: *self, image, weights, bias, out });
    }

    /// Numbers of the scratch memory of [`PlaneConv::add_gradient`].
    pub fn scratch(&self) -> usize {
        self.height * self.positions() * self.outputs * self.vectors().lanes
    }

    /// Numbers of the sums: a vector for each output of each tap, and for the bias.
    pub fn sums(&self) -> usize {
        (self.taps() + 1) * self.outputs * self.vectors().lanes
    }

    /// Adds the gradient of one image by weights and bias to the sums, given that by the planes of
    /// the output.
    pub fn add_gradient(&self, image: &[f32], dy: &[f32], scratch: &mut [f32], sums: &mut [f32]) {
        self.vectors().dispatch(Gradient { sizes: *self, image, dy, scratch, sums });
    }

    /// Calls `put` with a tap, an output and its sum; after all taps with the sums of the bias.
    pub fn total(&self, sums: &[f32], put: impl FnMut(usize, usize, f32)) {
        self.vectors().dispatch(Total { sizes: *self, sums, put });
    }

    /// Taps of the kernel.
    pub fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    fn vectors(&self) -> Vectors {
        Vectors::for_columns(PLANE_WIDTH)
    }

    /// Vectors of a row.
    fn positions(&self) -> usize {
        self.width.div_ceil(self.vectors().lanes)
    }

    /// The first pixel of a vector.
    #[inline(always)]
    fn place(&self, position: usize, lanes: usize) -> usize {
        (position * lanes).min(self.width - lanes)
    }
}

/// A vector from a place in a slice; `None` beyond the end.
#[inline(always)]
fn load<S: Simd>(_: S, values: &[f32], at: usize) -> Option<S::f32s> {
    S::as_simd_f32s(values.get(at..at + S::F32_LANES)?).0.first().copied()
}

/// A pass over the channels of the output.
trait OutputPass {
    /// Works on `M` channels, from `first` on.
    fn outputs<S: Simd, const M: usize>(&mut self, simd: S, first: usize);
}

/// Runs a pass, some channels at a time.
#[inline(always)]
fn run_pass<S: Simd>(simd: S, channels: usize, pass: &mut impl OutputPass) {
    for TileRows { first, count } in tiles(channels) {
        match count {
            1 => pass.outputs::<S, 1>(simd, first),
            2 => pass.outputs::<S, 2>(simd, first),
            3 => pass.outputs::<S, 3>(simd, first),
            4 => pass.outputs::<S, 4>(simd, first),
            5 => pass.outputs::<S, 5>(simd, first),
            _ => pass.outputs::<S, ROWS>(simd, first),
        }
    }
}

struct Forward<'a> {
    sizes: PlaneConv,
    image: &'a [f32],
    weights: &'a [f32],
    bias: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let channels = self.sizes.outputs;
        run_pass(simd, channels, &mut self);
    }
}

impl OutputPass for Forward<'_> {
    #[inline(always)]
    fn outputs<S: Simd, const M: usize>(&mut self, simd: S, first: usize) {
        let positions = self.sizes.width.div_ceil(S::F32_LANES);
        let whole = positions / POSITIONS * POSITIONS;
        for y in 0..self.sizes.height {
            for position in (0..whole).step_by(POSITIONS) {
                self.pixels::<S, M, POSITIONS>(simd, first, y, position);
            }
            for position in whole..positions {
                self.pixels::<S, M, 1>(simd, first, y, position);
            }
        }
    }
}

impl Forward<'_> {
    /// Computes `P` vectors of pixels, from a position on.
    #[inline(always)]
    fn pixels<S: Simd, const M: usize, const P: usize>(
        &mut self,
        simd: S,
        first: usize,
        y: usize,
        position: usize,
    ) {
        let sizes = self.sizes;
        let places: [usize; P] = std::array::from_fn(|p| sizes.place(position + p, S::F32_LANES));
        let mut sums = [[simd.splat_f32s(0.0); P]; M];
        for (sums, bias) in sums.iter_mut().zip(&self.bias[first..]) {
            *sums = [simd.splat_f32s(*bias); P];
        }
        let mut weights = self.weights[first..].chunks(sizes.outputs);
        for ky in 0..sizes.kernel[0] {
            let row = &self.image[(y + ky) * sizes.row..];
            for (kx, weights) in (0..sizes.kernel[1]).zip(&mut weights) {
                let Some(weights) = weights.first_chunk::<M>() else { break };
                let mut x = [simd.splat_f32s(0.0); P];
                for p in 0..P {
                    // An index that could panic would have the compiler spill all sums to memory.
                    let Some(values) = load(simd, row, places[p] + kx) else { break };
                    x[p] = values;
                }
                for m in 0..M {
                    let weight = simd.splat_f32s(weights[m]);
                    for p in 0..P {
                        sums[m][p] = simd.mul_add_e_f32s(weight, x[p], sums[m][p]);
                    }
                }
            }
        }
        let len = sizes.height * sizes.width;
        let planes = self.out[first * len..].chunks_exact_mut(len);
        for (plane, sums) in planes.zip(&sums) {
            for p in 0..P {
                let out = &mut plane[y * sizes.width + places[p]..][..S::F32_LANES];
                S::as_mut_simd_f32s(out).0[0] = sums[p];
            }
        }
    }
}

struct Gradient<'a> {
    sizes: PlaneConv,
    image: &'a [f32],
    dy: &'a [f32],
    scratch: &'a mut [f32],
    sums: &'a mut [f32],
}

impl WithSimd for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        self.arrange::<S>();
        let channels = self.sizes.outputs;
        run_pass(simd, channels, &mut self);
    }
}

impl OutputPass for Gradient<'_> {
    #[inline(always)]
    fn outputs<S: Simd, const M: usize>(&mut self, simd: S, first: usize) {
        let [rows, columns] = self.sizes.kernel;
        let most = if S::REGISTER_COUNT >= 32 { TAPS } else { TAPS - 1 };
        for ky in 0..rows {
            let mut kx = 0;
            while kx < columns {
                let count = most.min(columns - kx);
                match count {
                    1 => self.taps::<S, M, 1>(simd, first, ky, kx),
                    2 => self.taps::<S, M, 2>(simd, first, ky, kx),
                    _ => self.taps::<S, M, TAPS>(simd, first, ky, kx),
                }
                kx += count;
            }
        }
        self.bias::<S, M>(simd, first);
    }
}

impl Gradient<'_> {
    /// Copies the gradient by the output: for each position and row a vector of each channel.
    /// Pixels that the position before has are zero.
    #[inline(always)]
    fn arrange<S: Simd>(&mut self) {
        let sizes = self.sizes;
        let row = sizes.outputs * S::F32_LANES;
        for (position, to) in self.scratch.chunks_exact_mut(sizes.height * row).enumerate() {
            let place = sizes.place(position, S::F32_LANES);
            let known = position * S::F32_LANES - place;
            for (y, to) in to.chunks_exact_mut(row).enumerate() {
                let planes = self.dy.chunks_exact(sizes.height * sizes.width);
                for (to, plane) in to.chunks_exact_mut(S::F32_LANES).zip(planes) {
                    to.copy_from_slice(&plane[y * sizes.width + place..][..S::F32_LANES]);
                    to[..known].fill(0.0);
                }
            }
        }
    }

    /// Adds the products of `K` neighbouring taps.
    #[inline(always)]
    fn taps<S: Simd, const M: usize, const K: usize>(
        &mut self,
        simd: S,
        first: usize,
        ky: usize,
        kx: usize,
    ) {
        let sizes = self.sizes;
        let mut sums = [[simd.splat_f32s(0.0); M]; K];
        let dy = S::as_simd_f32s(&*self.scratch).0;
        for (position, dy) in dy.chunks_exact(sizes.height * sizes.outputs).enumerate() {
            let mut at = ky * sizes.row + kx + sizes.place(position, S::F32_LANES);
            for dy in dy.chunks_exact(sizes.outputs) {
                let Some(dy) = dy.get(first..).and_then(<[S::f32s]>::first_chunk::<M>) else {
                    break;
                };
                for (k, sums) in sums.iter_mut().enumerate() {
                    let Some(x) = load(simd, self.image, at + k) else { break };
                    for (sum, dy) in sums.iter_mut().zip(dy) {
                        *sum = simd.mul_add_e_f32s(x, *dy, *sum);
                    }
                }
                at += sizes.row;
            }
        }
        let all = S::as_mut_simd_f32s(&mut *self.sums).0;
        for (k, sums) in sums.iter().enumerate() {
            let tap = ky * sizes.kernel[1] + kx + k;
            for (all, sum) in all[tap * sizes.outputs + first..].iter_mut().zip(sums) {
                *all = simd.add_f32s(*all, *sum);
            }
        }
    }

    /// Adds to the sums of the bias.
    #[inline(always)]
    fn bias<S: Simd, const M: usize>(&mut self, simd: S, first: usize) {
        let sizes = self.sizes;
        let mut sums = [simd.splat_f32s(0.0); M];
        for dy in S::as_simd_f32s(&*self.scratch).0.chunks_exact(sizes.outputs) {
            for (sum, dy) in sums.iter_mut().zip(&dy[first..]) {
                *sum = simd.add_f32s(*sum, *dy);
            }
        }
        let all = S::as_mut_simd_f32s(&mut *self.sums).0;
        for (all, sum) in all[sizes.taps() * sizes.outputs + first..].iter_mut().zip(sums) {
            *all = simd.add_f32s(*all, sum);
        }
    }
}

struct Total<'a, P> {
    sizes: PlaneConv,
    sums: &'a [f32],
    put: P,
}

impl<P: FnMut(usize, usize, f32)> WithSimd for Total<'_, P> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let taps = S::as_simd_f32s(self.sums).0.chunks_exact(self.sizes.outputs);
        for (tap, sums) in taps.enumerate() {
            for (output, sum) in sums.iter().enumerate() {
                (self.put)(tap, output, simd.reduce_sum_f32s(*sum));
            }
        }
    }
}

#[cfg(test)]
mod tests;
