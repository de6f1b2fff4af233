//! What networks are made of.
//!
//! A [`Layer`] is a description: a name, by which files and graphs know it, and a [`LayerKind`] with
//! its sizes. [`Network`](crate::Network) checks that one's output fits the next one's input and
//! plans the work; the files beside this one hold what each kind does forward and backward.

pub(crate) mod activation;
pub(crate) mod conv;
mod conv_slope;
mod conv_sums;
pub(crate) mod dense;
pub(crate) mod dropout;
pub(crate) mod flatten;
pub(crate) mod loss;
pub(crate) mod pool;
mod shape;
pub(crate) mod stage;

pub use loss::softmax_cross_entropy;
pub(crate) use shape::Place;
pub use shape::Shape;

/// One layer of a network: what it is called and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Unique among the network's layers. Its tensors are called `NAME.weight` and `NAME.bias`.
    pub name: String,
    /// What it does.
    pub kind: LayerKind,
}

/// What a layer does. Pairs are for rows and columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LayerKind {
    /// Convolution in two dimensions, with a bias. Its weights are `[outputs, inputs, rows,
    /// columns]`.
    Conv {
        /// Channels that come out.
        outputs: usize,
        /// Size of the kernel.
        kernel: [usize; 2],
        /// Distance from one place of the kernel to the next.
        stride: [usize; 2],
        /// Zeros around the image, on each side.
        padding: [usize; 2],
    },
    /// The largest value of each window.
    MaxPool(Windows),
    /// The mean of each window; what the padding adds counts as zeros.
    AveragePool(Windows),
    /// Means over as many windows as asked for, whatever the image's size: window i of n over s
    /// pixels goes from floor(i * s / n) to ceil((i + 1) * s / n).
    AdaptiveAveragePool {
        /// Rows and columns that come out.
        to: [usize; 2],
    },
    /// A flat row of an image's values, channel after channel.
    Flatten,
    /// Every output from every input of a flat row, with a bias. Its weights are `[outputs,
    /// inputs]`.
    Dense {
        /// Values that come out.
        outputs: usize,
    },
    /// What is below zero becomes zero.
    Relu,
    /// The hyperbolic tangent.
    Tanh,
    /// While training, leaves out values at random and multiplies the rest by `1 / (1 - rate)`.
    Dropout {
        /// The probability that a value is left out: from 0, and less than 1.
        rate: f32,
    },
}

/// Windows that pooling goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Size of a window.
    pub kernel: [usize; 2],
    /// Distance from one window to the next.
    pub stride: [usize; 2],
    /// How far windows reach over the edge, at most half of their size.
    pub padding: [usize; 2],
}

impl Windows {
    /// Square windows that stay inside the image.
    pub fn square(kernel: usize, stride: usize) -> Self {
        Self { kernel: [kernel; 2], stride: [stride; 2], padding: [0; 2] }
    }
}

impl Layer {
    /// A layer.
    pub fn new(name: &str, kind: LayerKind) -> Self {
        Self { name: name.to_owned(), kind }
    }

    /// A convolution with a square kernel.
    pub fn conv(name: &str, outputs: usize, kernel: usize, stride: usize, padding: usize) -> Self {
        let (kernel, stride, padding) = ([kernel; 2], [stride; 2], [padding; 2]);
        Self::new(name, LayerKind::Conv { outputs, kernel, stride, padding })
    }

    /// A dense layer.
    pub fn dense(name: &str, outputs: usize) -> Self {
        Self::new(name, LayerKind::Dense { outputs })
    }
}

impl LayerKind {
    /// What it is called in errors and tables.
    pub fn word(&self) -> &'static str {
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

    /// The shape that comes out, or why there is none.
    pub(crate) fn output(&self, input: Shape) -> Result<Shape, String> {
        match *self {
            LayerKind::Conv { outputs, kernel, stride, padding } => {
                if outputs == 0 {
                    return Err("has no outputs".into());
                }
                let [height, width] = slid(input, Windows { kernel, stride, padding })?;
                Ok(Shape::image(outputs, height, width))
            }
            LayerKind::MaxPool(windows) | LayerKind::AveragePool(windows) => {
                if (0..2).any(|axis| windows.padding[axis] * 2 > windows.kernel[axis]) {
                    return Err(format!(
                        "pads by {}, more than half of its windows of {}",
                        pair(windows.padding),
                        pair(windows.kernel)
                    ));
                }
                let [height, width] = slid(input, windows)?;
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

    /// Numbers of weights and of biases.
    pub(crate) fn tensors(&self, input: Shape) -> Option<(Vec<usize>, usize)> {
        match *self {
            LayerKind::Conv { outputs, kernel, .. } => {
                Some((vec![outputs, input.channels, kernel[0], kernel[1]], outputs))
            }
            LayerKind::Dense { outputs } => Some((vec![outputs, input.channels], outputs)),
            _ => None,
        }
    }
}

/// How many rows and columns of windows fit.
fn slid(input: Shape, windows: Windows) -> Result<[usize; 2], String> {
    let Windows { kernel, stride, padding } = windows;
    if kernel.contains(&0) || stride.contains(&0) {
        return Err("has a kernel or a stride of zero".into());
    }
    let size = [input.height + 2 * padding[0], input.width + 2 * padding[1]];
    if size[0] < kernel[0] || size[1] < kernel[1] {
        return Err(format!(
            "has a kernel of {}, larger than the image with its padding of {}",
            pair(kernel),
            pair(padding)
        ));
    }
    Ok([0, 1].map(|axis| (size[axis] - kernel[axis]) / stride[axis] + 1))
}

fn pair([rows, columns]: [usize; 2]) -> String {
    format!("{rows}x{columns}")
}
