//! A dense layer over images of bytes, most of which are zero.
//!
//! An image is cut into *patches* of [`PATCH`] neighbouring bytes. A map of one bit a patch says
//! which of them hold anything at all, and only those are kept. Of handwritten digits that are two
//! in five, so a kernel that goes from one set bit to the next does two fifths of the arithmetic,
//! and nothing is converted beforehand. Forward goes image by image. Backward goes patch by patch
//! over a block of images, with the sums of a patch in registers; the maps of the block are turned
//! for it, so that a word says which images touch the patch.

use pulp::{Arch, Simd, WithSimd};

use super::OutputMode;

/// Bytes of a patch: as many numbers as a vector of AVX holds.
pub const PATCH: usize = 8;
/// Images that go backward together: as many as a word has bits.
pub const PATCH_BLOCK: usize = 64;
/// Outputs that are worked on together, at best and if there are fewer.
const MANY: usize = 10;
const SOME: usize = 5;
/// How many images before its use an image is asked for.
const AHEAD: usize = 12;
/// Words of a line of the cache.
const LINE: usize = 8;
/// Lines that are asked for: most images are no longer. To look how long each one is would cost
/// more than a line too many.
const LINES: usize = 6;
/// What a byte is multiplied by to give a number from 0 to 1.
const UNIT: f32 = 1.0 / 255.0;

/// Images of bytes, all of one size, without their empty patches.
#[derive(Clone, Copy, Debug)]
pub struct PatchView<'a> {
    /// All images. Each is its map, in as many words as it takes, and then a word for each patch
    /// that is not empty, with the patch's bytes as they lie in memory.
    pub words: &'a [u64],
    /// Where each image begins, and at last where they end.
    pub starts: &'a [u32],
    /// Which of the images are meant.
    pub which: &'a [u32],
}

impl<'a> PatchView<'a> {
    /// Words of the map of an image of so many bytes.
    pub fn map_words(inputs: usize) -> usize {
        (inputs / PATCH).div_ceil(u64::BITS as usize)
    }

    /// The map and the patches of an image that is meant.
    #[inline(always)]
    fn image(&self, inputs: usize, index: usize) -> (&'a [u64], &'a [u64]) {
        let image = self.which[index] as usize;
        let (from, to) = (self.starts[image] as usize, self.starts[image + 1] as usize);
        self.words[from..to].split_at(Self::map_words(inputs))
    }

    /// Asks for an image that will soon be used.
    #[inline(always)]
    fn ask_for(&self, index: usize) {
        let Some(&image) = self.which.get(index) else { return };
        let start = self.starts[image as usize] as usize;
        for line in 0..LINES {
            super::prefetch(self.words, start + line * LINE);
        }
    }
}

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
    Arch::new().dispatch(Forward { inputs, images, weights, bias, out });
}

struct Forward<'a> {
    inputs: usize,
    images: PatchView<'a>,
    weights: &'a [f32],
    bias: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
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

impl Forward<'_> {
    #[inline(always)]
    fn run<S: Simd, const N: usize>(self, simd: S) {
        let outputs = self.bias.len();
        (0..AHEAD).for_each(|index| self.images.ask_for(index));
        for (index, out) in self.out.chunks_exact_mut(outputs.max(1)).enumerate() {
            self.images.ask_for(index + AHEAD);
            let image = self.images.image(self.inputs, index);
            let weights = |o: usize| (&self.weights[o * self.inputs..], self.inputs / PATCH);
            let mut o = 0;
            while o + MANY <= outputs {
                dots::<S, N, MANY>(simd, image, weights(o), &self.bias[o..], &mut out[o..]);
                o += MANY;
            }
            while o + SOME <= outputs {
                dots::<S, N, SOME>(simd, image, weights(o), &self.bias[o..], &mut out[o..]);
                o += SOME;
            }
            while o < outputs {
                dots::<S, N, 1>(simd, image, weights(o), &self.bias[o..], &mut out[o..]);
                o += 1;
            }
        }
    }
}

/// The dot products of an image with `K` rows of weights, each of so many patches, onto biases.
#[inline(always)]
fn dots<S: Simd, const N: usize, const K: usize>(
    simd: S,
    (map, image): (&[u64], &[u64]),
    (weights, patches): (&[f32], usize),
    bias: &[f32],
    out: &mut [f32],
) {
    let (weights, _) = weights.as_chunks::<PATCH>();
    let rows: [&[[f32; PATCH]]; K] =
        std::array::from_fn(|k| &weights[k * patches..(k + 1) * patches][..patches]);
    let mut sums = [[simd.splat_f32s(0.0); N]; K];
    let mut image = image.iter();
    for (word, &bits) in map.iter().enumerate() {
        for (bit, &patch) in set_bits(bits).zip(&mut image) {
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

/// Memory that [`patches_backward`] works in.
#[derive(Clone, Debug, Default)]
pub struct PatchScratch {
    /// For each patch a bit for each image of the block.
    turned: Vec<u64>,
    /// The block's gradient by the scores, in units of a byte, for the outputs at hand.
    scales: Vec<f32>,
}

/// `grad[o][i] = sum over b of delta[b][o] * image[b][i] / 255`, or that added to what is there.
///
/// # Panics
/// If `inputs` is not a multiple of [`PATCH`], there are more than [`PATCH_BLOCK`] images, or the
/// slices' lengths do not fit.
pub fn patches_backward(
    inputs: usize,
    images: PatchView<'_>,
    delta: &[f32],
    scratch: &mut PatchScratch,
    onto: OutputMode,
    grad: &mut [f32],
) {
    let count = images.which.len();
    assert_eq!(inputs % PATCH, 0, "an image is whole patches");
    assert!(count <= PATCH_BLOCK, "a block of {count} images is too large");
    assert_eq!(grad.len() * count, delta.len() * inputs, "gradient");
    turn(inputs, images, &mut scratch.turned);
    scratch.scales.resize(PATCH_BLOCK * MANY, 0.0);
    let outputs = grad.len() / inputs.max(1);
    Arch::new().dispatch(Backward { inputs, outputs, images, delta, scratch, onto, grad });
}

struct Backward<'a> {
    inputs: usize,
    outputs: usize,
    images: PatchView<'a>,
    delta: &'a [f32],
    scratch: &'a mut PatchScratch,
    onto: OutputMode,
    grad: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
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

impl Backward<'_> {
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
        let PatchScratch { turned, scales } = &mut *self.scratch;
        let (scales, _) = scales.as_chunks_mut::<K>();
        for (scales, delta) in scales.iter_mut().zip(self.delta.chunks_exact(self.outputs)) {
            *scales = std::array::from_fn(|k| delta[o + k] * UNIT);
        }
        let (scales, patches) = (&scales[..PATCH_BLOCK], self.inputs / PATCH);
        // Where the next patch of each image is.
        let mut nexts = [0; PATCH_BLOCK];
        for (next, &image) in nexts.iter_mut().zip(self.images.which) {
            *next = self.images.starts[image as usize] + PatchView::map_words(self.inputs) as u32;
        }
        let grad = self.grad[o * self.inputs..][..K * self.inputs].as_chunks_mut::<PATCH>().0;
        for (at, &bits) in turned[..patches].iter().enumerate() {
            let mut sums = [[simd.splat_f32s(0.0); N]; K];
            if self.onto == OutputMode::Add {
                if bits == 0 {
                    continue;
                }
                for k in 0..K {
                    sums[k] = vectors::<S, N>(&grad[k * patches + at]);
                }
            }
            for index in set_bits(bits) {
                // Not to be had any other way without a panic, before which all sums would go to
                // memory, every time.
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

/// The set bits of a word, the lowest first.
#[inline(always)]
fn set_bits(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let lowest = bits.trailing_zeros() as usize % 64;
        bits &= bits - 1;
        Some(lowest)
    })
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

/// Turns the maps of a block: a word for each patch, with a bit for each image.
fn turn(inputs: usize, images: PatchView<'_>, turned: &mut Vec<u64>) {
    turned.resize(PatchView::map_words(inputs) * 64, 0);
    for (word, turned) in turned.as_chunks_mut::<64>().0.iter_mut().enumerate() {
        *turned = [0; 64];
        for (index, turned) in turned.iter_mut().take(images.which.len()).enumerate() {
            *turned = images.image(inputs, index).0[word];
        }
        transpose(turned);
    }
}

/// Turns a square of bits: bit c of row r becomes bit r of row c. Quarters of it change places,
/// then the quarters of each quarter, and so on.
fn transpose(rows: &mut [u64; 64]) {
    let (mut width, mut mask) = (32, 0x0000_0000_FFFF_FFFFu64);
    while width > 0 {
        for from in (0..64).step_by(2 * width) {
            for row in from..from + width {
                let moved = ((rows[row] >> width) ^ rows[row + width]) & mask;
                rows[row] ^= moved << width;
                rows[row + width] ^= moved;
            }
        }
        width /= 2;
        mask ^= mask << width;
    }
}

/// Images as [`PatchView`] wants them, for tests.
#[cfg(test)]
pub(crate) fn pack(inputs: usize, bytes: &[u8]) -> (Vec<u64>, Vec<u32>) {
    let (mut words, mut starts) = (Vec::new(), vec![0]);
    for image in bytes.chunks(inputs) {
        let map = words.len();
        words.resize(map + PatchView::map_words(inputs), 0);
        for (at, &patch) in image.as_chunks::<PATCH>().0.iter().enumerate() {
            if patch != [0; PATCH] {
                words[map + at / 64] |= 1 << (at % 64);
                words.push(u64::from_ne_bytes(patch));
            }
        }
        starts.push(words.len() as u32);
    }
    (words, starts)
}

#[cfg(test)]
mod tests {
    use super::super::{dense_backward_weights, dense_forward};
    use super::*;

    /// Images with so many of 10 patches full; some of them have one byte in a patch only.
    fn images(count: usize, inputs: usize, full: usize) -> Vec<u8> {
        let byte = |image: usize, i: usize| {
            let is_full = (image * 3 + i / PATCH * 7) % 10 < full;
            let alone = image.is_multiple_of(3) && i % PATCH != image % PATCH;
            if is_full && !alone { ((image * 5 + i * 3) % 4 + 1) as u8 * 51 } else { 0 }
        };
        (0..count * inputs).map(|at| byte(at / inputs, at % inputs)).collect()
    }

    fn near(ours: &[f32], dense: &[f32], what: &str) {
        assert_eq!(ours.len(), dense.len());
        for (i, (ours, dense)) in ours.iter().zip(dense).enumerate() {
            assert!(
                (ours - dense).abs() <= 1e-4 * dense.abs().max(1.0),
                "{what} {i}: {ours}, {dense}"
            );
        }
    }

    fn check(count: usize, inputs: usize, outputs: usize, full: usize) {
        let bytes = images(count + 2, inputs, full);
        let (words, starts) = pack(inputs, &bytes);
        // From the last to the first but one, so that places and images differ.
        let which: Vec<u32> = (1..=count as u32).rev().collect();
        let images = PatchView { words: &words, starts: &starts, which: &which };
        let x: Vec<f32> = which
            .iter()
            .flat_map(|&image| &bytes[image as usize * inputs..][..inputs])
            .map(|&byte| f32::from(byte) / 255.0)
            .collect();
        let number = |i: usize| ((i * 7) % 11) as f32 - 5.0;
        let weights: Vec<f32> = (0..outputs * inputs).map(number).collect();
        let (bias, delta) =
            (&weights[..outputs], (0..count * outputs).map(number).collect::<Vec<_>>());
        let what = format!("{count}x{inputs}x{outputs}, {full}");

        let (mut ours, mut dense) = (vec![f32::NAN; count * outputs], vec![0.0; count * outputs]);
        patches_forward(inputs, images, &weights, bias, &mut ours);
        dense_forward(inputs, &x, &weights, bias, &mut dense);
        near(&ours, &dense, &what);

        let mut scratch = PatchScratch::default();
        let (mut ours, mut dense) = (vec![f32::NAN; weights.len()], vec![0.0; weights.len()]);
        for onto in [OutputMode::Overwrite, OutputMode::Add] {
            patches_backward(inputs, images, &delta, &mut scratch, onto, &mut ours);
            dense_backward_weights(inputs, outputs, &x, &delta, onto, &mut dense);
            near(&ours, &dense, &what);
        }
    }

    #[test]
    fn both_directions_agree_with_the_dense_kernels_whatever_is_empty() {
        for count in [1, 2, 7, 63, 64] {
            for inputs in [8, 16, 72, 512, 520, 784] {
                for (outputs, full) in [(1, 5), (4, 10), (5, 4), (6, 0), (10, 4), (11, 10), (26, 3)]
                {
                    check(count, inputs, outputs, full);
                }
            }
        }
    }

    #[test]
    fn a_square_of_bits_is_turned() {
        let mut rows: [u64; 64] =
            std::array::from_fn(|row| (row as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let before = rows;
        transpose(&mut rows);
        for (r, before) in before.iter().enumerate() {
            for (c, after) in rows.iter().enumerate() {
                assert_eq!(after >> r & 1, before >> c & 1, "{r},{c}");
            }
        }
    }
}
