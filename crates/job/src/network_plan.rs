//! The network of a plan: a list of layers, from the job file or built in.

use paceline_model::{
    AlexNet, Architecture, Initialisation, Layer, LayerKind, Shape, lenet_layers,
};

/// Memory for the values of a block of examples, in bytes. Blocks beyond it gain no speed.
const BLOCK_BYTES: usize = 256 << 20;
/// The most examples of a block.
const MOST_EXAMPLES: usize = 128;
/// The most examples of a block of AlexNet, whatever the size of its pictures.
const ALEXNET_EXAMPLES: usize = 64;

/// A network, before the shape of its examples is known.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkPlan {
    /// The name of `model.kind`.
    pub name: &'static str,
    /// How its weights start.
    pub init: Initialisation,
    layers: Vec<PlannedLayer>,
    /// The most examples of a block, if it does not follow from the layers.
    most_examples: Option<usize>,
}

/// A layer of a plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedLayer {
    /// The layer; its outputs do not matter if it has one for each class.
    pub(super) layer: Layer,
    /// Whether its outputs are as many as the data has classes.
    pub(super) has_class_size: bool,
}

impl NetworkPlan {
    /// The name of a network that the job file defines.
    pub(super) const OWN: &'static str = "network";

    /// A network that the job file defines.
    pub(super) fn of_layers(layers: Vec<PlannedLayer>, init: Initialisation) -> Self {
        Self { name: Self::OWN, init, layers, most_examples: None }
    }

    pub(super) fn lenet(init: Initialisation) -> Self {
        let layers = ending_in_classes(lenet_layers());
        Self { name: "lenet", init, layers, most_examples: Some(MOST_EXAMPLES) }
    }

    pub(super) fn alexnet(init: Initialisation, dropout: f32) -> Self {
        let layers = ending_in_classes(AlexNet { dropout, ..AlexNet::default() }.layers());
        Self { name: "alexnet", init, layers, most_examples: Some(ALEXNET_EXAMPLES) }
    }

    /// Whether the network is one of the built-in ones.
    pub fn is_built_in(&self) -> bool {
        self.name != Self::OWN
    }

    pub(super) fn layers(&self) -> &[PlannedLayer] {
        &self.layers
    }

    /// The network for examples of these channels, rows and columns, and this number of classes.
    ///
    /// # Errors
    /// As [`Architecture::new`].
    pub fn architecture(
        &self,
        planes: [usize; 3],
        classes: usize,
    ) -> Result<Architecture, paceline_model::NetworkError> {
        let [channels, height, width] = planes;
        let layers = self.layers.iter().map(|PlannedLayer { layer, has_class_size }| {
            let mut layer = layer.clone();
            if let LayerKind::Dense { outputs } = &mut layer.kind
                && *has_class_size
            {
                *outputs = classes;
            }
            layer
        });
        Architecture::new(Shape::image(channels, height, width), layers.collect())
    }

    /// The most examples that the network should compute with at a time.
    pub fn most_examples(&self, architecture: &Architecture) -> usize {
        let most = BLOCK_BYTES / 4 / architecture.values();
        let power = most.checked_ilog2().map_or(1, |log| 1 << log);
        self.most_examples.unwrap_or(power.min(MOST_EXAMPLES))
    }
}

/// A built-in list, whose last layer has an output for each class.
fn ending_in_classes(layers: Vec<Layer>) -> Vec<PlannedLayer> {
    let last = layers.len() - 1;
    let layers = layers.into_iter().enumerate();
    layers.map(|(index, layer)| PlannedLayer { layer, has_class_size: index == last }).collect()
}

impl PlannedLayer {
    /// The layer as a job file writes it, in a list at this index. Defaults are left out.
    pub(super) fn toml(&self, index: usize) -> String {
        let kind = match self.layer.kind {
            LayerKind::Dense { .. } => "dense",
            LayerKind::Conv { .. } => "conv",
            LayerKind::MaxPool(_) => "max-pool",
            LayerKind::AveragePool(_) => "average-pool",
            LayerKind::AdaptiveAveragePool { .. } => "adaptive-average-pool",
            LayerKind::Flatten => "flatten",
            LayerKind::Relu => "relu",
            LayerKind::Tanh => "tanh",
            LayerKind::Dropout { .. } => "dropout",
        };
        let mut keys = vec![format!("kind = {kind:?}")];
        if self.layer.name != index.to_string() {
            keys.push(format!("name = {:?}", self.layer.name));
        }
        let mut put = |name: &str, value: usize, default: usize| {
            if value != default {
                keys.push(format!("{name} = {value}"));
            }
        };
        match self.layer.kind {
            LayerKind::Conv { outputs, kernel, stride, padding, groups } => {
                put("channels", outputs, 0);
                put("size", kernel[0], 0);
                put("stride", stride[0], 1);
                put("padding", padding[0], 0);
                put("groups", groups, 1);
            }
            LayerKind::MaxPool(windows) | LayerKind::AveragePool(windows) => {
                put("size", windows.kernel[0], 0);
                put("stride", windows.stride[0], windows.kernel[0]);
                put("padding", windows.padding[0], 0);
            }
            LayerKind::AdaptiveAveragePool { to } => put("size", to[0], 0),
            LayerKind::Dense { .. } if self.has_class_size => {
                keys.push("size = \"classes\"".into());
            }
            LayerKind::Dense { outputs } => put("size", outputs, 0),
            LayerKind::Dropout { rate } => keys.push(format!("rate = {rate:?}")),
            LayerKind::Flatten | LayerKind::Relu | LayerKind::Tanh => {}
        }
        format!("{{ {} }}", keys.join(", "))
    }
}
