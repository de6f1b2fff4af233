//! Networks of layers drawn at random: whatever order they come in, the gradient is right.

use paceline_model::{
    Architecture, Batch, Layer, LayerKind, Model, Network, OutputMode, Shape, Windows,
};

use super::golden::{batch, start};
use super::plain;

/// Networks that are tried; about half of the drawn ones fit together.
const NETWORKS: usize = 80;

/// Draws small numbers.
struct Draw(u64);

impl Draw {
    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }

    fn pair(&mut self, least: usize, most: usize) -> [usize; 2] {
        [(); 2].map(|()| least + self.below(most - least + 1))
    }

    fn layer(&mut self) -> LayerKind {
        let (kernel, stride) = (self.pair(1, 3), self.pair(1, 2));
        let padding = self.pair(0, 1);
        let windows = Windows { kernel, stride, padding };
        match self.below(9) {
            0 | 1 => {
                let groups = 1 + self.below(3);
                let outputs = groups * (1 + self.below(3));
                LayerKind::Conv { outputs, kernel, stride, padding, groups }
            }
            2 => LayerKind::MaxPool(windows),
            3 => LayerKind::AveragePool(windows),
            4 => LayerKind::AdaptiveAveragePool { to: self.pair(1, 4) },
            5 => LayerKind::Flatten,
            6 => LayerKind::Dense { outputs: 1 + self.below(7) },
            7 => LayerKind::Relu,
            _ => LayerKind::Tanh,
        }
    }
}

/// A network that fits together, from the draws of a seed.
fn drawn(seed: u64) -> Option<Architecture> {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let [height, width] = draw.pair(1, 8);
    let input = Shape::image(1 + draw.below(6), height, width);
    let mut kinds: Vec<LayerKind> = (0..draw.below(7)).map(|_| draw.layer()).collect();
    kinds.extend([LayerKind::Flatten, LayerKind::Dense { outputs: 3 }]);
    if draw.below(4) == 0 {
        kinds.push(LayerKind::Tanh);
    }
    let layers = kinds.iter().enumerate();
    let layers = layers.map(|(index, &kind)| Layer::new(&index.to_string(), kind)).collect();
    Architecture::new(input, layers).ok()
}

#[test]
fn layers_in_any_order_that_fits_have_the_loss_and_gradient_of_their_definitions() {
    for architecture in (1..).filter_map(drawn).take(NETWORKS) {
        let mut model = Network::of(architecture.clone(), 3, 2).unwrap();
        let params = start(&model);
        let (x, labels) = batch(&model, 3, 4);
        let mut grad = vec![f32::NAN; params.len()];
        let block = Batch::dense(&x, &labels);
        let loss = model.gradient(&params, block, 1.0 / 3.0, OutputMode::Overwrite, &mut grad);
        let mut wide: Vec<f64> = params.iter().map(|&value| f64::from(value)).collect();
        let plain = plain::loss(&model, &wide, &x, &labels);
        let layers = architecture.layers();
        assert!((f64::from(loss) - plain).abs() < 1e-4, "{layers:?}: loss {loss}, not {plain}");
        let largest = grad.iter().fold(1f32, |most, value| most.max(value.abs()));
        for i in (0..wide.len()).step_by(wide.len().div_ceil(40)) {
            let slope = plain::slope(&model, &mut wide, i, &x, &labels);
            let near = (f64::from(grad[i]) - slope).abs() < 1e-4 * f64::from(largest);
            assert!(near, "{layers:?}: gradient {i} is {}, not {slope}", grad[i]);
        }
    }
}
