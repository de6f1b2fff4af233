//! What a list of layers computes, before any memory is allocated for it.

use super::cost::{LayerCost, layer_costs};
use super::error::NetworkError;
use crate::layers::{Layer, LayerKind, LayerTensors, Shape};
use crate::layout::{Group, Layout};

/// Parameters of a network, or values of an example, beyond which it is refused: 4.4 TB. Below it,
/// no size overflows.
const MOST_NUMBERS: u128 = 1 << 40;

/// The layers of a network, with the shapes between them and the layout of its parameters.
///
/// Building it checks the layers and allocates no memory for parameters or examples.
///
/// ```
/// use paceline_model::{Architecture, Layer, LayerKind, Shape};
///
/// let layers = vec![Layer::new("flat", LayerKind::Flatten), Layer::dense("scores", 10)];
/// let architecture = Architecture::new(Shape::image(1, 28, 28), layers)?;
/// assert_eq!(architecture.layout().len(), 7850);
/// # Ok::<(), paceline_model::NetworkError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    layers: Vec<Layer>,
    /// The input's shape, and each layer's output.
    shapes: Vec<Shape>,
    layout: Layout,
}

impl Architecture {
    /// Checks the layers of a network that takes examples of the shape `input`.
    ///
    /// # Errors
    /// If a layer does not fit the one before it, a size is zero or huge, two layers have one name,
    /// there are no parameters, or the last layer's output is an image.
    pub fn new(input: Shape, layers: Vec<Layer>) -> Result<Self, NetworkError> {
        if input.values() == 0 {
            return Err(NetworkError::Zero("the input"));
        }
        let shapes = shapes(input, &layers)?;
        let mut layout = Layout::new();
        for (layer, &input) in layers.iter().zip(&shapes) {
            if let Some(LayerTensors { weights, biases }) = layer.kind.tensors(input) {
                layout.push(&format!("{}.weight", layer.name), &weights, Group::Weights);
                layout.push(&format!("{}.bias", layer.name), &[biases], Group::Biases);
            }
        }
        if layout.is_empty() {
            return Err(NetworkError::Empty);
        }
        match shapes.last() {
            Some(&last) if !last.is_flat() => Err(NetworkError::NoScores(last)),
            _ => Ok(Self { layers, shapes, layout }),
        }
    }

    /// The layers in order.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The shape of the input, and of each layer's output.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// The named tensors of the parameters.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of classes: the values of the last layer's output.
    pub fn classes(&self) -> usize {
        self.shapes.last().map_or(0, Shape::values)
    }

    /// The values of one example that a step keeps for the backward pass: the input, and the
    /// output of each layer that does not work in place.
    pub fn values(&self) -> usize {
        let outputs = self.layers.iter().zip(&self.shapes[1..]);
        let kept = outputs.filter(|(layer, _)| !layer.kind.is_elementwise());
        self.shapes[0].values() + kept.map(|(_, shape)| shape.values()).sum::<usize>()
    }

    /// The cost of each layer.
    pub fn cost(&self) -> Vec<LayerCost> {
        layer_costs(&self.layers, &self.shapes, &self.layout)
    }
}

/// The shapes from the input to the scores.
fn shapes(input: Shape, layers: &[Layer]) -> Result<Vec<Shape>, NetworkError> {
    let mut shapes = vec![input];
    let mut last = input;
    let mut sizes = NetworkSizes { parameters: 0, values: input.values() as u128 };
    for (index, layer) in layers.iter().enumerate() {
        if let Some(first) = layers[..index].iter().position(|other| other.name == layer.name) {
            return Err(NetworkError::DuplicateName { name: layer.name.clone(), first, index });
        }
        let output = layer.kind.output(last).and_then(|output| {
            sizes.add(layer.kind, last, output)?;
            Ok(output)
        });
        last = output.map_err(|reason| NetworkError::Layer {
            index,
            name: layer.name.clone(),
            kind: layer.kind.name(),
            input: last,
            reason,
        })?;
        shapes.push(last);
    }
    Ok(shapes)
}

/// How large a network is, up to some layer.
struct NetworkSizes {
    parameters: u128,
    /// Values of one example.
    values: u128,
}

impl NetworkSizes {
    /// Adds a layer, or says that the network is too large with it.
    fn add(&mut self, kind: LayerKind, input: Shape, output: Shape) -> Result<(), String> {
        let product = |sizes: &[usize]| {
            sizes.iter().fold(1u128, |product, &size| product.saturating_mul(size as u128))
        };
        if let Some(LayerTensors { weights, biases }) = kind.tensors(input) {
            let parameters = product(&weights).saturating_add(biases as u128);
            self.parameters = self.parameters.saturating_add(parameters);
        }
        let values = product(&[output.channels, output.height, output.width]);
        let border = match kind {
            LayerKind::Conv { padding, .. } => {
                let side =
                    |size: usize, padding: usize| padding.saturating_mul(2).saturating_add(size);
                product(&[
                    input.channels,
                    side(input.height, padding[0]),
                    side(input.width, padding[1]),
                ])
            }
            _ => 0,
        };
        self.values = self.values.saturating_add(values).saturating_add(border);
        if self.parameters.max(self.values) <= MOST_NUMBERS {
            return Ok(());
        }
        let [parameters, values] =
            [self.parameters, self.values].map(|numbers| memory_text(numbers.saturating_mul(4)));
        Err(format!(
            "is too large: up to this layer the network needs {parameters} for its parameters and \
             {values} for each example; use smaller sizes"
        ))
    }
}

/// A number of bytes, for people.
pub fn memory_text(bytes: u128) -> String {
    let units = ["kB", "MB", "GB", "TB", "PB"];
    let (mut amount, mut unit) = (bytes as f64 / 1e3, 0);
    while amount >= 999.5 && unit + 1 < units.len() {
        (amount, unit) = (amount / 1e3, unit + 1);
    }
    if amount >= 999.5 {
        return "more than 1000 PB".to_owned();
    }
    let unit = units[unit];
    if amount < 9.95 { format!("{amount:.1} {unit}") } else { format!("{amount:.0} {unit}") }
}

#[cfg(test)]
mod tests;
