//! From a list of layers to a list of tasks, with all buffers planned in advance.

use std::ops::Range;

use crate::layers::activation::Activation;
use crate::layers::conv::Conv;
use crate::layers::dense::Dense;
use crate::layers::dropout::DropoutMask;
use crate::layers::flatten::{CopyLayer, Flatten};
use crate::layers::grouped_conv::GroupedConv;
use crate::layers::layer_op::{BufferedLayer, ElementwiseLayer};
use crate::layers::plane_conv::{self, FirstConv, PlaneMeans};
use crate::layers::pool::{PoolKind, Pooling};
use crate::layers::winograd::winograd;
use crate::layers::{Layer, LayerKind, PaddedShape, Shape, Windows};
use crate::layout::Layout;

/// One task of a step: computes a buffer from the one before it.
pub(super) struct LayerTask {
    /// The index of the layer that the task belongs to.
    pub(super) layer: usize,
    /// The layer's parameters.
    pub(super) params: Range<usize>,
    /// The index of the layer among those with parameters, if it is one.
    pub(super) piece: usize,
    pub(super) work: Box<dyn BufferedLayer>,
}

/// A buffer that a task writes, or the input.
pub(super) struct StepBuffer {
    pub(super) place: PaddedShape,
    /// The layers that work on the buffer in place, in their order.
    pub(super) in_place: Vec<InPlaceLayer>,
}

/// A layer that works in place.
pub(super) struct InPlaceLayer {
    /// Its index.
    pub(super) layer: usize,
    pub(super) work: Box<dyn ElementwiseLayer>,
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
    /// The input, and the output of every task.
    pub(super) buffers: Vec<StepBuffer>,
}

/// Plans the tasks of a step.
pub(super) fn plan(layers: &[Layer], shapes: &[Shape], layout: &Layout) -> StepPlan {
    let steps = steps(layers, shapes);
    let places = places(layers, shapes, &steps);
    let has_planes = has_planes(layers, shapes, &steps);
    let mut buffers = vec![StepBuffer { place: places[0], in_place: Vec::new() }];
    let (mut tasks, mut piece) = (Vec::new(), 0);
    for &PlanStep { layer, is_copy } in &steps {
        let Layer { name, kind } = &layers[layer];
        let weights = format!("{name}.weight");
        let found = layout.tensors().windows(2).find(|pair| pair[0].name == weights);
        let params =
            found.filter(|_| !is_copy).map_or(0..0, |pair| pair[0].range.start..pair[1].range.end);
        let elementwise = if is_copy { None } else { elementwise_layer(layer, *kind) };
        if let Some(work) = elementwise {
            let current = buffers.len() - 1;
            buffers[current].in_place.push(InPlaceLayer { layer, work });
            continue;
        }
        let (from, to) = (places[buffers.len() - 1], places[buffers.len()]);
        let work: Box<dyn BufferedLayer> = match (*kind, tasks.len()) {
            _ if is_copy => Box::new(CopyLayer { from, to }),
            (LayerKind::Conv { kernel, stride, padding, .. }, 0) if has_planes => {
                let windows = Windows { kernel, stride, padding };
                Box::new(FirstConv::new(from, to.shape, windows))
            }
            (_, 1) if has_planes => Box::new(PlaneMeans::new(from.shape, to)),
            _ => buffered_layer(*kind, from, to),
        };
        buffers.push(StepBuffer { place: to, in_place: Vec::new() });
        let next_piece = piece + usize::from(!params.is_empty());
        tasks.push(LayerTask { layer, params, piece, work });
        piece = next_piece;
    }
    StepPlan { tasks, buffers }
}

/// Whether the first two tasks are a convolution and a pooling that exchange planes. Layers that
/// work in place may be between them.
fn has_planes(layers: &[Layer], shapes: &[Shape], steps: &[PlanStep]) -> bool {
    let is_task = |step: &&PlanStep| step.is_copy || !layers[step.layer].kind.is_elementwise();
    let mut tasks = steps.iter().filter(is_task);
    let (Some(first), Some(second)) = (tasks.next(), tasks.next()) else { return false };
    let kinds = [first, second].map(|step| (!step.is_copy).then(|| layers[step.layer].kind));
    let [Some(LayerKind::Conv { kernel, stride, padding, .. }), Some(pooling)] = kinds else {
        return false;
    };
    let LayerKind::AveragePool(pool) = pooling else { return false };
    let windows = Windows { kernel, stride, padding };
    plane_conv::fits([shapes[first.layer], shapes[first.layer + 1]], windows, pool)
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
        if !layer.kind.is_elementwise() {
            has_border = !matches!(layer.kind, LayerKind::Flatten | LayerKind::Dense { .. });
        }
    }
    steps
}

/// The places of the buffers: the input, and the output of every task.
fn places(layers: &[Layer], shapes: &[Shape], steps: &[PlanStep]) -> Vec<PaddedShape> {
    let mut places = vec![PaddedShape { shape: shapes[0], border: [0; 2] }];
    for &PlanStep { layer, is_copy } in steps {
        let (kind, last) = (layers[layer].kind, places.len() - 1);
        if is_copy {
            places.push(PaddedShape { shape: shapes[layer], border: [0; 2] });
            continue;
        }
        if kind.is_elementwise() {
            continue;
        }
        if let LayerKind::Conv { padding, .. } = kind {
            places[last].border = padding;
        }
        places.push(PaddedShape { shape: shapes[layer + 1], border: [0; 2] });
    }
    places
}

fn elementwise_layer(index: usize, kind: LayerKind) -> Option<Box<dyn ElementwiseLayer>> {
    match kind {
        LayerKind::Relu => Some(Box::new(Activation::Relu)),
        LayerKind::Tanh => Some(Box::new(Activation::Tanh)),
        LayerKind::Dropout { rate } => Some(Box::new(DropoutMask::new(index, rate))),
        _ => None,
    }
}

fn buffered_layer(kind: LayerKind, from: PaddedShape, to: PaddedShape) -> Box<dyn BufferedLayer> {
    match kind {
        LayerKind::Conv { kernel, stride, padding, groups, .. } => {
            // A stride beyond the image is not used, and its product with a row could overflow.
            let [height, width] = [from.shape.height, from.shape.width];
            let most = [height + 2 * padding[0], width + 2 * padding[1]];
            let stride = [0, 1].map(|axis: usize| stride[axis].min(most[axis]));
            let windows = Windows { kernel, stride, padding };
            if groups == 1 {
                winograd(from, to, windows)
                    .unwrap_or_else(|| Box::new(Conv::new(from, to, windows)))
            } else {
                Box::new(GroupedConv::new(from, to, windows, groups))
            }
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
