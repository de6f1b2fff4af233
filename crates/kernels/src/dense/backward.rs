//! The gradient of a dense layer by its weights, its bias and its inputs.

use pulp::{Simd, WithSimd};

use crate::output_mode::OutputMode;
use crate::vectors::narrow;

/// Examples that go through all register blocks before the next ones: what a block reads of them
/// stays in the first-level cache.
const NEAR: usize = 64;

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
        let Self { inputs, outputs, x, delta, mut mode, grad } = self;
        if inputs == 0 || outputs == 0 {
            return;
        }
        for (x, delta) in x.chunks(NEAR * inputs).zip(delta.chunks(NEAR * outputs)) {
            let sums = GradSums { inputs, outputs, x, delta, mode, input: 0 };
            if outputs.is_multiple_of(5) {
                sums.put_all::<S, 5, 2>(simd, grad);
            } else {
                sums.put_all::<S, 4, 3>(simd, grad);
            }
            // Later examples add to the sums of those before, one by one, as if they were one part.
            mode = OutputMode::Add;
        }
    }
}

/// Sums over some examples, for the inputs from `input` on.
#[derive(Clone, Copy)]
struct GradSums<'a> {
    inputs: usize,
    outputs: usize,
    x: &'a [f32],
    delta: &'a [f32],
    mode: OutputMode,
    input: usize,
}

impl GradSums<'_> {
    /// The whole gradient, in register blocks of `K` outputs, at most five, by `C` vectors.
    #[inline(always)]
    fn put_all<S: Simd, const K: usize, const C: usize>(mut self, simd: S, grad: &mut [f32]) {
        while self.input + C * S::F32_LANES <= self.inputs {
            self.put::<S, K, C>(simd, grad);
            self.input += C * S::F32_LANES;
        }
        if C > 2 && self.input + 2 * S::F32_LANES <= self.inputs {
            self.put::<S, K, 2>(simd, grad);
            self.input += 2 * S::F32_LANES;
        }
        while self.input < self.inputs {
            self.put::<S, K, 1>(simd, grad);
            self.input += S::F32_LANES;
        }
    }

    /// All outputs, for `C` vectors of inputs.
    #[inline(always)]
    fn put<S: Simd, const K: usize, const C: usize>(self, simd: S, grad: &mut [f32]) {
        let mut first = 0;
        while first + K <= self.outputs {
            self.put_block::<S, K, C>(simd, first, grad);
            first += K;
        }
        match self.outputs - first {
            0 => (),
            1 => self.put_block::<S, 1, C>(simd, first, grad),
            2 => self.put_block::<S, 2, C>(simd, first, grad),
            3 => self.put_block::<S, 3, C>(simd, first, grad),
            _ => self.put_block::<S, 4, C>(simd, first, grad),
        }
    }

    /// `K` outputs, from `first` on.
    #[inline(always)]
    fn put_block<S: Simd, const K: usize, const C: usize>(
        self,
        simd: S,
        first: usize,
        grad: &mut [f32],
    ) {
        let Self { inputs, outputs, x, delta, mode, input } = self;
        let columns = input..(input + C * S::F32_LANES).min(inputs);
        let is_whole = columns.len() == C * S::F32_LANES;
        let mut sums = [[simd.splat_f32s(0.0); C]; K];
        if mode == OutputMode::Add {
            for (k, sums) in sums.iter_mut().enumerate() {
                let grad = &grad[(first + k) * inputs..][columns.clone()];
                *sums = if is_whole {
                    load_whole::<S, C>(simd, grad)
                } else {
                    load::<S, C>(simd, grad)
                };
            }
        }
        for (x, delta) in x.chunks_exact(inputs).zip(delta.chunks_exact(outputs)) {
            // An index that could panic would have the compiler spill all sums to memory.
            let Some(x) = x.get(columns.clone()) else { break };
            let Some(delta) = delta.get(first..).and_then(|delta| delta.first_chunk::<K>()) else {
                break;
            };
            let x = if is_whole { load_whole::<S, C>(simd, x) } else { load::<S, C>(simd, x) };
            for k in 0..K {
                let scale = simd.splat_f32s(delta[k]);
                for c in 0..C {
                    sums[k][c] = simd.mul_add_e_f32s(x[c], scale, sums[k][c]);
                }
            }
        }
        for (k, sums) in sums.iter().enumerate() {
            store::<S, C>(simd, &mut grad[(first + k) * inputs..][columns.clone()], sums);
        }
    }
}

/// `C` whole vectors.
#[inline(always)]
fn load_whole<S: Simd, const C: usize>(simd: S, from: &[f32]) -> [S::f32s; C] {
    match S::as_simd_f32s(from).0.first_chunk() {
        Some(whole) => *whole,
        None => [simd.splat_f32s(0.0); C],
    }
}

/// `C` vectors, with zeros where there are fewer numbers.
#[inline(always)]
fn load<S: Simd, const C: usize>(simd: S, from: &[f32]) -> [S::f32s; C] {
    let mut vectors = [simd.splat_f32s(0.0); C];
    for (vector, from) in vectors.iter_mut().zip(from.chunks(S::F32_LANES)) {
        *vector = simd.partial_load_f32s(from);
    }
    vectors
}

/// As much of `C` vectors as there is room for.
#[inline(always)]
fn store<S: Simd, const C: usize>(simd: S, to: &mut [f32], vectors: &[S::f32s; C]) {
    // A store of a part calls a function, for which all sums would be spilled to memory.
    let (whole, _) = S::as_mut_simd_f32s(to);
    if let Some(whole) = whole.first_chunk_mut::<C>() {
        *whole = *vectors;
        return;
    }
    for (vector, to) in vectors.iter().zip(to.chunks_mut(S::F32_LANES)) {
        simd.partial_store_f32s(to, *vector);
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
    if outputs == 0 {
        return dx.fill(0.0);
    }
    narrow().dispatch(InputDerivative { inputs, outputs, weights, delta, dx });
}

struct InputDerivative<'a> {
    inputs: usize,
    outputs: usize,
    weights: &'a [f32],
    delta: &'a [f32],
    dx: &'a mut [f32],
}

impl WithSimd for InputDerivative<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { inputs, outputs, weights, delta, dx } = self;
        if inputs == 0 {
            return;
        }
        let delta = delta.chunks(NEAR * outputs);
        for (delta, dx) in delta.zip(dx.chunks_mut(NEAR * inputs)) {
            let mut slopes = InputSlopes { inputs, outputs, weights, delta, input: 0 };
            while slopes.input + 3 * S::F32_LANES <= inputs {
                slopes.put::<S, 3>(simd, dx);
                slopes.input += 3 * S::F32_LANES;
            }
            if slopes.input + 2 * S::F32_LANES <= inputs {
                slopes.put::<S, 2>(simd, dx);
                slopes.input += 2 * S::F32_LANES;
            }
            while slopes.input < inputs {
                slopes.put::<S, 1>(simd, dx);
                slopes.input += S::F32_LANES;
            }
        }
    }
}

/// The derivatives of some examples by their inputs from `input` on.
#[derive(Clone, Copy)]
struct InputSlopes<'a> {
    inputs: usize,
    outputs: usize,
    weights: &'a [f32],
    delta: &'a [f32],
    input: usize,
}

impl InputSlopes<'_> {
    /// All examples, for `C` vectors of inputs.
    #[inline(always)]
    fn put<S: Simd, const C: usize>(self, simd: S, dx: &mut [f32]) {
        let Self { inputs, outputs, delta, .. } = self;
        let delta = delta.chunks(4 * outputs);
        for (delta, dx) in delta.zip(dx.chunks_mut(4 * inputs)) {
            match delta.len() / outputs {
                4 => self.put_block::<S, 4, C>(simd, delta, dx),
                3 => self.put_block::<S, 3, C>(simd, delta, dx),
                2 => self.put_block::<S, 2, C>(simd, delta, dx),
                _ => self.put_block::<S, 1, C>(simd, delta, dx),
            }
        }
    }

    /// `R` examples.
    #[inline(always)]
    fn put_block<S: Simd, const R: usize, const C: usize>(
        self,
        simd: S,
        delta: &[f32],
        dx: &mut [f32],
    ) {
        let Self { inputs, outputs, weights, input, .. } = self;
        let columns = input..(input + C * S::F32_LANES).min(inputs);
        let is_whole = columns.len() == C * S::F32_LANES;
        let mut sums = [[simd.splat_f32s(0.0); C]; R];
        let rows: [&[f32]; R] = std::array::from_fn(|r| &delta[r * outputs..][..outputs]);
        for (o, weights) in weights.chunks_exact(inputs).take(outputs).enumerate() {
            let Some(weights) = weights.get(columns.clone()) else { break };
            let weights = if is_whole {
                load_whole::<S, C>(simd, weights)
            } else {
                load::<S, C>(simd, weights)
            };
            for r in 0..R {
                let scale = simd.splat_f32s(rows[r][o]);
                for c in 0..C {
                    sums[r][c] = simd.mul_add_e_f32s(weights[c], scale, sums[r][c]);
                }
            }
        }
        for (sums, dx) in sums.iter().zip(dx.chunks_exact_mut(inputs)) {
            store::<S, C>(simd, &mut dx[columns.clone()], sums);
        }
    }
}
