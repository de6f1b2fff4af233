//! A network's loss again: in double precision, by the definitions, with none of the crate's code.

use paceline_model::{LayerKind, Network, Shape, Windows};

/// The mean loss of a batch.
pub(crate) fn loss(model: &Network, params: &[f64], inputs: &[f32], labels: &[u32]) -> f64 {
    let len = model.shapes()[0].values();
    let examples = inputs.chunks(len).zip(labels);
    let sum: f64 = examples.map(|(x, &label)| example(model, params, x, label as usize)).sum();
    sum / labels.len() as f64
}

/// The derivative of the loss by one parameter, by finite differences.
pub(crate) fn slope(
    model: &Network,
    params: &mut [f64],
    index: usize,
    inputs: &[f32],
    labels: &[u32],
) -> f64 {
    let here = params[index];
    let mut at = |value: f64| {
        params[index] = value;
        loss(model, params, inputs, labels)
    };
    let slope = (at(here + 1e-6) - at(here - 1e-6)) / 2e-6;
    params[index] = here;
    slope
}

fn example(model: &Network, params: &[f64], x: &[f32], label: usize) -> f64 {
    let mut values: Vec<f64> = x.iter().map(|&value| f64::from(value)).collect();
    let mut params = params;
    for (index, layer) in model.layers().iter().enumerate() {
        let (from, to) = (model.shapes()[index], model.shapes()[index + 1]);
        values = match layer.kind {
            LayerKind::Conv { outputs, kernel, stride, padding, groups } => {
                let inputs = from.channels / groups;
                let (weights, rest) = params.split_at(outputs * inputs * kernel[0] * kernel[1]);
                let (bias, rest) = rest.split_at(outputs);
                params = rest;
                conv(&values, from, to, weights, bias, Windows { kernel, stride, padding })
            }
            LayerKind::Dense { outputs } => {
                let (weights, rest) = params.split_at(outputs * values.len());
                let (bias, rest) = rest.split_at(outputs);
                params = rest;
                let rows = weights.chunks(values.len()).zip(bias);
                rows.map(|(row, bias)| {
                    bias + row.iter().zip(&values).map(|(w, x)| w * x).sum::<f64>()
                })
                .collect()
            }
            LayerKind::MaxPool(windows) => pool(&values, from, to, windows, |window, _| {
                window.iter().copied().fold(f64::NEG_INFINITY, f64::max)
            }),
            LayerKind::AveragePool(windows) => pool(&values, from, to, windows, |window, size| {
                window.iter().sum::<f64>() / size as f64
            }),
            LayerKind::Relu => values.iter().map(|value| value.max(0.0)).collect(),
            LayerKind::Tanh => values.iter().map(|value| value.tanh()).collect(),
            LayerKind::Flatten => values,
            LayerKind::AdaptiveAveragePool { .. } => adaptive(&values, from, to),
            LayerKind::Dropout { .. } => panic!("not here"),
        };
    }
    values.iter().map(|score| score.exp()).sum::<f64>().ln() - values[label]
}

/// The places of a window in an image: (row, column) of each that is inside.
fn covered(shape: Shape, windows: Windows, y: usize, x: usize) -> Vec<(usize, usize, usize)> {
    let Windows { kernel, stride, padding } = windows;
    let mut places = Vec::new();
    for ky in 0..kernel[0] {
        for kx in 0..kernel[1] {
            let (row, column) = (y * stride[0] + ky, x * stride[1] + kx);
            let inside = (padding[0]..padding[0] + shape.height).contains(&row)
                && (padding[1]..padding[1] + shape.width).contains(&column);
            if inside {
                places.push((ky * kernel[1] + kx, row - padding[0], column - padding[1]));
            }
        }
    }
    places
}

fn conv(
    values: &[f64],
    from: Shape,
    to: Shape,
    weights: &[f64],
    bias: &[f64],
    windows: Windows,
) -> Vec<f64> {
    let taps = windows.kernel[0] * windows.kernel[1];
    // Inputs of an output, and outputs of a group.
    let inputs = weights.len() / taps / to.channels;
    let outputs = to.channels / (from.channels / inputs);
    let mut out = Vec::new();
    for output in 0..to.channels {
        for y in 0..to.height {
            for x in 0..to.width {
                let mut sum = bias[output];
                for (tap, row, column) in covered(from, windows, y, x) {
                    for input in 0..inputs {
                        let weight = weights[(output * inputs + input) * taps + tap];
                        let channel = output / outputs * inputs + input;
                        sum += weight * values[(channel * from.height + row) * from.width + column];
                    }
                }
                out.push(sum);
            }
        }
    }
    out
}

fn pool(
    values: &[f64],
    from: Shape,
    to: Shape,
    windows: Windows,
    take: impl Fn(&[f64], usize) -> f64,
) -> Vec<f64> {
    let mut out = Vec::new();
    for plane in values.chunks(from.height * from.width) {
        for y in 0..to.height {
            for x in 0..to.width {
                let places = covered(from, windows, y, x).into_iter();
                let window: Vec<f64> =
                    places.map(|(_, row, column)| plane[row * from.width + column]).collect();
                out.push(take(&window, windows.kernel[0] * windows.kernel[1]));
            }
        }
    }
    out
}

fn adaptive(values: &[f64], from: Shape, to: Shape) -> Vec<f64> {
    let range = |index: usize, size: usize, windows: usize| {
        index * size / windows..((index + 1) * size).div_ceil(windows)
    };
    let mut out = Vec::new();
    for plane in values.chunks(from.height * from.width) {
        for y in 0..to.height {
            for x in 0..to.width {
                let rows = range(y, from.height, to.height);
                let columns = range(x, from.width, to.width);
                let size = (rows.len() * columns.len()) as f64;
                let row_sum =
                    |row: usize| plane[row * from.width..][columns.clone()].iter().sum::<f64>();
                out.push(rows.map(row_sum).sum::<f64>() / size);
            }
        }
    }
    out
}
