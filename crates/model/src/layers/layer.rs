//! The description of a layer.

use super::shape::Shape;
use super::windows::Windows;

/// One layer of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// A name that no other layer of the network has. The tensors are `NAME.weight` and
    /// `NAME.bias`.
    pub name: String,
    /// What the layer does.
    pub kind: LayerKind,
}

/// What a layer does. Pairs are for rows and columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LayerKind {
    /// Convolution in two dimensions, with a bias. Its weights are `[outputs, inputs / groups,
    /// rows, columns]`.
    Conv {
        /// Channels of the output.
        outputs: usize,
        /// Size of the kernel.
        kernel: [usize; 2],
        /// Distance between two positions of the kernel.
        stride: [usize; 2],
        /// Zeros around the image, on each side; less than the kernel.
        padding: [usize; 2],
        /// Groups of channels: each group of outputs sees only its own group of inputs. It
        /// divides both numbers of channels.
        groups: usize,
    },
    /// The largest value of each window.
    MaxPool(Windows),
    /// The mean of each window, in which padding counts as zeros.
    AveragePool(Windows),
    /// Means over a fixed number of windows, whatever the image's size: window i of n over s
    /// pixels reaches from floor(i * s / n) to ceil((i + 1) * s / n).
    AdaptiveAveragePool {
        /// Rows and columns of the output.
        to: [usize; 2],
    },
    /// Turns an image into a flat row of its values, channel after channel.
    Flatten,
    /// Weighted sums of all values of a flat row, with a bias. Its weights are `[outputs,
    /// inputs]`.
    Dense {
        /// Values of the output.
        outputs: usize,
    },
    /// Replaces values below zero by zero.
    Relu,
    /// The hyperbolic tangent.
    Tanh,
    /// In training, zeroes values at random and multiplies the others by `1 / (1 - rate)`.
    Dropout {
        /// The probability that a value is zeroed: at least 0 and less than 1.
        rate: f32,
    },
}

/// The tensors of a layer.
pub(crate) struct LayerTensors {
    /// The shape of the weights.
    pub(crate) weights: Vec<usize>,
    /// The number of biases.
    pub(crate) biases: usize,
}

impl Layer {
    /// A layer of any kind.
    pub fn new(name: &str, kind: LayerKind) -> Self {
        Self { name: name.to_owned(), kind }
    }

    /// A convolution with a square kernel.
    pub fn conv(name: &str, outputs: usize, kernel: usize, stride: usize, padding: usize) -> Self {
        let (kernel, stride, padding) = ([kernel; 2], [stride; 2], [padding; 2]);
        Self::new(name, LayerKind::Conv { outputs, kernel, stride, padding, groups: 1 })
    }

    /// A dense layer.
    pub fn dense(name: &str, outputs: usize) -> Self {
        Self::new(name, LayerKind::Dense { outputs })
    }
}

impl LayerKind {
    /// The name of the kind in errors and tables.
    pub fn name(&self) -> &'static str {
        match self {
            LayerKind::Conv { .. } => "convolution",
            LayerKind::MaxPool(_) => "max pooling",
            LayerKind::AveragePool(_) => "average pooling",
            LayerKind::AdaptiveAveragePool { .. } => "adaptive average pooling",
            LayerKind::Flatten => "flatten",
            LayerKind::Dense { .. } => "dense",
            LayerKind::Relu => "relu",
            LayerKind::Tanh => "tanh",
            LayerKind::Dropout { .. } => "dropout",
        }
    }

    /// The shape of the output, or why the layer cannot take the input.
    pub(crate) fn output(&self, input: Shape) -> Result<Shape, String> {
        match *self {
            LayerKind::Conv { outputs, kernel, stride, padding, groups } => {
                if outputs == 0 {
                    return Err("has no outputs".into());
                }
                check_groups(groups, input.channels, outputs)?;
                if (0..2).any(|axis| padding[axis] >= kernel[axis].max(1)) {
                    return Err(format!(
                        "pads by {}, so that windows of its kernel of {} see nothing but padding; \
                         pad by less than the kernel's size",
                        pair(padding),
                        pair(kernel)
                    ));
                }
                let [height, width] = window_counts(input, Windows { kernel, stride, padding })?;
                Ok(Shape::image(outputs, height, width))
            }
            LayerKind::MaxPool(windows) | LayerKind::AveragePool(windows) => {
                if (0..2).any(|axis| windows.padding[axis] > windows.kernel[axis] / 2) {
                    return Err(format!(
                        "pads by {}, more than half of its windows of {}; pad by less",
                        pair(windows.padding),
                        pair(windows.kernel)
                    ));
                }
                let [height, width] = window_counts(input, windows)?;
                Ok(Shape::image(input.channels, height, width))
            }
            LayerKind::AdaptiveAveragePool { to: [0, _] | [_, 0] } => Err("has no outputs".into()),
            LayerKind::AdaptiveAveragePool { to } => Ok(Shape::image(input.channels, to[0], to[1])),
            LayerKind::Flatten => Ok(Shape::flat(input.values())),
            LayerKind::Dense { outputs: 0 } => Err("has no outputs".into()),
            LayerKind::Dense { outputs } if input.is_flat() => Ok(Shape::flat(outputs)),
            LayerKind::Dense { .. } => {
                Err("takes a flat row: put a flatten layer before it".into())
            }
            LayerKind::Dropout { rate } if !(0.0..1.0).contains(&rate) => {
                Err(format!("has the rate {rate}, which is not from 0 to less than 1"))
            }
            LayerKind::Relu | LayerKind::Tanh | LayerKind::Dropout { .. } => Ok(input),
        }
    }

    /// The shape of the weights and the number of biases, if the layer has parameters.
    pub(crate) fn tensors(&self, input: Shape) -> Option<LayerTensors> {
        match *self {
            LayerKind::Conv { outputs, kernel, groups, .. } => {
                let weights = vec![outputs, input.channels / groups, kernel[0], kernel[1]];
                Some(LayerTensors { weights, biases: outputs })
            }
            LayerKind::Dense { outputs } => {
                Some(LayerTensors { weights: vec![outputs, input.channels], biases: outputs })
            }
            _ => None,
        }
    }

    /// Whether the layer changes each value by itself, in place.
    pub(crate) fn is_elementwise(&self) -> bool {
        matches!(self, LayerKind::Relu | LayerKind::Tanh | LayerKind::Dropout { .. })
    }

    /// Groups of the layer's channels.
    pub(crate) fn groups(&self) -> usize {
        match *self {
            LayerKind::Conv { groups, .. } => groups,
            _ => 1,
        }
    }
}

fn check_groups(groups: usize, inputs: usize, outputs: usize) -> Result<(), String> {
    let divides = |channels: usize| groups > 0 && channels.is_multiple_of(groups);
    let (side, channels) = match (divides(inputs), divides(outputs)) {
        (true, true) => return Ok(()),
        (false, _) => ("input", inputs),
        (true, false) => ("output", outputs),
    };
    Err(format!(
        "has {groups} groups, which do not divide its {channels} {side} channels; use a number \
         that divides {inputs} and {outputs}"
    ))
}

/// The rows and columns of windows that fit an image.
fn window_counts(input: Shape, windows: Windows) -> Result<[usize; 2], String> {
    let Windows { kernel, stride, padding } = windows;
    if kernel.contains(&0) || stride.contains(&0) {
        return Err("has a kernel or a stride of zero".into());
    }
    let image = [input.height, input.width];
    let size =
        [0, 1].map(|axis: usize| padding[axis].saturating_mul(2).saturating_add(image[axis]));
    if size[0] < kernel[0] || size[1] < kernel[1] {
        return Err(format!(
            "has a kernel of {}, larger than the image of {} with its padding of {}; use a kernel \
             of at most {}, or let the layers before it shrink the image less",
            pair(kernel),
            pair(image),
            pair(padding),
            pair(size)
        ));
    }
    Ok([0, 1].map(|axis| (size[axis] - kernel[axis]) / stride[axis] + 1))
}

fn pair([rows, columns]: [usize; 2]) -> String {
    format!("{rows}x{columns}")
}
