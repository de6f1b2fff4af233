//! From a list of layers to a list of tasks, with all buffers planned in advance.

use std::ops::Range;

use crate::layers::activation::Activation;
use crate::layers::conv::Conv;
use crate::layers::dense::Dense;
use crate::layers::dropout::Dropout;
use crate::layers::flatten::{CopyLayer, Flatten};
use crate::layers::layer_op::{BufferedLayer, ElementwiseLayer};
use crate::layers::pool::{PoolKind, Pooling};
use crate::layers::{Layer, LayerKind, PaddedShape, Shape, Windows};
use crate::layout::Layout;

/// One task of a step.
pub(super) struct LayerTask {
    /// The index of the layer that the task belongs to.
    pub(super) layer: usize,
    /// The layer's parameters.
    pub(super) params: Range<usize>,
    /// The index of the layer among those with parameters, if it is one.
    pub(super) piece: usize,
    pub(super) work: TaskWork,
}

/// What a task does.
pub(super) enum TaskWork {
    /// Computes the next buffer from the current one.
    Buffered(Box<dyn BufferedLayer>),
    /// Changes the current buffer.
    InPlace(Box<dyn ElementwiseLayer>),
}

/// A task whose buffers are not planned yet.
#[derive(Clone, Copy)]
struct PlanStep {
    /// The index of the layer.
    layer: usize,
    /// Whether it copies the layer's input instead of running the layer.
    is_copy: bool,
}

/// The tasks of a step and the buffers that they use.
pub(super) struct StepPlan {
    pub(super) tasks: Vec<LayerTask>,
    /// The input, and the output of every task that does not work in place.
    pub(super) buffers: Vec<PaddedShape>,
}

/// Plans the tasks of a step.
pub(super) fn plan(layers: &[Layer], shapes: &[Shape], layout: &Layout) -> StepPlan {
    let steps = steps(layers, shapes);
    let buffers = buffers(layers, shapes, &steps);
    let (mut tasks, mut buffer, mut piece) = (Vec::new(), 0, 0);
    for &PlanStep { layer, is_copy } in &steps {
        let Layer { name, kind } = &layers[layer];
        let weights = format!("{name}.weight");
        let found = layout.tensors().windows(2).find(|pair| pair[0].name == weights);
        let params =
            found.filter(|_| !is_copy).map_or(0..0, |pair| pair[0].range.start..pair[1].range.end);
        let from = buffers[buffer];
        let work = if is_copy {
            TaskWork::Buffered(Box::new(CopyLayer { from, to: buffers[buffer + 1] }))
        } else if let Some(layer) = elementwise_layer(layer, *kind, from) {
            TaskWork::InPlace(layer)
        } else {
            TaskWork::Buffered(buffered_layer(*kind, from, buffers[buffer + 1]))
        };
        buffer += usize::from(matches!(work, TaskWork::Buffered(_)));
        let next_piece = piece + usize::from(!params.is_empty());
        tasks.push(LayerTask { layer, params, piece, work });
        piece = next_piece;
    }
    StepPlan { tasks, buffers }
}

/// The layers that change anything, with copies before those that must not work in place.
fn steps(layers: &[Layer], shapes: &[Shape]) -> Vec<PlanStep> {
    let mut steps = Vec::new();
    // Whether the task that wrote the current buffer needs it unchanged for its backward pass,
    // and whether that task can leave a border around it.
    let (mut is_kept, mut has_border) = (false, true);
    for (index, layer) in layers.iter().enumerate() {
        let same_shape = shapes[index] == shapes[index + 1];
        let copies = match layer.kind {
            LayerKind::Flatten | LayerKind::AdaptiveAveragePool { .. } if same_shape => continue,
            LayerKind::Dropout { rate: 0.0 } => continue,
            LayerKind::Relu | LayerKind::Tanh | LayerKind::Dropout { .. } => is_kept,
            LayerKind::Conv { padding, .. } => !has_border && padding != [0; 2],
            _ => false,
        };
        if copies {
            steps.push(PlanStep { layer: index, is_copy: true });
            has_border = true;
        }
        steps.push(PlanStep { layer: index, is_copy: false });
        is_kept = matches!(layer.kind, LayerKind::Tanh | LayerKind::MaxPool(_));
        if !is_elementwise(layer.kind) {
            has_border = !matches!(layer.kind, LayerKind::Flatten | LayerKind::Dense { .. });
        }
    }
    steps
}

/// The buffers: the input, and one for the output of every task that does not work in place.
fn buffers(layers: &[Layer], shapes: &[Shape], steps: &[PlanStep]) -> Vec<PaddedShape> {
    let mut buffers = vec![PaddedShape { shape: shapes[0], border: [0; 2] }];
    for &PlanStep { layer, is_copy } in steps {
        let (kind, last) = (layers[layer].kind, buffers.len() - 1);
        if is_copy {
            buffers.push(PaddedShape { shape: shapes[layer], border: [0; 2] });
            continue;
        }
        if is_elementwise(kind) {
            continue;
        }
        if let LayerKind::Conv { padding, .. } = kind {
            buffers[last].border = padding;
        }
        buffers.push(PaddedShape { shape: shapes[layer + 1], border: [0; 2] });
    }
    buffers
}

fn is_elementwise(kind: LayerKind) -> bool {
    matches!(kind, LayerKind::Relu | LayerKind::Tanh | LayerKind::Dropout { .. })
}

fn elementwise_layer(
    index: usize,
    kind: LayerKind,
    buffer: PaddedShape,
) -> Option<Box<dyn ElementwiseLayer>> {
    match kind {
        LayerKind::Relu => Some(Box::new(Activation::Relu)),
        LayerKind::Tanh => Some(Box::new(Activation::Tanh)),
        LayerKind::Dropout { rate } => Some(Box::new(Dropout::new(index, buffer.len(), rate))),
        _ => None,
    }
}

fn buffered_layer(kind: LayerKind, from: PaddedShape, to: PaddedShape) -> Box<dyn BufferedLayer> {
    match kind {
        LayerKind::Conv { kernel, stride, padding, .. } => {
            Box::new(Conv::new(from, to, Windows { kernel, stride, padding }))
        }
        LayerKind::MaxPool(windows) => {
            Box::new(Pooling::regular(PoolKind::Largest, from, to, windows))
        }
        LayerKind::AveragePool(windows) => {
            Box::new(Pooling::regular(PoolKind::Mean, from, to, windows))
        }
        LayerKind::AdaptiveAveragePool { .. } => Box::new(Pooling::adaptive(from, to)),
        LayerKind::Flatten => Box::new(Flatten::new(from)),
        LayerKind::Dense { outputs } => Box::new(Dense::new(from.shape.values(), outputs)),
        LayerKind::Relu | LayerKind::Tanh | LayerKind::Dropout { .. } => {
            unreachable!("an element-wise layer works in place")
        }
    }
}
