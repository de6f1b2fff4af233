//! A step through the planned tasks: forward, the loss, and backward.

use super::plan::{LayerTask, StepBuffer, StepPlan};
use crate::batch::Batch;
use crate::descent::Descent;
use crate::kernels::{AlignedBuffer, OutputMode};
use crate::layered::{FactorUpdate, LayerFactors, LayerPiece, LayerSink, PieceParams};
use crate::layers::flatten::copy_in;
use crate::layers::layer_op::{BackwardInputs, BufferedLayer, FactorScratch, LayerPass};
use crate::layers::loss::count_examples;
use crate::layers::weighted_cross_entropy;
use crate::model::StopCheck;
use crate::step_event::StepEvent;
use crate::tally::Tally;
use crate::thread_pool::ThreadPool;

/// A call at every event of a step.
pub(super) type ObserveFn<'a> = &'a mut (dyn FnMut(StepEvent<'_>) + Send);

/// The tasks of a step and all the memory they need.
pub(super) struct Executor {
    plan: StepPlan,
    /// The values of each buffer.
    values: Vec<AlignedBuffer>,
    /// Gradients by the buffers: one is read while the other is written.
    gradients: [AlignedBuffer; 2],
    scratch: AlignedBuffer,
    /// A piece of the gradient, for [`GradientSink::Parameters`].
    piece: AlignedBuffer,
    /// Ends a step of training early.
    pub(super) stop: Option<StopCheck>,
    factor_scratch: FactorScratch,
    /// The forward pass that a backward pass may follow.
    forwarded: Option<ForwardPass>,
}

/// What a backward pass must know of its forward pass.
#[derive(Clone, Copy)]
struct ForwardPass {
    /// The number of examples.
    count: usize,
    /// The seed of the first example's random numbers.
    draw: u64,
}

/// The parameters of a step, and where the gradient goes.
pub(super) enum GradientSink<'a> {
    /// Into a slice.
    Slice { params: &'a [f32], mode: OutputMode, grad: &'a mut [f32] },
    /// Into the parameters themselves, by their optimizer.
    Parameters(Descent<'a>),
    /// To a sink that takes it layer by layer.
    Layers(&'a mut dyn LayerSink),
}

impl GradientSink<'_> {
    /// The current parameters of a task.
    fn params(&self, task: &LayerTask) -> &[f32] {
        let range = task.params.clone();
        match self {
            GradientSink::Slice { params, .. } => &params[range],
            GradientSink::Parameters(descent) => &descent.params[range],
            GradientSink::Layers(_) if range.is_empty() => &[],
            GradientSink::Layers(sink) => sink.params(task.piece),
        }
    }

    /// Before the gradient by a layer's input is computed: takes the gradient by its parameters.
    fn take_gradient(
        &mut self,
        pass: &mut LayerPass<'_>,
        task: &LayerTask,
        inputs: BackwardInputs<'_>,
        observe: ObserveFn<'_>,
    ) {
        let layer = &*task.work;
        match self {
            GradientSink::Slice { mode, grad, .. } => {
                let grad = &mut grad[task.params.clone()];
                layer.param_gradient(pass, inputs.x, inputs.dy, *mode, grad);
                observe(StepEvent::Final { range: task.params.clone(), values: grad });
            }
            GradientSink::Parameters(_) => {}
            GradientSink::Layers(sink) => {
                if let Some(grad) = sink.gradient(task.piece) {
                    layer.param_gradient(pass, inputs.x, inputs.dy, OutputMode::Overwrite, grad);
                    sink.gradient_done(task.piece);
                } else if let Some(sizes) = layer.factor_sizes() {
                    let factors = LayerFactors {
                        inputs: &inputs.x[..pass.count * sizes.inputs],
                        deltas: &inputs.dy[..pass.count * sizes.outputs],
                    };
                    sink.factors(task.piece, factors);
                } else {
                    unreachable!("a sink takes only factors that a piece has");
                }
            }
        }
    }

    /// After that: this layer's old parameters are not needed any more.
    fn take_params(
        &mut self,
        pass: &mut LayerPass<'_>,
        task: &LayerTask,
        inputs: BackwardInputs<'_>,
        piece: &mut [f32],
    ) {
        let layer = &*task.work;
        match self {
            GradientSink::Slice { .. } => {}
            GradientSink::Parameters(descent) => {
                let piece = &mut piece[..layer.piece(task.params.len(), pass.pool.threads())];
                descend(pass, layer, inputs, piece, task.params.start, descent);
            }
            GradientSink::Layers(sink) => sink.params_done(task.piece),
        }
    }
}

impl Executor {
    /// Allocates the memory for blocks of at most `block` examples.
    pub(super) fn new(plan: StepPlan, block: usize, threads: usize) -> Self {
        // The gradient by the input is not needed.
        let gradients = |parity: usize| {
            plan.buffers.iter().enumerate().skip(1).filter(move |(index, _)| index % 2 == parity)
        };
        let largest = |parity: usize| gradients(parity).map(|(_, buffer)| buffer.place.len()).max();
        let piece = plan.tasks.iter().map(|task| task.work.piece(task.params.len(), threads));
        let scratch = plan.tasks.iter().map(|task| task.work.scratch(block));
        let buffers = plan.buffers.iter().map(|buffer| buffer.place.len());
        Self {
            scratch: AlignedBuffer::zeros(scratch.max().unwrap_or(0)),
            values: buffers.map(|len| AlignedBuffer::zeros(block * len)).collect(),
            gradients: [0, 1]
                .map(|parity| AlignedBuffer::zeros(block * largest(parity).unwrap_or(0))),
            piece: AlignedBuffer::zeros(piece.max().unwrap_or(0)),
            stop: None,
            factor_scratch: FactorScratch::default(),
            forwarded: None,
            plan,
        }
    }

    /// Runs all layers forward, with the parameters that `params` gives for each task that has
    /// any; `None` if it gives none, or the step is stopped. Without `draw` dropout does nothing.
    fn forward<'p>(
        &mut self,
        pool: &ThreadPool,
        block: Batch<'_>,
        draw: Option<u64>,
        mut params: impl FnMut(&LayerTask) -> Option<&'p [f32]>,
        observe: ObserveFn<'_>,
    ) -> Option<()> {
        self.forwarded = None;
        let Self { plan: StepPlan { tasks, buffers }, values, scratch, stop, .. } = self;
        let (count, input) = (block.len(), &buffers[0]);
        let inside = &mut values[0][..count * input.place.len()];
        pool.for_each_piece(inside, input.place.len(), |example, inside| {
            let len = input.place.shape.values();
            copy_in(input.place, &block.values()[example * len..][..len], inside);
            input.forward_in_place(draw, example, inside);
        });
        observe(StepEvent::Input);
        input.report_forward(observe);
        for (index, (task, output)) in tasks.iter().zip(&buffers[1..]).enumerate() {
            if draw.is_some() && stop.as_ref().is_some_and(|stop| stop()) {
                return None;
            }
            let (before, after) = values.split_at_mut(index + 1);
            let params = if task.params.is_empty() { &[] } else { params(task)? };
            let finish = &|example: usize, y: &mut [f32]| output.forward_in_place(draw, example, y);
            let mut pass = LayerPass { pool, count, scratch, finish };
            task.work.forward(&mut pass, params, &before[index], &mut after[0]);
            observe(StepEvent::Forward { layer: task.layer });
            output.report_forward(observe);
        }
        Some(())
    }

    /// The scores of the last forward pass, which was over `count` examples.
    fn scores(&mut self, count: usize) -> &mut [f32] {
        let last = self.plan.buffers.len() - 1;
        &mut self.values[last][..count * self.plan.buffers[last].place.len()]
    }

    /// Counts the losses and correct answers of a block.
    pub(super) fn evaluate(
        &mut self,
        pool: &ThreadPool,
        params: &[f32],
        block: Batch<'_>,
        tally: &mut Tally,
    ) {
        let params = |task: &LayerTask| Some(&params[task.params.clone()]);
        self.forward(pool, block, None, params, &mut |_| {});
        count_examples(self.scores(block.len()), block.labels, tally);
    }

    /// Returns `share` times the loss of a block; the gradient of that goes to the sink.
    pub(super) fn gradient(
        &mut self,
        pool: &ThreadPool,
        block: Batch<'_>,
        share: f32,
        sink: GradientSink<'_>,
        observe: ObserveFn<'_>,
    ) -> f32 {
        let params = match &sink {
            GradientSink::Slice { params, .. } => params,
            GradientSink::Parameters(descent) => &*descent.params,
            GradientSink::Layers(_) => unreachable!("a sink of layers has no forward pass"),
        };
        let params = |task: &LayerTask| Some(&params[task.params.clone()]);
        if self.forward(pool, block, Some(block.draw), params, observe).is_none() {
            return f32::NAN;
        }
        let loss = self.loss(block, share, observe);
        let is_complete = self.backward(pool, sink, observe);
        if is_complete { loss } else { f32::NAN }
    }

    /// The forward pass of a step up to the loss; `None` if it was abandoned.
    pub(super) fn forward_pass(
        &mut self,
        pool: &ThreadPool,
        block: Batch<'_>,
        share: f32,
        params: PieceParams<'_, '_>,
        observe: ObserveFn<'_>,
    ) -> Option<f32> {
        let of_task = |task: &LayerTask| params(task.piece);
        self.forward(pool, block, Some(block.draw), of_task, observe)?;
        Some(self.loss(block, share, observe))
    }

    /// Returns `share` times the loss, and prepares the backward pass.
    fn loss(&mut self, block: Batch<'_>, share: f32, observe: ObserveFn<'_>) -> f32 {
        let last = self.plan.buffers.len() - 1;
        let (count, classes) = (block.len(), self.plan.buffers[last].place.len());
        let delta = &mut self.gradients[last % 2][..count * classes];
        delta.copy_from_slice(&self.values[last][..count * classes]);
        let loss = weighted_cross_entropy(delta, block.labels, block.weights, share);
        observe(StepEvent::Loss);
        self.forwarded = Some(ForwardPass { count, draw: block.draw });
        loss * share
    }

    /// Computes the gradient by the parameters from the gradient by the scores, last layer first.
    /// Returns whether all of it is computed. Parameters that are updated in place are updated all.
    pub(super) fn backward(
        &mut self,
        pool: &ThreadPool,
        mut sink: GradientSink<'_>,
        observe: ObserveFn<'_>,
    ) -> bool {
        let Self { plan: StepPlan { tasks, buffers }, values, gradients, scratch, stop, .. } = self;
        let may_stop = !matches!(sink, GradientSink::Parameters(_));
        let Some(ForwardPass { count, draw }) = self.forwarded.take() else {
            unreachable!("a backward pass follows a forward pass")
        };
        // Tasks before the first one with parameters need no gradient.
        let Some(first) = tasks.iter().position(|task| !task.params.is_empty()) else {
            return true;
        };
        let must_stop = || may_stop && stop.as_ref().is_some_and(|stop| stop());
        let last = buffers.len() - 1;
        let len = buffers[last].place.len();
        if !buffers[last].in_place.is_empty() {
            pool.for_each_piece(&mut gradients[last % 2][..count * len], len, |example, dy| {
                buffers[last].backward_in_place(draw, example, &values[last], dy);
            });
            buffers[last].report_backward(observe);
        }
        for (index, task) in tasks.iter().enumerate().skip(first).rev() {
            if must_stop() {
                return false;
            }
            let [even, odd] = &mut *gradients;
            let (dy, dx) = if index % 2 == 0 { (odd, even) } else { (even, odd) };
            let inputs = BackwardInputs { x: &values[index], y: &values[index + 1], dy };
            let finish = &|example: usize, dx: &mut [f32]| {
                buffers[index].backward_in_place(draw, example, &values[index], dx);
            };
            let mut pass = LayerPass { pool, count, scratch, finish };
            let has_params = !task.params.is_empty();
            if has_params {
                sink.take_gradient(&mut pass, task, inputs, observe);
            }
            if index > first {
                // Of a large layer each of the two takes long.
                if has_params && must_stop() {
                    return false;
                }
                task.work.input_gradient(&mut pass, sink.params(task), inputs, dx);
            }
            if has_params {
                sink.take_params(&mut pass, task, inputs, &mut self.piece);
            }
            observe(StepEvent::Backward { layer: task.layer });
            if index > first {
                buffers[index].report_backward(observe);
            }
        }
        true
    }

    /// The tasks that have parameters, in the order of their pieces.
    fn pieces(&self) -> impl Iterator<Item = (&LayerTask, &dyn BufferedLayer)> {
        let tasks = self.plan.tasks.iter().filter(|task| !task.params.is_empty());
        tasks.map(|task| (task, &*task.work))
    }

    /// The pieces, given the name of each layer.
    pub(super) fn layer_pieces<'n>(&self, name: impl Fn(usize) -> &'n str) -> Vec<LayerPiece> {
        let piece = |(task, layer): (&LayerTask, &dyn BufferedLayer)| LayerPiece {
            name: name(task.layer).into(),
            range: task.params.clone(),
            factors: layer.factor_sizes(),
        };
        self.pieces().map(piece).collect()
    }

    /// Updates a layer by the mean of gradients that are given as factors.
    pub(super) fn apply_factors(&mut self, pool: &ThreadPool, update: FactorUpdate<'_>) {
        let FactorUpdate { piece, workers, params, optimizer, step } = update;
        let mut scratch = std::mem::take(&mut self.factor_scratch);
        let Some((task, layer)) = self.pieces().nth(piece) else { unreachable!("no such piece") };
        let Some(sizes) = layer.factor_sizes() else { unreachable!("a piece without factors") };
        assert_eq!(params.len(), task.params.len(), "parameters of the piece");
        for worker in workers {
            let LayerFactors { inputs, deltas } = worker.factors;
            let count = deltas.len() / sizes.outputs;
            let expected = (count * sizes.inputs, count * sizes.outputs);
            assert_eq!((inputs.len(), deltas.len()), expected, "factors of the piece");
        }
        let start = task.params.start;
        layer.mean_gradient_pieces(pool, workers, &mut scratch, &mut |from, mean| {
            let params = &mut params[from..from + mean.len()];
            optimizer.apply_with(pool, step, start + from, params, mean);
        });
        self.factor_scratch = scratch;
    }
}

impl StepBuffer {
    /// Runs the layers that work in place on an example. `draw` is the seed of the first example.
    fn forward_in_place(&self, draw: Option<u64>, example: usize, y: &mut [f32]) {
        let draw = draw.map(|draw| draw.wrapping_add(example as u64));
        self.in_place.iter().for_each(|layer| layer.work.forward(draw, y));
    }

    /// Their gradients by the input, last layer first, given the values of the whole buffer.
    fn backward_in_place(&self, draw: u64, example: usize, values: &[f32], dy: &mut [f32]) {
        let draw = Some(draw.wrapping_add(example as u64));
        let y = &values[example * self.place.len()..][..self.place.len()];
        self.in_place.iter().rev().for_each(|layer| layer.work.input_gradient(draw, y, dy));
    }

    fn report_forward(&self, observe: ObserveFn<'_>) {
        self.in_place.iter().for_each(|done| observe(StepEvent::Forward { layer: done.layer }));
    }

    fn report_backward(&self, observe: ObserveFn<'_>) {
        let layers = self.in_place.iter().rev();
        layers.for_each(|done| observe(StepEvent::Backward { layer: done.layer }));
    }
}

/// Updates a layer's parameters, which begin at `start`, piece by piece.
fn descend(
    pass: &mut LayerPass<'_>,
    layer: &dyn BufferedLayer,
    inputs: BackwardInputs<'_>,
    piece: &mut [f32],
    start: usize,
    descent: &mut Descent<'_>,
) {
    let pool = pass.pool;
    let emit = &mut |from: usize, grad: &[f32]| descent.update(pool, start + from, grad);
    layer.param_gradient_pieces(pass, inputs.x, inputs.dy, piece, emit);
}
