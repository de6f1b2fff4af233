//! `paceline bench step`: a step of softmax regression, compared with bare matrix products.

use std::hint::black_box;
use std::time::Instant;

use paceline_data::{BatchBuffer, Digits, Images, Patches};
use paceline_model::{
    AlignedBuffer, Batch, Model, OptimizerState, OutputMode, Sgd, SharedPatches, Softmax,
};

use crate::products::{self, MatrixView, product};
use crate::sizes::TURN;
use paceline_terminal::{aligned, grouped};

const INPUTS: usize = 784;
const CLASSES: usize = 10;
const TURNS: usize = 8;

/// Examples of the benchmark on images: more than the second-level cache holds.
const DIGITS: usize = 20_000;

/// A step of softmax regression compared with its products, and on images without empty patches.
pub fn step() -> String {
    dense() + "\n" + &without_empty_patches()
}

/// Steps/s of softmax regression (gradient and update) on one thread at several batches,
/// compared with a loop of the same two matrix products.
fn dense() -> String {
    let mut rows = vec![
        ["batch", "steps/s", "examples/s", "bare products/s", "ratio"].map(String::from).to_vec(),
    ];
    for batch in [10, 60, 100] {
        let (mut ours, mut bare) = (SoftmaxStep::new(batch), BareProducts::new(batch));
        let (mut ours_best, mut bare_best) = (0f64, 0f64);
        for _ in 0..TURNS {
            ours_best = ours_best.max(rate(|| ours.step()));
            if products::ENABLED {
                bare_best = bare_best.max(rate(|| bare.step()));
            }
        }
        let bare = |figure: String| if products::ENABLED { figure } else { "-".into() };
        rows.push(vec![
            batch.to_string(),
            grouped(ours_best as u64),
            grouped((ours_best * batch as f64) as u64),
            bare(grouped(bare_best as u64)),
            bare(format!("{:.2}", ours_best / bare_best)),
        ]);
    }
    let title = format!(
        "softmax regression, {INPUTS} inputs, {CLASSES} classes, one thread; \
         bare: the same two products by the crate gemm\n"
    );
    title + &aligned(&rows) + products::NOTE
}

/// Gradients/s over generated digits in random order: as bytes without empty patches on one and two
/// threads, compared with all pixels as floats on one thread.
fn without_empty_patches() -> String {
    let images = Digits::generate_sets(DIGITS, 1, 1).train;
    let Some(patches) = Patches::of(&images) else { return String::new() };
    let head = ["batch", "patches", "2 threads", "all pixels", "ratio", "2 threads"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for batch in [10, 60, 600] {
        let model = |threads| Softmax::for_patches(INPUTS, CLASSES, threads);
        let (Ok(one), Ok(two)) = (model(1), model(2)) else { return String::new() };
        let mut benches = [(one, true), (two, true), (Softmax::new(INPUTS, CLASSES), false)]
            .map(|(model, is_patchy)| GradientBench::new(model, batch, is_patchy));
        let mut best = [0f64; 3];
        for _ in 0..TURNS {
            for (bench, best) in benches.iter_mut().zip(&mut best) {
                *best = best.max(rate(|| bench.step(&images, &patches)));
            }
        }
        let mut row = vec![batch.to_string()];
        row.extend(best.map(|rate| grouped(rate as u64)));
        row.extend([best[0], best[1]].map(|rate| format!("{:.2}", rate / best[2])));
        rows.push(row);
    }
    let share = (**patches.words()).as_ref().len() as f64 / (DIGITS * INPUTS / 8) as f64;
    format!(
        "the same without the update, steps/s over generated digits, of whose pixels {:.0} % are \
         kept\n{}",
        100.0 * share,
        aligned(&rows)
    )
}

/// Gradients over images in random order, in one of two forms.
struct GradientBench {
    model: Softmax,
    is_patchy: bool,
    which: Vec<u32>,
    labels: Vec<u32>,
    buffer: BatchBuffer,
    params: AlignedBuffer,
    grad: AlignedBuffer,
    done: usize,
}

impl GradientBench {
    fn new(model: Softmax, batch: usize, is_patchy: bool) -> Self {
        let mut params = AlignedBuffer::zeros(model.layout().len());
        params.fill(0.01);
        let (which, grad) = (vec![0; batch], AlignedBuffer::zeros(params.len()));
        let (labels, buffer) = (Vec::new(), BatchBuffer::default());
        Self { model, is_patchy, which, labels, buffer, params, grad, done: 0 }
    }

    fn step(&mut self, images: &Images, patches: &Patches) {
        for (number, image) in (self.done..).zip(&mut self.which) {
            *image = (number * 7_919 % DIGITS) as u32;
        }
        self.done += self.which.len();
        let (share, mut mode) = (1.0 / self.which.len() as f32, OutputMode::Overwrite);
        for which in self.which.chunks(self.model.max_block()) {
            let block = if self.is_patchy {
                self.labels.clear();
                self.labels.extend(which.iter().map(|&image| patches.labels()[image as usize]));
                let (words, starts) = (patches.words(), patches.starts());
                Batch::patches(SharedPatches { words, starts, which }, &self.labels)
            } else {
                self.buffer.fill(images, which.iter().map(|&image| image as usize));
                Batch::dense(&self.buffer.inputs, &self.buffer.labels)
            };
            black_box(self.model.gradient(&self.params, block, share, mode, &mut self.grad));
            mode = OutputMode::Add;
        }
    }
}

/// Calls per second.
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
    optimizer: OptimizerState,
    params: AlignedBuffer,
    grad: AlignedBuffer,
    inputs: Vec<f32>,
    labels: Vec<u32>,
    done: u64,
}

impl SoftmaxStep {
    fn new(batch: usize) -> Self {
        let model = Softmax::new(INPUTS, CLASSES);
        let params = AlignedBuffer::zeros(model.layout().len());
        Self {
            optimizer: OptimizerState::new(Sgd::new(0.01), model.layout(), 0..params.len()),
            grad: AlignedBuffer::zeros(params.len()),
            params,
            model,
            inputs: pixels(batch),
            labels: (0..batch as u32).map(|i| i % CLASSES as u32).collect(),
            done: 0,
        }
    }

    fn step(&mut self) {
        let share = 1.0 / self.labels.len() as f32;
        let mut mode = OutputMode::Overwrite;
        let most = self.model.max_block();
        let blocks = self.inputs.chunks(most * INPUTS).zip(self.labels.chunks(most));
        for (inputs, labels) in blocks {
            let block = Batch::dense(inputs, labels);
            black_box(self.model.gradient(&self.params, block, share, mode, &mut self.grad));
            mode = OutputMode::Add;
        }
        self.optimizer.apply(self.done, 0, &mut self.params, &self.grad);
        self.done += 1;
    }
}

/// Only the products of a step: scores = inputs * weights^T, gradient = delta^T * inputs.
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
        let weights = MatrixView { values: &self.weights, strides: [1, inputs] };
        let examples = MatrixView { values: &self.inputs, strides: [inputs, 1] };
        product([self.batch, CLASSES, INPUTS], &mut self.scores, &examples, &weights);
        let delta = MatrixView { values: &self.scores, strides: [1, classes] };
        product([CLASSES, INPUTS, self.batch], &mut self.grad, &delta, &examples);
        black_box((&self.scores, &self.grad));
    }
}
