//! `paceline bench step`: a step of softmax regression, beside its bare matrix products.

use std::hint::black_box;
use std::time::Instant;

use gemm::{Parallelism, gemm};
use paceline_model::{Batch, Model, Onto, Optimizer, OptimizerSpec, Softmax};

use super::TURN;
use crate::table::{aligned, grouped};

const INPUTS: usize = 784;
const CLASSES: usize = 10;
const TURNS: usize = 8;

/// Steps/s of softmax regression (gradient and update) on one thread at several batches,
/// beside a bare loop of the same two matrix products.
pub fn step() -> String {
    let mut rows = vec![
        ["batch", "steps/s", "examples/s", "bare products/s", "ratio"].map(String::from).to_vec(),
    ];
    for batch in [10, 60, 100] {
        let (mut ours, mut bare) = (SoftmaxStep::new(batch), BareProducts::new(batch));
        let (mut ours_best, mut bare_best) = (0f64, 0f64);
        for _ in 0..TURNS {
            ours_best = ours_best.max(rate(|| ours.step()));
            bare_best = bare_best.max(rate(|| bare.step()));
        }
        rows.push(vec![
            batch.to_string(),
            grouped(ours_best as u64),
            grouped((ours_best * batch as f64) as u64),
            grouped(bare_best as u64),
            format!("{:.2}", ours_best / bare_best),
        ]);
    }
    let title = format!(
        "softmax regression, {INPUTS} inputs, {CLASSES} classes, one thread; \
         bare: the same two products by the crate gemm\n"
    );
    title + &aligned(&rows)
}

/// How often a second something can be done.
fn rate(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut done = 0u32;
    while start.elapsed() < TURN {
        for _ in 0..100 {
            work();
        }
        done += 100;
    }
    f64::from(done) / start.elapsed().as_secs_f64()
}

fn pixels(batch: usize) -> Vec<f32> {
    (0..batch * INPUTS).map(|i| (i * 7_919 % 256) as f32 / 255.0).collect()
}

struct SoftmaxStep {
    model: Softmax,
    optimizer: Optimizer,
    params: Vec<f32>,
    grad: Vec<f32>,
    inputs: Vec<f32>,
    labels: Vec<u32>,
    done: u64,
}

impl SoftmaxStep {
    fn new(batch: usize) -> Self {
        let model = Softmax::new(INPUTS, CLASSES);
        let params = vec![0.0; model.layout().len()];
        Self {
            optimizer: Optimizer::new(OptimizerSpec::sgd(0.01), model.layout(), 0..params.len()),
            grad: params.clone(),
            params,
            model,
            inputs: pixels(batch),
            labels: (0..batch as u32).map(|i| i % CLASSES as u32).collect(),
            done: 0,
        }
    }

    fn step(&mut self) {
        let share = 1.0 / self.labels.len() as f32;
        let mut onto = Onto::Zero;
        let most = self.model.max_block();
        let blocks = self.inputs.chunks(most * INPUTS).zip(self.labels.chunks(most));
        for (inputs, labels) in blocks {
            let block = Batch::dense(inputs, labels);
            black_box(self.model.gradient(&self.params, block, share, onto, &mut self.grad));
            onto = Onto::Present;
        }
        self.optimizer.apply(self.done, 0, &mut self.params, &self.grad);
        self.done += 1;
    }
}

/// The products of a step alone: scores = inputs * weights^T, gradient = delta^T * inputs.
struct BareProducts {
    batch: usize,
    inputs: Vec<f32>,
    weights: Vec<f32>,
    scores: Vec<f32>,
    grad: Vec<f32>,
}

impl BareProducts {
    fn new(batch: usize) -> Self {
        Self {
            batch,
            inputs: pixels(batch),
            weights: vec![0.01; CLASSES * INPUTS],
            scores: vec![0.01; batch * CLASSES],
            grad: vec![0.0; CLASSES * INPUTS],
        }
    }

    fn step(&mut self) {
        let (inputs, classes) = (INPUTS as isize, CLASSES as isize);
        let weights = Matrix { values: &self.weights, strides: [1, inputs] };
        let examples = Matrix { values: &self.inputs, strides: [inputs, 1] };
        product([self.batch, CLASSES, INPUTS], &mut self.scores, &examples, &weights);
        let delta = Matrix { values: &self.scores, strides: [1, classes] };
        product([CLASSES, INPUTS, self.batch], &mut self.grad, &delta, &examples);
        black_box((&self.scores, &self.grad));
    }
}

/// A matrix as a slice and the distances from one row and from one column to the next.
pub(super) struct Matrix<'a> {
    pub(super) values: &'a [f32],
    pub(super) strides: [isize; 2],
}

/// `out = left * right` for sizes [m, n, k]; `out` is stored row after row.
#[expect(unsafe_code, reason = "the crate gemm takes raw pointers")]
pub(super) fn product(
    [m, n, k]: [usize; 3],
    out: &mut [f32],
    left: &Matrix<'_>,
    right: &Matrix<'_>,
) {
    assert_eq!((out.len(), left.values.len(), right.values.len()), (m * n, m * k, k * n));
    // SAFETY: the three slices are exactly as large as the sizes say, their strides are those
    // of dense matrices of these sizes, and `out` is borrowed mutably, so it overlaps neither.
    unsafe {
        gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            false,
            left.values.as_ptr(),
            left.strides[1],
            left.strides[0],
            right.values.as_ptr(),
            right.strides[1],
            right.strides[0],
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
