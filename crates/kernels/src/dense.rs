//! Dense layers at small batches, where general matrix products are weak.
//!
//! Weights are stored as a row for each output (`[outputs, inputs]`, as PyTorch does), so both
//! directions run along rows: forward is many dot products, backward many scaled sums of
//! rows. Each uses register blocks large enough to issue two multiply-adds in every cycle.

use pulp::{Simd, WithSimd};

use crate::elementwise::each;
use crate::output_mode::OutputMode;
use crate::vectors::narrow;

/// Outputs of a register block.
const OUT: usize = 5;
/// Examples of a register block of the forward kernel.
const ROWS: usize = 2;
/// Vectors of inputs of a register block of the backward kernel.
const COLS: usize = 2;

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
        let (inputs, outputs) = (self.inputs, self.bias.len());
        if inputs == 0 || outputs == 0 {
            return;
        }
        let rows = |all: &mut [f32]| all.len() / outputs;
        let mut x_blocks = self.x.chunks_exact(ROWS * inputs);
        let mut out_blocks = self.out.chunks_exact_mut(ROWS * outputs);
        for (x, out) in (&mut x_blocks).zip(&mut out_blocks) {
            forward_rows::<S, ROWS>(simd, x, self.weights, self.bias, out);
        }
        let out = out_blocks.into_remainder();
        for b in 0..rows(out) {
            let x = &x_blocks.remainder()[b * inputs..][..inputs];
            let out = &mut out[b * outputs..][..outputs];
            forward_rows::<S, 1>(simd, x, self.weights, self.bias, out);
        }
    }
}

/// All outputs for `R` examples.
#[inline(always)]
fn forward_rows<S: Simd, const R: usize>(
    simd: S,
    x: &[f32],
    weights: &[f32],
    bias: &[f32],
    out: &mut [f32],
) {
    let inputs = x.len() / R;
    let outputs = bias.len();
    let mut o = 0;
    while o + OUT <= outputs {
        let sums = dots::<S, R, OUT>(simd, x, &weights[o * inputs..][..OUT * inputs]);
        for r in 0..R {
            for k in 0..OUT {
                out[r * outputs + o + k] = bias[o + k] + sums[r][k];
            }
        }
        o += OUT;
    }
    while o < outputs {
        let sums = dots::<S, R, 1>(simd, x, &weights[o * inputs..][..inputs]);
        for r in 0..R {
            out[r * outputs + o] = bias[o] + sums[r][0];
        }
        o += 1;
    }
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

/// `grad[o][i] = sum over b of delta[b][o] * x[b][i]`, or adds that to `grad`.
///
/// # Panics
/// If the slices' lengths do not fit `inputs` inputs and `outputs` outputs.
pub fn dense_backward_weights(
    inputs: usize,
    outputs: usize,
    x: &[f32],
    delta: &[f32],
    mode: OutputMode,
    grad: &mut [f32],
) {
    assert_eq!(grad.len(), outputs * inputs, "gradient");
    assert_eq!(x.len() * outputs, delta.len() * inputs, "batch");
    if mode == OutputMode::Overwrite && delta.is_empty() {
        grad.fill(0.0);
    }
    narrow().dispatch(BackwardWeights { inputs, outputs, x, delta, mode, grad });
}

struct BackwardWeights<'a> {
    inputs: usize,
    outputs: usize,
    x: &'a [f32],
    delta: &'a [f32],
    mode: OutputMode,
    grad: &'a mut [f32],
}

impl WithSimd for BackwardWeights<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { inputs, outputs, x, delta, mode, grad } = self;
        if inputs == 0 || outputs == 0 {
            return;
        }
        let mut o = 0;
        while o + OUT <= outputs {
            let grad = &mut grad[o * inputs..][..OUT * inputs];
            GradRows { inputs, outputs, x, delta, first: o, mode }.put::<S, OUT>(simd, grad);
            o += OUT;
        }
        while o < outputs {
            let grad = &mut grad[o * inputs..][..inputs];
            GradRows { inputs, outputs, x, delta, first: o, mode }.put::<S, 1>(simd, grad);
            o += 1;
        }
    }
}

/// Some rows of the gradient, from output `first` on.
#[derive(Clone, Copy)]
struct GradRows<'a> {
    inputs: usize,
    outputs: usize,
    x: &'a [f32],
    delta: &'a [f32],
    first: usize,
    mode: OutputMode,
}

impl GradRows<'_> {
    /// Computes `K` rows.
    #[inline(always)]
    fn put<S: Simd, const K: usize>(self, simd: S, grad: &mut [f32]) {
        let Self { inputs, outputs, x, delta, first, mode } = self;
        let wide = COLS * S::F32_LANES;
        let mut i = 0;
        while i + wide <= inputs {
            self.put_block::<S, K, COLS>(simd, i, grad);
            i += wide;
        }
        while i + S::F32_LANES <= inputs {
            self.put_block::<S, K, 1>(simd, i, grad);
            i += S::F32_LANES;
        }
        for i in i..inputs {
            for k in 0..K {
                let column = x[i..].iter().step_by(inputs);
                let scales = delta[first + k..].iter().step_by(outputs);
                let start = if mode == OutputMode::Add { grad[k * inputs + i] } else { 0.0 };
                grad[k * inputs + i] = column.zip(scales).fold(start, |sum, (x, d)| sum + x * d);
            }
        }
    }

    /// `K` rows by `C` vectors of the gradient, from column `i`, summed over the batch.
    #[inline(always)]
    fn put_block<S: Simd, const K: usize, const C: usize>(
        self,
        simd: S,
        i: usize,
        grad: &mut [f32],
    ) {
        let Self { inputs, outputs, x, delta, first, mode } = self;
        let mut acc = [[simd.splat_f32s(0.0); C]; K];
        if mode == OutputMode::Add {
            for k in 0..K {
                let row = &grad[k * inputs + i..][..C * S::F32_LANES];
                acc[k].copy_from_slice(S::as_simd_f32s(row).0);
            }
        }
        for (x, delta) in x.chunks_exact(inputs).zip(delta.chunks_exact(outputs)) {
            let x = &S::as_simd_f32s(&x[i..i + C * S::F32_LANES]).0[..C];
            let delta = &delta[first..first + K];
            for k in 0..K {
                let scale = simd.splat_f32s(delta[k]);
                for c in 0..C {
                    acc[k][c] = simd.mul_add_e_f32s(x[c], scale, acc[k][c]);
                }
            }
        }
        for k in 0..K {
            let row = &mut grad[k * inputs + i..][..C * S::F32_LANES];
            S::as_mut_simd_f32s(row).0.copy_from_slice(&acc[k]);
        }
    }
}

/// `grad[o] = sum over b of delta[b][o]`, or adds that to `grad`.
///
/// # Panics
/// If `delta` is not whole rows of `grad.len()` values.
pub fn dense_backward_bias(delta: &[f32], mode: OutputMode, grad: &mut [f32]) {
    assert_eq!(delta.len() % grad.len().max(1), 0, "batch");
    mode.prepare(grad);
    for row in delta.chunks_exact(grad.len().max(1)) {
        grad.iter_mut().zip(row).for_each(|(sum, delta)| *sum += delta);
    }
}

/// `dx[b][i] = sum over o of delta[b][o] * weights[o][i]`.
///
/// # Panics
/// If the slices' lengths do not fit `inputs` inputs.
pub fn dense_backward_inputs(inputs: usize, weights: &[f32], delta: &[f32], dx: &mut [f32]) {
    let outputs = weights.len() / inputs.max(1);
    assert_eq!(weights.len(), outputs * inputs, "weights");
    assert_eq!(dx.len() * outputs, delta.len() * inputs, "batch");
    dx.fill(0.0);
    for (dx, delta) in dx.chunks_exact_mut(inputs.max(1)).zip(delta.chunks_exact(outputs.max(1))) {
        for (row, delta) in weights.chunks_exact(inputs.max(1)).zip(delta) {
            each(
                #[inline(always)]
                || dx.iter_mut().zip(row).for_each(|(dx, weight)| *dx += delta * weight),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that are exact in any order of summing, so kernels can be compared bit for bit.
    fn small_whole(len: usize, salt: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7 + salt * 13) % 11) as f32 - 5.0).collect()
    }

    fn check(batch: usize, inputs: usize, outputs: usize) {
        let x = small_whole(batch * inputs, 1);
        let weights = small_whole(outputs * inputs, 2);
        let bias = small_whole(outputs, 3);
        let mut out = vec![f32::NAN; batch * outputs];
        dense_forward(inputs, &x, &weights, &bias, &mut out);
        for b in 0..batch {
            for o in 0..outputs {
                let dot: f32 =
                    (0..inputs).map(|i| x[b * inputs + i] * weights[o * inputs + i]).sum();
                assert_eq!(
                    out[b * outputs + o],
                    dot + bias[o],
                    "{batch}x{inputs}x{outputs}: {b},{o}"
                );
            }
        }
        let delta = small_whole(batch * outputs, 4);
        let mut grad = vec![f32::NAN; outputs * inputs];
        dense_backward_weights(inputs, outputs, &x, &delta, OutputMode::Overwrite, &mut grad);
        let mut twice = grad.clone();
        dense_backward_weights(inputs, outputs, &x, &delta, OutputMode::Add, &mut twice);
        for o in 0..outputs {
            for i in 0..inputs {
                assert_eq!(twice[o * inputs + i], 2.0 * grad[o * inputs + i]);
                let sum: f32 = (0..batch).map(|b| x[b * inputs + i] * delta[b * outputs + o]).sum();
                assert_eq!(grad[o * inputs + i], sum, "{batch}x{inputs}x{outputs}: {o},{i}");
            }
        }
        let (mut bias_grad, mut dx) = (vec![f32::NAN; outputs], vec![f32::NAN; batch * inputs]);
        dense_backward_bias(&delta, OutputMode::Overwrite, &mut bias_grad);
        for (o, got) in bias_grad.iter().enumerate() {
            assert_eq!(*got, (0..batch).map(|b| delta[b * outputs + o]).sum::<f32>());
        }
        dense_backward_inputs(inputs, &weights, &delta, &mut dx);
        for (at, got) in dx.iter().enumerate() {
            let (b, i) = (at / inputs, at % inputs);
            let terms = (0..outputs).map(|o| delta[b * outputs + o] * weights[o * inputs + i]);
            assert_eq!(*got, terms.sum::<f32>(), "{batch}x{inputs}x{outputs}: {b},{i}");
        }
    }

    #[test]
    fn all_directions_equal_the_plain_sums_at_odd_sizes() {
        for batch in [1, 2, 3, 10] {
            for inputs in [1, 7, 8, 9, 16, 31, 784] {
                for outputs in [1, 2, 4, 5, 6, 10, 11] {
                    check(batch, inputs, outputs);
                }
            }
        }
    }
}
