//! From a list of layers to a list of things to do, with all memory set out in advance.

use std::ops::Range;

use crate::Layout;
use crate::layers::activation::Activation;
use crate::layers::conv::Conv;
use crate::layers::dense::Dense;
use crate::layers::dropout::Dropout;
use crate::layers::flatten::{Copy, Flatten};
use crate::layers::pool::{Pool, Take};
use crate::layers::stage::{Map, Stage};
use crate::layers::{Layer, LayerKind, Place, Shape};

/// One thing to do.
pub(super) struct Task {
    /// The layer it is part of.
    pub(super) layer: usize,
    /// The layer's parameters.
    pub(super) params: Range<usize>,
    pub(super) work: Work,
}

/// What is to be done.
pub(super) enum Work {
    /// From the buffer at hand into the next one.
    Stage(Box<dyn Stage>),
    /// In the buffer at hand.
    Map(Box<dyn Map>),
}

/// What kind of thing is to be done, before anything is known of the buffers.
#[derive(Clone, Copy)]
enum Step {
    Layer,
    Copy,
}

/// The tasks in order, and the places of the buffers that they go through.
pub(super) fn plan(layers: &[Layer], shapes: &[Shape], layout: &Layout) -> (Vec<Task>, Vec<Place>) {
    let steps = steps(layers, shapes);
    let places = places(layers, shapes, &steps);
    let (mut tasks, mut buffer) = (Vec::new(), 0);
    for &(layer, step) in &steps {
        let Layer { name, kind } = &layers[layer];
        let weights = format!("{name}.weight");
        let found = layout.tensors().windows(2).find(|pair| pair[0].name == weights);
        let params = found.map_or(0..0, |pair| pair[0].range.start..pair[1].range.end);
        let from = places[buffer];
        let work = match (step, map(layer, *kind, from)) {
            (Step::Layer, Some(map)) => Work::Map(map),
            (Step::Layer, None) => Work::Stage(stage(*kind, from, places[buffer + 1])),
            (Step::Copy, _) => Work::Stage(Box::new(Copy { from, to: places[buffer + 1] })),
        };
        buffer += usize::from(matches!(work, Work::Stage(_)));
        tasks.push(Task { layer, params, work });
    }
    (tasks, places)
}

/// The layers that do something, with copies where a layer must not work in place.
fn steps(layers: &[Layer], shapes: &[Shape]) -> Vec<(usize, Step)> {
    let mut steps = Vec::new();
    // Whether what made the buffer at hand needs it as it is for its way back; and whether it
    // can leave a border around it.
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
            steps.push((index, Step::Copy));
            has_border = true;
        }
        steps.push((index, Step::Layer));
        is_kept = matches!(layer.kind, LayerKind::Tanh | LayerKind::MaxPool(_));
        if !is_map(layer.kind) {
            has_border = !matches!(layer.kind, LayerKind::Flatten | LayerKind::Dense { .. });
        }
    }
    steps
}

/// The buffers: the input, and one for the output of everything that does not work in place.
fn places(layers: &[Layer], shapes: &[Shape], steps: &[(usize, Step)]) -> Vec<Place> {
    let mut places = vec![Place { shape: shapes[0], border: [0; 2] }];
    for &(index, step) in steps {
        let (kind, last) = (layers[index].kind, places.len() - 1);
        let shape = match step {
            Step::Copy => shapes[index],
            Step::Layer if is_map(kind) => continue,
            Step::Layer => shapes[index + 1],
        };
        if let (LayerKind::Conv { padding, .. }, Step::Layer) = (kind, step) {
            places[last].border = padding;
        }
        places.push(Place { shape, border: [0; 2] });
    }
    places
}

fn is_map(kind: LayerKind) -> bool {
    matches!(kind, LayerKind::Relu | LayerKind::Tanh | LayerKind::Dropout { .. })
}

fn map(layer: usize, kind: LayerKind, place: Place) -> Option<Box<dyn Map>> {
    match kind {
        LayerKind::Relu => Some(Box::new(Activation::Relu)),
        LayerKind::Tanh => Some(Box::new(Activation::Tanh)),
        LayerKind::Dropout { rate } => Some(Box::new(Dropout::new(layer, place.len(), rate))),
        _ => None,
    }
}

fn stage(kind: LayerKind, from: Place, to: Place) -> Box<dyn Stage> {
    let pool = |take, windows: crate::layers::Windows| {
        Pool::regular(take, (from, to), windows.kernel, windows.stride, windows.padding)
    };
    match kind {
        LayerKind::Conv { kernel, stride, padding, .. } => {
            Box::new(Conv::new(from, to, kernel, stride, padding))
        }
        LayerKind::MaxPool(windows) => Box::new(pool(Take::Largest, windows)),
        LayerKind::AveragePool(windows) => Box::new(pool(Take::Mean, windows)),
        LayerKind::AdaptiveAveragePool { .. } => Box::new(Pool::adaptive(from, to)),
        LayerKind::Flatten => Box::new(Flatten::new(from)),
        LayerKind::Dense { outputs } => Box::new(Dense::new(from.shape.values(), outputs)),
        LayerKind::Relu | LayerKind::Tanh | LayerKind::Dropout { .. } => {
            unreachable!("works in place")
        }
    }
}
