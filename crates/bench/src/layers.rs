//! `paceline bench layers`: a step of LeNet-5 or AlexNet, layer by layer, compared with bare matrix
//! products of the same shapes.
//!
//! A whole step updates in place, as in mode `single`, so the complete gradient never exists.
//! Layers are timed in separate steps, which compute the gradient but do not update.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use paceline_model::{
    AlexNet, Batch, Descent, InPlace, LayerCost, Model, Momentum, Network, OptimizerState,
    OutputMode, Sgd, StepEvent, lenet,
};

use crate::args::{LayersArgs, NetworkChoice};
use crate::error::BenchError;
use crate::products::{self, MatrixView, product};
use crate::sizes::TURN;
use paceline_terminal::aligned;

/// Times of each layer and of whole steps, and the bare products' rates.
pub fn layers(args: &LayersArgs) -> Result<String, BenchError> {
    let mut bench = LayerBench::new(args)?;
    let start = Instant::now();
    for turn in 0.. {
        if turn >= 3 && start.elapsed().as_secs_f64() > args.seconds {
            break;
        }
        bench.step(turn);
        if !args.json {
            bench.time_layers();
        }
    }
    let seconds = bench.best_step.as_secs_f64();
    if args.json {
        let per_second = args.batch as f64 / seconds;
        return Ok(format!(
            "{{\"step_seconds\": {seconds:.6}, \"examples_per_second\": {per_second:.1}}}\n"
        ));
    }
    Ok(bench.report(args))
}

/// The best times of one layer.
#[derive(Clone, Copy)]
struct LayerTimes {
    forward: Duration,
    backward: Duration,
}

const NEVER: LayerTimes = LayerTimes { forward: Duration::MAX, backward: Duration::MAX };
const NONE: LayerTimes = LayerTimes { forward: Duration::ZERO, backward: Duration::ZERO };

struct LayerBench {
    model: Network,
    cost: Vec<LayerCost>,
    optimizer: OptimizerState,
    params: Vec<f32>,
    grad: Vec<f32>,
    inputs: Vec<f32>,
    labels: Vec<u32>,
    best: Vec<LayerTimes>,
    best_step: Duration,
}

impl LayerBench {
    fn new(args: &LayersArgs) -> Result<Self, BenchError> {
        let sizes = AlexNet { dropout: 0.0, ..AlexNet::default() };
        let (model, spec) = match args.model {
            NetworkChoice::Lenet => (lenet(args.batch, args.threads), Sgd::new(0.01)),
            NetworkChoice::Alexnet => {
                (sizes.network(args.batch, args.threads), Momentum::new(0.01, 0.9))
            }
        };
        let model = model.map_err(|error| BenchError::Network(error.to_string()))?;
        let mut params = vec![0.0; model.layout().len()];
        model.initialise(1, &mut params);
        let pixels = args.batch * model.inputs();
        Ok(Self {
            cost: model.cost(),
            optimizer: OptimizerState::new(spec, model.layout(), 0..params.len()),
            // Takes no memory before it is written to.
            grad: vec![0.0; params.len()],
            params,
            inputs: (0..pixels).map(|i| (i * 7_919 % 256) as f32 / 255.0).collect(),
            labels: (0..args.batch).map(|i| (i % model.classes()) as u32).collect(),
            best: vec![NEVER; model.layers().len()],
            best_step: Duration::MAX,
            model,
        })
    }

    fn step(&mut self, turn: u64) {
        let Self { model, params, optimizer, inputs, labels, .. } = self;
        let start = Instant::now();
        let descent = Descent { params, optimizer, step: turn };
        black_box(model.descend(descent, Batch::dense(inputs, labels)));
        self.best_step = self.best_step.min(start.elapsed());
    }

    fn time_layers(&mut self) {
        let share = 1.0 / self.labels.len() as f32;
        let block = Batch::dense(&self.inputs, &self.labels);
        let mut times = vec![NONE; self.best.len()];
        let mut last = Instant::now();
        let (mode, grad) = (OutputMode::Overwrite, &mut self.grad[..]);
        let observe = &mut |event: StepEvent<'_>| {
            let now = Instant::now();
            match event {
                StepEvent::Forward { layer } => times[layer].forward += now - last,
                StepEvent::Backward { layer } => times[layer].backward += now - last,
                // The backward pass of a layer is two products; both count.
                StepEvent::Final { .. } => return,
                StepEvent::Input | StepEvent::Loss => {}
            }
            last = now;
        };
        let loss = self.model.gradient_observed(&self.params, block, share, mode, grad, observe);
        black_box(loss);
        for (best, times) in self.best.iter_mut().zip(times) {
            best.forward = best.forward.min(times.forward);
            best.backward = best.backward.min(times.backward);
        }
    }

    fn report(&self, args: &LayersArgs) -> String {
        let head =
            ["layer", "", "MFLOP", "forward ms", "GFLOP/s", "backward ms", "GFLOP/s", "bare gemm"];
        let mut rows = vec![head.map(String::from).to_vec()];
        let mut bare_seconds = 0.0;
        let rate = |flops: u64, time: f64| flops as f64 * args.batch as f64 / time / 1e9;
        for (cost, times) in self.cost.iter().zip(&self.best) {
            let [forward, backward] = [times.forward, times.backward].map(|t| t.as_secs_f64());
            let is_product = cost.product[0] > 0;
            let has_bare = is_product && products::ENABLED;
            let bare = if has_bare { bare_rate(cost, args) } else { 0.0 };
            let flops = cost.forward + cost.backward;
            if has_bare {
                bare_seconds += flops as f64 * args.batch as f64 / bare;
            }
            let figure = |number: f64| if is_product { format!("{number:.1}") } else { "".into() };
            rows.push(vec![
                cost.name.clone(),
                cost.kind.into(),
                format!("{:.2}", cost.forward as f64 / 1e6),
                format!("{:.3}", forward * 1e3),
                figure(rate(cost.forward, forward)),
                format!("{:.3}", backward * 1e3),
                figure(rate(cost.backward, backward)),
                if has_bare { figure(bare / 1e9) } else { "".into() },
            ]);
        }
        let step = self.best_step.as_secs_f64();
        let whole = self.cost.iter().filter(|cost| cost.product[0] > 0);
        let whole: u64 = whole.map(|cost| cost.forward + cost.backward).sum();
        let share = if products::ENABLED {
            format!(", {:.2} of the bare products' rate", bare_seconds / step)
        } else {
            String::new()
        };
        format!(
            "{:?}, batch {}, {} threads; MFLOP per example, best times of each layer; bare: its \
             forward product by the crate gemm, on as many threads\n{}\
             step with update {:.2} ms, {:.0} examples/s, {:.1} GFLOP/s{}\n{}",
            args.model,
            args.batch,
            args.threads,
            aligned(&rows),
            step * 1e3,
            args.batch as f64 / step,
            rate(whole, step),
            share,
            products::NOTE,
        )
    }
}

/// Operations/s of a layer's forward product by the crate `gemm`. The threads divide the images of
/// a convolution, or the outputs of a dense layer. The best of several turns.
fn bare_rate(cost: &LayerCost, args: &LayersArgs) -> f64 {
    let [pixels, outputs, depth] = cost.product;
    let sizes = if pixels > 1 {
        [pixels, outputs, depth]
    } else {
        [args.batch, outputs.div_ceil(args.threads), depth]
    };
    let mut best = 0f64;
    for _ in 0..3 {
        let rates = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..args.threads).map(|_| scope.spawn(|| bare_thread(sizes))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum()
        });
        best = best.max(rates);
    }
    best
}

/// Operations/s of one thread that computes a product repeatedly.
fn bare_thread([rows, columns, depth]: [usize; 3]) -> f64 {
    let left = vec![0.01; rows * depth];
    let right = vec![0.01; columns * depth];
    let mut out = vec![0.0; rows * columns];
    let left = MatrixView { values: &left, strides: [depth as isize, 1] };
    let right = MatrixView { values: &right, strides: [1, depth as isize] };
    product([rows, columns, depth], &mut out, &left, &right);
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < TURN {
        product([rows, columns, depth], &mut out, &left, &right);
        black_box(&out);
        done += 1;
    }
    2.0 * (rows * columns * depth * done) as f64 / start.elapsed().as_secs_f64()
}
