//! LeNet-5 for images of 28x28, in its usual form today: ReLU and average pooling.

use crate::layers::{Layer, LayerKind, Shape, Windows};
use crate::network::{Network, NetworkError};

/// LeNet-5 for ten classes, for blocks of at most `block` examples: two convolutions of 5x5 (6
/// outputs with padding 2, 16 without), each with ReLU and average pooling of 2x2, then dense
/// layers of 120, 84 and 10; 61,706 parameters.
///
/// # Errors
/// As [`Network::new`].
pub fn lenet(block: usize, threads: usize) -> Result<Network, NetworkError> {
    Network::new(Shape::image(1, 28, 28), lenet_layers(), block, threads)
}

/// The layers of [`lenet`].
pub fn lenet_layers() -> Vec<Layer> {
    let pool = LayerKind::AveragePool(Windows::square(2, 2));
    vec![
        Layer::conv("conv1", 6, 5, 1, 2),
        Layer::new("relu1", LayerKind::Relu),
        Layer::new("pool1", pool),
        Layer::conv("conv2", 16, 5, 1, 0),
        Layer::new("relu2", LayerKind::Relu),
        Layer::new("pool2", pool),
        Layer::new("flatten", LayerKind::Flatten),
        Layer::dense("fc1", 120),
        Layer::new("relu3", LayerKind::Relu),
        Layer::dense("fc2", 84),
        Layer::new("relu4", LayerKind::Relu),
        Layer::dense("fc3", 10),
    ]
}
