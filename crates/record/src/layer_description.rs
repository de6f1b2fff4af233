//! A layer of a network, as a model file describes it.

use paceline_model::{Layer, LayerKind, Windows};
use serde::{Deserialize, Serialize};

/// A layer of a network: its name and what it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerDescription {
    /// The name of the layer, and of its tensors.
    pub name: String,
    /// What it does.
    #[serde(flatten)]
    pub kind: DescribedKind,
}

/// What a layer does, by the words of job files. Pairs are for rows and columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are those of `LayerKind`")]
pub enum DescribedKind {
    Conv {
        outputs: usize,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        groups: usize,
    },
    MaxPool {
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
    },
    AveragePool {
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
    },
    AdaptiveAveragePool {
        to: [usize; 2],
    },
    Flatten,
    Dense {
        outputs: usize,
    },
    Relu,
    Tanh,
    Dropout {
        rate: f32,
    },
}

impl From<&Layer> for LayerDescription {
    fn from(layer: &Layer) -> Self {
        let kind = match layer.kind {
            LayerKind::Conv { outputs, kernel, stride, padding, groups } => {
                DescribedKind::Conv { outputs, kernel, stride, padding, groups }
            }
            LayerKind::MaxPool(Windows { kernel, stride, padding }) => {
                DescribedKind::MaxPool { kernel, stride, padding }
            }
            LayerKind::AveragePool(Windows { kernel, stride, padding }) => {
                DescribedKind::AveragePool { kernel, stride, padding }
            }
            LayerKind::AdaptiveAveragePool { to } => DescribedKind::AdaptiveAveragePool { to },
            LayerKind::Flatten => DescribedKind::Flatten,
            LayerKind::Dense { outputs } => DescribedKind::Dense { outputs },
            LayerKind::Relu => DescribedKind::Relu,
            LayerKind::Tanh => DescribedKind::Tanh,
            LayerKind::Dropout { rate } => DescribedKind::Dropout { rate },
        };
        Self { name: layer.name.clone(), kind }
    }
}

impl LayerDescription {
    /// The layer.
    pub fn layer(&self) -> Layer {
        let kind = match self.kind {
            DescribedKind::Conv { outputs, kernel, stride, padding, groups } => {
                LayerKind::Conv { outputs, kernel, stride, padding, groups }
            }
            DescribedKind::MaxPool { kernel, stride, padding } => {
                LayerKind::MaxPool(Windows { kernel, stride, padding })
            }
            DescribedKind::AveragePool { kernel, stride, padding } => {
                LayerKind::AveragePool(Windows { kernel, stride, padding })
            }
            DescribedKind::AdaptiveAveragePool { to } => LayerKind::AdaptiveAveragePool { to },
            DescribedKind::Flatten => LayerKind::Flatten,
            DescribedKind::Dense { outputs } => LayerKind::Dense { outputs },
            DescribedKind::Relu => LayerKind::Relu,
            DescribedKind::Tanh => LayerKind::Tanh,
            DescribedKind::Dropout { rate } => LayerKind::Dropout { rate },
        };
        Layer::new(&self.name, kind)
    }
}

#[cfg(test)]
mod tests {
    use paceline_model::{AlexNet, lenet_layers};

    use super::*;

    #[test]
    fn every_layer_is_read_back_as_it_was() {
        let mut layers = [lenet_layers(), AlexNet::default().layers()].concat();
        layers.push(Layer::new("tanh", LayerKind::Tanh));
        for layer in layers {
            let json = serde_json::to_string(&LayerDescription::from(&layer)).unwrap();
            let read: LayerDescription = serde_json::from_str(&json).unwrap();
            assert_eq!(read.layer(), layer, "{json}");
        }
    }
}
