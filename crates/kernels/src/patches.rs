//! A dense layer over images of bytes, most of which are zero.
//!
//! An image is cut into *patches* of [`PATCH`] neighbouring bytes. A map with one bit for each
//! patch says which of them are not all zero, and only those are stored. Of handwritten digits
//! that is two in five, so a kernel that goes from one set bit to the next does two fifths of the
//! arithmetic, and nothing is converted beforehand. The forward pass goes image by image. The
//! backward pass goes patch by patch over a block of images, with the sums of a patch in
//! registers; it transposes the maps of the block first, so that a word says which images touch
//! the patch.

use pulp::{Simd, WithSimd};

use crate::bits::{set_bits, transpose};
use crate::output_mode::OutputMode;
use crate::patch_view::{PATCH, PatchImage, PatchView};
use crate::vectors::narrow;

/// The most images of a backward pass: the bits of a word.
pub const PATCH_BLOCK: usize = 64;
/// Outputs of a register block.
const MANY: usize = 10;
/// Outputs of a register block where fewer than [`MANY`] are left.
const SOME: usize = 5;
/// How many images before its turn an image is prefetched.
const AHEAD: usize = 12;
/// The factor that turns a byte into a number from 0 to 1.
const UNIT: f32 = 1.0 / 255.0;

/// `out[b][o] = bias[o] + sum over i of image[b][i] / 255 * weights[o][i]`.
///
/// # Panics
/// If `inputs` is not a multiple of [`PATCH`], or the slices' lengths do not fit.
pub fn patches_forward(
    inputs: usize,
    images: PatchView<'_>,
    weights: &[f32],
    bias: &[f32],
    out: &mut [f32],
) {
    assert_eq!(inputs % PATCH, 0, "an image is whole patches");
    assert_eq!(weights.len(), bias.len() * inputs, "weights");
    assert_eq!(out.len(), bias.len() * images.which.len(), "batch");
    narrow().dispatch(PatchForward { inputs, images, weights, bias, out });
}

struct PatchForward<'a> {
    inputs: usize,
    images: PatchView<'a>,
    weights: &'a [f32],
    bias: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for PatchForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            PATCH => self.run::<S, 1>(simd),
            4 => self.run::<S, 2>(simd),
            1 => self.run::<S, PATCH>(simd),
            lanes => unreachable!("vectors of {lanes} numbers"),
        }
    }
}

impl PatchForward<'_> {
    #[inline(always)]
    fn run<S: Simd, const N: usize>(self, simd: S) {
        let outputs = self.bias.len();
        (0..AHEAD).for_each(|index| self.images.prefetch(index));
        for (index, out) in self.out.chunks_exact_mut(outputs.max(1)).enumerate() {
            self.images.prefetch(index + AHEAD);
            let image = self.images.image(self.inputs, index);
            let weights = |o: usize| &self.weights[o * self.inputs..];
            let patches = self.inputs / PATCH;
            let mut o = 0;
            while o + MANY <= outputs {
                dots::<S, N, MANY>(
                    simd,
                    image,
                    weights(o),
                    patches,
                    &self.bias[o..],
                    &mut out[o..],
                );
                o += MANY;
            }
            while o + SOME <= outputs {
                dots::<S, N, SOME>(
                    simd,
                    image,
                    weights(o),
                    patches,
                    &self.bias[o..],
                    &mut out[o..],
                );
                o += SOME;
            }
            while o < outputs {
                dots::<S, N, 1>(simd, image, weights(o), patches, &self.bias[o..], &mut out[o..]);
                o += 1;
            }
        }
    }
}

/// The dot products of an image with `K` rows of weights of `patches` patches each, plus biases.
#[inline(always)]
fn dots<S: Simd, const N: usize, const K: usize>(
    simd: S,
    image: PatchImage<'_>,
    weights: &[f32],
    patches: usize,
    bias: &[f32],
    out: &mut [f32],
) {
    let (weights, _) = weights.as_chunks::<PATCH>();
    let rows: [&[[f32; PATCH]]; K] =
        std::array::from_fn(|k| &weights[k * patches..(k + 1) * patches][..patches]);
    let mut sums = [[simd.splat_f32s(0.0); N]; K];
    let mut image_patches = image.patches.iter();
    for (word, &bits) in image.map.iter().enumerate() {
        for (bit, &patch) in set_bits(bits).zip(&mut image_patches) {
            let (at, x) = (word * 64 + bit, numbers::<S, N>(patch));
            for k in 0..K {
                let w = vectors::<S, N>(&rows[k][at]);
                for n in 0..N {
                    sums[k][n] = simd.mul_add_e_f32s(x[n], w[n], sums[k][n]);
                }
            }
        }
    }
    for k in 0..K {
        let sum = sums[k].iter().map(|&sum| simd.reduce_sum_f32s(sum)).sum::<f32>();
        out[k] = bias[k] + sum * UNIT;
    }
}

/// Scratch memory of [`patches_backward`].
#[derive(Clone, Debug, Default)]
pub struct PatchScratch {
    /// For each patch a word with a bit for each image of the block.
    transposed: Vec<u64>,
    /// The block's gradient by the scores of the current outputs, divided by 255.
    scales: Vec<f32>,
}

/// `grad[o][i] = sum over b of delta[b][o] * image[b][i] / 255`, or adds that to `grad`.
///
/// # Panics
/// If `inputs` is not a multiple of [`PATCH`], there are more than [`PATCH_BLOCK`] images, or the
/// slices' lengths do not fit.
pub fn patches_backward(
    inputs: usize,
    images: PatchView<'_>,
    delta: &[f32],
    scratch: &mut PatchScratch,
    mode: OutputMode,
    grad: &mut [f32],
) {
    let count = images.which.len();
    assert_eq!(inputs % PATCH, 0, "an image is whole patches");
    assert!(count <= PATCH_BLOCK, "a block of {count} images is too large");
    assert_eq!(grad.len() * count, delta.len() * inputs, "gradient");
    transpose_maps(inputs, images, &mut scratch.transposed);
    scratch.scales.resize(PATCH_BLOCK * MANY, 0.0);
    let outputs = grad.len() / inputs.max(1);
    narrow().dispatch(PatchBackward { inputs, outputs, images, delta, scratch, mode, grad });
}

struct PatchBackward<'a> {
    inputs: usize,
    outputs: usize,
    images: PatchView<'a>,
    delta: &'a [f32],
    scratch: &'a mut PatchScratch,
    mode: OutputMode,
    grad: &'a mut [f32],
}

impl WithSimd for PatchBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            PATCH => self.run::<S, 1>(simd),
            4 => self.run::<S, 2>(simd),
            1 => self.run::<S, PATCH>(simd),
            lanes => unreachable!("vectors of {lanes} numbers"),
        }
    }
}

impl PatchBackward<'_> {
    #[inline(always)]
    fn run<S: Simd, const N: usize>(mut self, simd: S) {
        let mut o = 0;
        while o + MANY <= self.outputs {
            self.rows::<S, N, MANY>(simd, o);
            o += MANY;
        }
        while o + SOME <= self.outputs {
            self.rows::<S, N, SOME>(simd, o);
            o += SOME;
        }
        while o < self.outputs {
            self.rows::<S, N, 1>(simd, o);
            o += 1;
        }
    }

    /// Rows `o .. o + K` of the gradient.
    #[inline(always)]
    fn rows<S: Simd, const N: usize, const K: usize>(&mut self, simd: S, o: usize) {
        let PatchScratch { transposed, scales } = &mut *self.scratch;
        let (scales, _) = scales.as_chunks_mut::<K>();
        for (scales, delta) in scales.iter_mut().zip(self.delta.chunks_exact(self.outputs)) {
            *scales = std::array::from_fn(|k| delta[o + k] * UNIT);
        }
        let (scales, patches) = (&scales[..PATCH_BLOCK], self.inputs / PATCH);
        // The index of each image's next patch.
        let mut nexts = [0; PATCH_BLOCK];
        for (next, &image) in nexts.iter_mut().zip(self.images.which) {
            *next = self.images.starts[image as usize] + PatchView::map_words(self.inputs) as u32;
        }
        let grad = self.grad[o * self.inputs..][..K * self.inputs].as_chunks_mut::<PATCH>().0;
        for (at, &bits) in transposed[..patches].iter().enumerate() {
            let mut sums = [[simd.splat_f32s(0.0); N]; K];
            if self.mode == OutputMode::Add {
                if bits == 0 {
                    continue;
                }
                for k in 0..K {
                    sums[k] = vectors::<S, N>(&grad[k * patches + at]);
                }
            }
            for index in set_bits(bits) {
                // An index that could panic would have the compiler spill all sums to memory.
                let Some(&patch) = self.images.words.get(nexts[index] as usize) else { break };
                nexts[index] += 1;
                let (x, scales) = (numbers::<S, N>(patch), &scales[index]);
                for k in 0..K {
                    let scale = simd.splat_f32s(scales[k]);
                    for n in 0..N {
                        sums[k][n] = simd.mul_add_e_f32s(x[n], scale, sums[k][n]);
                    }
                }
            }
            for k in 0..K {
                let row = S::as_mut_simd_f32s(&mut grad[k * patches + at]).0;
                row.copy_from_slice(&sums[k]);
            }
        }
    }
}

/// The bytes of a patch as numbers from 0 to 255.
#[inline(always)]
fn numbers<S: Simd, const N: usize>(patch: u64) -> [S::f32s; N] {
    vectors::<S, N>(&patch.to_ne_bytes().map(f32::from))
}

#[inline(always)]
fn vectors<S: Simd, const N: usize>(patch: &[f32; PATCH]) -> [S::f32s; N] {
    let all = S::as_simd_f32s(patch).0;
    std::array::from_fn(|n| all[n])
}

/// Transposes the maps of a block: a word for each patch, with a bit for each image.
fn transpose_maps(inputs: usize, images: PatchView<'_>, transposed: &mut Vec<u64>) {
    transposed.resize(PatchView::map_words(inputs) * 64, 0);
    for (word, transposed) in transposed.as_chunks_mut::<64>().0.iter_mut().enumerate() {
        *transposed = [0; 64];
        for (index, transposed) in transposed.iter_mut().take(images.which.len()).enumerate() {
            *transposed = images.image(inputs, index).map[word];
        }
        transpose(transposed);
    }
}

#[cfg(test)]
mod tests;
