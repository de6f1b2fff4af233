//! Dense layers at small batches, where general matrix products are weak.
//!
//! Weights are stored as a row for each output (`[outputs, inputs]`, as PyTorch does), so both
//! directions run along rows: forward is many dot products, backward many scaled sums of
//! rows. Each uses register blocks large enough to issue two multiply-adds in every cycle: five
//! outputs by two vectors or examples where five divides the outputs, else four by three.

mod backward;

use pulp::{Simd, WithSimd};

use crate::vectors::narrow;

pub use backward::{dense_backward_bias, dense_backward_inputs, dense_backward_weights};

/// Inputs of the examples that meet some outputs before the next outputs come: they stay in the
/// first-level cache, and the weights come from the second-level cache once for all of them.
const NEAR: usize = 2_048;

/// `out[b][o] = bias[o] + sum over i of x[b][i] * weights[o][i]`.
///
/// # Panics
/// If the slices' lengths do not fit `bias.len()` outputs and `inputs` inputs.
pub fn dense_forward(inputs: usize, x: &[f32], weights: &[f32], bias: &[f32], out: &mut [f32]) {
    let outputs = bias.len();
    assert_eq!(weights.len(), outputs * inputs, "weights");
    assert_eq!(x.len() * outputs, out.len() * inputs, "batch");
    narrow().dispatch(DenseForward { inputs, x, weights, bias, out });
}

struct DenseForward<'a> {
    inputs: usize,
    x: &'a [f32],
    weights: &'a [f32],
    bias: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for DenseForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { inputs, x, weights, bias, out } = self;
        if inputs == 0 || bias.is_empty() {
            return;
        }
        if bias.len().is_multiple_of(5) {
            let examples = near_examples::<2>(inputs);
            let x = x.chunks(examples * inputs);
            for (x, out) in x.zip(out.chunks_mut(examples * bias.len())) {
                NearExamples { inputs, x, weights, bias, first: 0 }.put_all::<S, 2, 5>(simd, out);
            }
        } else {
            let examples = near_examples::<3>(inputs);
            let x = x.chunks(examples * inputs);
            for (x, out) in x.zip(out.chunks_mut(examples * bias.len())) {
                NearExamples { inputs, x, weights, bias, first: 0 }.put_all::<S, 3, 4>(simd, out);
            }
        }
    }
}

/// How many examples stay near, in whole register blocks of `R`.
fn near_examples<const R: usize>(inputs: usize) -> usize {
    (NEAR / inputs / R).max(1) * R
}

/// Some examples, and the outputs from `first` on.
#[derive(Clone, Copy)]
struct NearExamples<'a> {
    inputs: usize,
    x: &'a [f32],
    weights: &'a [f32],
    bias: &'a [f32],
    first: usize,
}

impl NearExamples<'_> {
    /// All outputs, in register blocks of `R` examples by `K` outputs, which is at most five.
    #[inline(always)]
    fn put_all<S: Simd, const R: usize, const K: usize>(mut self, simd: S, out: &mut [f32]) {
        while self.first + K <= self.bias.len() {
            self.put::<S, R, K>(simd, out);
            self.first += K;
        }
        match self.bias.len() - self.first {
            0 => (),
            1 => self.put::<S, R, 1>(simd, out),
            2 => self.put::<S, R, 2>(simd, out),
            3 => self.put::<S, R, 3>(simd, out),
            _ => self.put::<S, R, 4>(simd, out),
        }
    }

    /// `K` outputs.
    #[inline(always)]
    fn put<S: Simd, const R: usize, const K: usize>(self, simd: S, out: &mut [f32]) {
        let Self { inputs, x, weights, bias, first } = self;
        let outputs = bias.len();
        let weights = &weights[first * inputs..][..K * inputs];
        let bias = &bias[first..first + K];
        let mut x_blocks = x.chunks_exact(R * inputs);
        let mut out_blocks = out.chunks_exact_mut(R * outputs);
        for (x, out) in (&mut x_blocks).zip(&mut out_blocks) {
            let sums = dots::<S, R, K>(simd, x, weights);
            for (sums, out) in sums.iter().zip(out.chunks_exact_mut(outputs)) {
                write_outputs(sums, bias, &mut out[first..first + K]);
            }
        }
        let x = x_blocks.remainder().chunks_exact(inputs);
        for (x, out) in x.zip(out_blocks.into_remainder().chunks_exact_mut(outputs)) {
            let [sums] = dots::<S, 1, K>(simd, x, weights);
            write_outputs(&sums, bias, &mut out[first..first + K]);
        }
    }
}

#[inline(always)]
fn write_outputs(sums: &[f32], bias: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(bias).zip(sums).for_each(|((out, bias), sum)| *out = bias + sum);
}

/// The dot products of `R` rows with `K` rows, which are all equally long.
#[inline(always)]
fn dots<S: Simd, const R: usize, const K: usize>(simd: S, x: &[f32], w: &[f32]) -> [[f32; K]; R] {
    let len = x.len() / R;
    let x: [_; R] = std::array::from_fn(|r| S::as_simd_f32s(&x[r * len..][..len]));
    let w: [_; K] = std::array::from_fn(|k| S::as_simd_f32s(&w[k * len..][..len]));
    let vectors = len / S::F32_LANES;
    let mut acc = [[simd.splat_f32s(0.0); K]; R];
    let x_heads: [_; R] = std::array::from_fn(|r| &x[r].0[..vectors]);
    let w_heads: [_; K] = std::array::from_fn(|k| &w[k].0[..vectors]);
    for v in 0..vectors {
        let x: [_; R] = std::array::from_fn(|r| x_heads[r][v]);
        for k in 0..K {
            let w = w_heads[k][v];
            for r in 0..R {
                acc[r][k] = simd.mul_add_e_f32s(x[r], w, acc[r][k]);
            }
        }
    }
    let mut sums = [[0.0; K]; R];
    for r in 0..R {
        for k in 0..K {
            let tail: f32 = x[r].1.iter().zip(w[k].1).map(|(x, w)| x * w).sum();
            sums[r][k] = simd.reduce_sum_f32s(acc[r][k]) + tail;
        }
    }
    sums
}

#[cfg(test)]
mod tests;
