//! A step through the planned tasks: forward, the loss, and backward.

use super::plan::{StepPlan, TaskWork};
use crate::batch::Batch;
use crate::descent::Descent;
use crate::kernels::{AlignedBuffer, OutputMode};
use crate::layers::flatten::copy_in;
use crate::layers::layer_op::{BackwardInputs, BufferedLayer, LayerPass};
use crate::layers::loss::{count_examples, softmax_cross_entropy};
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
}

/// The parameters of a step, and where the gradient goes.
pub(super) enum GradientSink<'a> {
    /// Into a slice.
    Slice { params: &'a [f32], mode: OutputMode, grad: &'a mut [f32] },
    /// Into the parameters themselves, by their optimizer.
    Parameters(Descent<'a>),
}

impl GradientSink<'_> {
    /// The current parameters.
    fn params(&self) -> &[f32] {
        match self {
            GradientSink::Slice { params, .. } => params,
            GradientSink::Parameters(descent) => descent.params,
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
        let largest = |parity: usize| gradients(parity).map(|(_, buffer)| buffer.len()).max();
        let piece = plan.tasks.iter().map(|task| match &task.work {
            TaskWork::Buffered(layer) => layer.piece(task.params.len(), threads),
            TaskWork::InPlace(_) => 0,
        });
        let scratch = plan.tasks.iter().map(|task| match &task.work {
            TaskWork::Buffered(layer) => layer.scratch(block),
            TaskWork::InPlace(_) => 0,
        });
        let buffers = plan.buffers.iter();
        Self {
            scratch: AlignedBuffer::zeros(scratch.max().unwrap_or(0)),
            values: buffers.map(|buffer| AlignedBuffer::zeros(block * buffer.len())).collect(),
            gradients: [0, 1]
                .map(|parity| AlignedBuffer::zeros(block * largest(parity).unwrap_or(0))),
            piece: AlignedBuffer::zeros(piece.max().unwrap_or(0)),
            stop: None,
            plan,
        }
    }

    /// Runs all layers forward. Without `draw` dropout does nothing.
    fn forward(
        &mut self,
        pool: &ThreadPool,
        params: &[f32],
        block: Batch<'_>,
        draw: Option<u64>,
        observe: ObserveFn<'_>,
    ) {
        let Self { plan: StepPlan { tasks, buffers }, values, scratch, stop, .. } = self;
        let (count, input) = (block.len(), buffers[0]);
        let inside = &mut values[0][..count * input.len()];
        pool.for_each_piece(inside, input.len(), |example, inside| {
            let len = input.shape.values();
            copy_in(input, &block.values()[example * len..][..len], inside);
        });
        observe(StepEvent::Input);
        let mut pass = LayerPass { pool, count, draw, scratch };
        let mut buffer = 0;
        for task in tasks {
            if draw.is_some() && stop.as_ref().is_some_and(|stop| stop()) {
                return;
            }
            match &task.work {
                TaskWork::InPlace(layer) => {
                    layer.forward(&mut pass, &mut values[buffer][..count * buffers[buffer].len()]);
                }
                TaskWork::Buffered(layer) => {
                    let (before, after) = values.split_at_mut(buffer + 1);
                    let params = &params[task.params.clone()];
                    layer.forward(&mut pass, params, &before[buffer], &mut after[0]);
                    buffer += 1;
                }
            }
            observe(StepEvent::Forward { layer: task.layer });
        }
    }

    /// Whether the step is not needed any more.
    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop())
    }

    /// The scores of the last forward pass, which was over `count` examples.
    fn scores(&mut self, count: usize) -> &mut [f32] {
        let last = self.plan.buffers.len() - 1;
        &mut self.values[last][..count * self.plan.buffers[last].len()]
    }

    /// Counts the losses and correct answers of a block.
    pub(super) fn evaluate(
        &mut self,
        pool: &ThreadPool,
        params: &[f32],
        block: Batch<'_>,
        tally: &mut Tally,
    ) {
        self.forward(pool, params, block, None, &mut |_| {});
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
        self.forward(pool, sink.params(), block, Some(block.draw), observe);
        if self.is_stopped() {
            return f32::NAN;
        }
        let last = self.plan.buffers.len() - 1;
        let (count, classes) = (block.len(), self.plan.buffers[last].len());
        let delta = &mut self.gradients[last % 2][..count * classes];
        delta.copy_from_slice(&self.values[last][..count * classes]);
        let loss = softmax_cross_entropy(delta, block.labels, share);
        observe(StepEvent::Loss);
        // Parameters that are updated in place must be updated all, or none.
        let is_complete = self.backward(pool, block, sink, observe);
        if is_complete { loss * share } else { f32::NAN }
    }

    /// Computes the gradient by the parameters from the gradient by the scores, last layer first.
    /// Returns whether all of it is computed.
    fn backward(
        &mut self,
        pool: &ThreadPool,
        block: Batch<'_>,
        mut sink: GradientSink<'_>,
        observe: ObserveFn<'_>,
    ) -> bool {
        let Self { plan: StepPlan { tasks, buffers }, values, gradients, scratch, piece, stop } =
            self;
        let may_stop = matches!(sink, GradientSink::Slice { .. });
        let count = block.len();
        let mut pass = LayerPass { pool, count, draw: Some(block.draw), scratch };
        let mut buffer = buffers.len() - 1;
        // Tasks before the first one with parameters need no gradient.
        let Some(first) = tasks.iter().position(|task| !task.params.is_empty()) else {
            return true;
        };
        for (index, task) in tasks.iter().enumerate().skip(first).rev() {
            if may_stop && stop.as_ref().is_some_and(|stop| stop()) {
                return false;
            }
            let [even, odd] = &mut *gradients;
            let (dy, dx) = if buffer % 2 == 0 { (even, odd) } else { (odd, even) };
            match &task.work {
                TaskWork::InPlace(layer) => {
                    let len = count * buffers[buffer].len();
                    layer.input_gradient(&mut pass, &values[buffer][..len], &mut dy[..len]);
                }
                TaskWork::Buffered(layer) => {
                    let inputs = BackwardInputs { x: &values[buffer - 1], y: &values[buffer], dy };
                    let range = task.params.clone();
                    if let (GradientSink::Slice { mode, grad, .. }, false) =
                        (&mut sink, range.is_empty())
                    {
                        let grad = &mut grad[range.clone()];
                        layer.param_gradient(&mut pass, inputs.x, inputs.dy, *mode, grad);
                        observe(StepEvent::Final { range: range.clone(), values: grad });
                    }
                    if index > first {
                        let params = &sink.params()[range.clone()];
                        layer.input_gradient(&mut pass, params, inputs, dx);
                    }
                    // From here on this layer's old parameters are not needed any more.
                    if let (GradientSink::Parameters(descent), false) =
                        (&mut sink, range.is_empty())
                    {
                        let piece = &mut piece[..layer.piece(range.len(), pool.threads())];
                        descend(&mut pass, &**layer, inputs, piece, range.start, descent);
                    }
                    buffer -= 1;
                }
            }
            observe(StepEvent::Backward { layer: task.layer });
        }
        true
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
