//! Translates the layers of a network into nodes.

use paceline_model::{Architecture, Layer, LayerKind, Shape, Windows};

use crate::graph::Graph;
use crate::schema::Attribute;

/// Adds the nodes of a network to a graph. `input` is a value of the shape `[N, channels, rows,
/// columns]`. Returns the name of the scores.
pub(crate) fn add_layers(graph: &mut Graph, network: &Architecture, input: String) -> String {
    let mut last = LayerValue { name: input, is_image: true };
    for (layer, pair) in network.layers().iter().zip(network.shapes().windows(2)) {
        last = add_layer(graph, layer, pair[0], pair[1], last);
    }
    last.flat(graph, "scores_flat").name
}

/// The output of a layer.
struct LayerValue {
    name: String,
    /// Whether it has four dimensions, and not two.
    is_image: bool,
}

impl LayerValue {
    /// The same with two dimensions.
    fn flat(self, graph: &mut Graph, name: &str) -> Self {
        if !self.is_image {
            return self;
        }
        let name = graph.node("Flatten", &[&self.name], name, &[("axis", Attribute::Int(1))]);
        Self { name, is_image: false }
    }

    /// The same with four dimensions.
    fn image(self, graph: &mut Graph, name: &str, shape: Shape) -> Self {
        if self.is_image {
            return self;
        }
        let sizes = [shape.channels, shape.height, shape.width].map(|size| size as i64);
        let target = format!("{name}.shape");
        // 0 keeps the size of the batch.
        graph.ints(&target, &[&[0], &sizes[..]].concat());
        let name = graph.node("Reshape", &[&self.name, &target], name, &[]);
        Self { name, is_image: true }
    }
}

fn add_layer(
    graph: &mut Graph,
    layer: &Layer,
    from: Shape,
    to: Shape,
    input: LayerValue,
) -> LayerValue {
    let name = &layer.name;
    let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
    let out = format!("{name}.out");
    match layer.kind {
        // Dropout does nothing except in training.
        LayerKind::Dropout { .. } => input,
        LayerKind::Relu | LayerKind::Tanh => {
            let operator = if layer.kind == LayerKind::Relu { "Relu" } else { "Tanh" };
            LayerValue { name: graph.node(operator, &[&input.name], &out, &[]), ..input }
        }
        LayerKind::Flatten => input.flat(graph, &out),
        LayerKind::Dense { .. } => {
            let input = input.flat(graph, &format!("{name}.flat"));
            let inputs = [input.name.as_str(), &weight, &bias];
            let name = graph.node("Gemm", &inputs, &out, &[("transB", Attribute::Int(1))]);
            LayerValue { name, is_image: false }
        }
        LayerKind::Conv { kernel, stride, padding, groups, .. } => {
            let input = input.image(graph, &format!("{name}.image"), from);
            let mut attributes = window_attributes(Windows { kernel, stride, padding });
            attributes.push(("group", Attribute::Int(groups as i64)));
            let inputs = [input.name.as_str(), &weight, &bias];
            LayerValue { name: graph.node("Conv", &inputs, &out, &attributes), is_image: true }
        }
        LayerKind::MaxPool(windows) => {
            let input = input.image(graph, &format!("{name}.image"), from);
            let attributes = window_attributes(windows);
            let name = graph.node("MaxPool", &[&input.name], &out, &attributes);
            LayerValue { name, is_image: true }
        }
        LayerKind::AveragePool(windows) => {
            let input = input.image(graph, &format!("{name}.image"), from);
            add_average(graph, windows, &input.name, &out)
        }
        LayerKind::AdaptiveAveragePool { .. } => {
            let input = input.image(graph, &format!("{name}.image"), from);
            add_adaptive(graph, name, from, to, input)
        }
    }
}

fn window_attributes(windows: Windows) -> Vec<(&'static str, Attribute)> {
    let ints =
        |values: &[usize]| Attribute::Ints(values.iter().map(|&value| value as i64).collect());
    let Windows { kernel, stride, padding: [rows, columns] } = windows;
    vec![
        ("kernel_shape", ints(&kernel)),
        ("strides", ints(&stride)),
        ("pads", ints(&[rows, columns, rows, columns])),
    ]
}

fn add_average(graph: &mut Graph, windows: Windows, input: &str, out: &str) -> LayerValue {
    let mut attributes = window_attributes(windows);
    attributes.push(("count_include_pad", Attribute::Int(1)));
    LayerValue { name: graph.node("AveragePool", &[input], out, &attributes), is_image: true }
}

/// Adaptive pooling: nothing if sizes are equal, ordinary pooling if they divide, else a product
/// with a matrix of shares from each side.
fn add_adaptive(
    graph: &mut Graph,
    name: &str,
    from: Shape,
    to: Shape,
    input: LayerValue,
) -> LayerValue {
    let (sizes, wanted) = ([from.height, from.width], [to.height, to.width]);
    let out = format!("{name}.out");
    if sizes == wanted {
        return input;
    }
    if (0..2).all(|axis| sizes[axis].is_multiple_of(wanted[axis])) {
        let kernel = [0, 1].map(|axis: usize| sizes[axis] / wanted[axis]);
        let windows = Windows { kernel, stride: kernel, padding: [0; 2] };
        return add_average(graph, windows, &input.name, &out);
    }
    let [rows, columns] = [format!("{name}.rows"), format!("{name}.columns")];
    graph.floats(&rows, &[wanted[0], sizes[0]], &shares(sizes[0], wanted[0]));
    let across = shares(sizes[1], wanted[1]);
    let transposed: Vec<f32> = (0..sizes[1] * wanted[1])
        .map(|index| across[index % wanted[1] * sizes[1] + index / wanted[1]])
        .collect();
    graph.floats(&columns, &[sizes[1], wanted[1]], &transposed);
    let down = graph.node("MatMul", &[&rows, &input.name], &format!("{name}.down"), &[]);
    LayerValue { name: graph.node("MatMul", &[&down, &columns], &out, &[]), is_image: true }
}

/// The share of each input in each output of adaptive pooling, output after output.
fn shares(inputs: usize, outputs: usize) -> Vec<f32> {
    let mut shares = vec![0.0; inputs * outputs];
    for output in 0..outputs {
        let window = output * inputs / outputs..((output + 1) * inputs).div_ceil(outputs);
        let share = 1.0 / window.len() as f32;
        shares[output * inputs..][window].fill(share);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_adaptive_pooling_are_means_over_windows_that_overlap() {
        assert_eq!(shares(4, 2), [0.5, 0.5, 0., 0., 0., 0., 0.5, 0.5]);
        assert_eq!(shares(3, 2), [0.5, 0.5, 0., 0., 0.5, 0.5]);
        assert_eq!(shares(2, 3), [1., 0., 0.5, 0.5, 0., 1.]);
    }
}
