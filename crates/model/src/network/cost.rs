//! The arithmetic of each layer, for benches and tables.

use std::ops::Range;

use crate::layers::{Layer, LayerKind, LayerTensors, Shape};
use crate::layout::Layout;

/// The cost of a layer for one example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerCost {
    /// The layer's name.
    pub name: String,
    /// What the layer does.
    pub kind: &'static str,
    /// Floating-point operations of the forward pass; a multiply-add counts as two. A layer
    /// without parameters counts one for each value that it reads.
    pub forward: u64,
    /// The same for the backward pass. The first layer needs no gradient by its input.
    pub backward: u64,
    /// Its parameters.
    pub params: Range<usize>,
    /// The matrix product of the forward pass, `[rows, columns, depth]`; zeros for layers without
    /// one.
    pub product: [usize; 3],
}

pub(super) fn layer_costs(layers: &[Layer], shapes: &[Shape], layout: &Layout) -> Vec<LayerCost> {
    let mut tensors = layout.tensors().chunks_exact(2);
    let mut is_first = true;
    let mut cost = |(index, layer): (usize, &Layer)| {
        let (input, output) = (shapes[index], shapes[index + 1]);
        let mut cost = LayerCost {
            name: layer.name.clone(),
            kind: layer.kind.name(),
            forward: reads(layer.kind, input, output) as u64,
            backward: 0,
            params: 0..0,
            product: [0; 3],
        };
        cost.backward = if is_first { 0 } else { cost.forward };
        if let Some(LayerTensors { weights, .. }) = layer.kind.tensors(input) {
            let depth = weights[1..].iter().product::<usize>();
            let pixels = output.height * output.width;
            cost.product = [pixels, output.channels, depth];
            let multiplied = (output.channels * depth) as u64;
            cost.forward = (pixels as u64).saturating_mul(multiplied).saturating_mul(2);
            cost.backward = cost.forward.saturating_mul(if is_first { 1 } else { 2 });
            is_first = false;
            if let Some(pair) = tensors.next() {
                cost.params = pair[0].range.start..pair[1].range.end;
            }
        }
        cost
    };
    layers.iter().enumerate().map(&mut cost).collect()
}

/// The number of values that a layer without parameters reads.
fn reads(kind: LayerKind, input: Shape, output: Shape) -> usize {
    match kind {
        LayerKind::MaxPool(windows) | LayerKind::AveragePool(windows) => {
            let window = windows.kernel[0].saturating_mul(windows.kernel[1]);
            output.values().saturating_mul(window)
        }
        LayerKind::Flatten => 0,
        _ => input.values(),
    }
}
