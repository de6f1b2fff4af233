//! AlexNet with a single tower, as torchvision has it.

use crate::layers::{Layer, LayerKind, Shape, Windows};
use crate::network::{Network, NetworkError};

/// The sizes of an AlexNet. The default is torchvision's, for 1,000 classes: 61,100,840
/// parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlexNet {
    /// The number of classes.
    pub classes: usize,
    /// Rows and columns of the images, which have three channels; at least 63.
    pub size: usize,
    /// Outputs of the five convolutions.
    pub widths: [usize; 5],
    /// Outputs of the two hidden dense layers.
    pub hidden: usize,
    /// The probability that dropout zeroes a value; 0 for no dropout.
    pub dropout: f32,
}

impl Default for AlexNet {
    fn default() -> Self {
        let widths = [64, 192, 384, 256, 256];
        Self { classes: 1000, size: 224, widths, hidden: 4096, dropout: 0.5 }
    }
}

impl AlexNet {
    /// The shape of an example.
    pub fn input(&self) -> Shape {
        Shape::image(3, self.size, self.size)
    }

    /// The layers, by torchvision's names.
    ///
    /// Adaptive average pooling brings the output of the convolutions to 6x6, as in torchvision, so
    /// that the dense layers fit images of any size. At 224 it changes nothing.
    pub fn layers(&self) -> Vec<Layer> {
        let pool = LayerKind::MaxPool(Windows::square(3, 2));
        let dropout = LayerKind::Dropout { rate: self.dropout };
        let [a, b, c, d, e] = self.widths;
        vec![
            Layer::conv("features.0", a, 11, 4, 2),
            Layer::new("features.1", LayerKind::Relu),
            Layer::new("features.2", pool),
            Layer::conv("features.3", b, 5, 1, 2),
            Layer::new("features.4", LayerKind::Relu),
            Layer::new("features.5", pool),
            Layer::conv("features.6", c, 3, 1, 1),
            Layer::new("features.7", LayerKind::Relu),
            Layer::conv("features.8", d, 3, 1, 1),
            Layer::new("features.9", LayerKind::Relu),
            Layer::conv("features.10", e, 3, 1, 1),
            Layer::new("features.11", LayerKind::Relu),
            Layer::new("features.12", pool),
            Layer::new("avgpool", LayerKind::AdaptiveAveragePool { to: [6, 6] }),
            Layer::new("flatten", LayerKind::Flatten),
            Layer::new("classifier.0", dropout),
            Layer::dense("classifier.1", self.hidden),
            Layer::new("classifier.2", LayerKind::Relu),
            Layer::new("classifier.3", dropout),
            Layer::dense("classifier.4", self.hidden),
            Layer::new("classifier.5", LayerKind::Relu),
            Layer::dense("classifier.6", self.classes),
        ]
    }

    /// The network, for blocks of at most `block` examples.
    ///
    /// The dense layers read all their weights once for each block, so a block should be a whole
    /// batch if memory permits: about 4 MB for each example at 224.
    ///
    /// # Errors
    /// As [`Network::new`].
    pub fn network(&self, block: usize, threads: usize) -> Result<Network, NetworkError> {
        Network::new(self.input(), self.layers(), block, threads)
    }
}
