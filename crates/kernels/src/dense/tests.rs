//! Dense layers in all directions.

use super::*;
use crate::output_mode::OutputMode;

/// Values that are exact in any order of summing, so kernels can be compared bit for bit.
fn small_whole(len: usize, salt: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7 + salt * 13) % 11) as f32 - 5.0).collect()
}

fn check(batch: usize, inputs: usize, outputs: usize) {
    let x = small_whole(batch * inputs, 1);
    let weights = small_whole(outputs * inputs, 2);
    let bias = small_whole(outputs, 3);
    let mut out = vec![f32::NAN; batch * outputs];
    dense_forward(inputs, &x, &weights, &bias, &mut out);
    for b in 0..batch {
        for o in 0..outputs {
            let dot: f32 = (0..inputs).map(|i| x[b * inputs + i] * weights[o * inputs + i]).sum();
            assert_eq!(out[b * outputs + o], dot + bias[o], "{batch}x{inputs}x{outputs}: {b},{o}");
        }
    }
    let delta = small_whole(batch * outputs, 4);
    let mut grad = vec![f32::NAN; outputs * inputs];
    dense_backward_weights(inputs, outputs, &x, &delta, OutputMode::Overwrite, &mut grad);
    let mut twice = grad.clone();
    dense_backward_weights(inputs, outputs, &x, &delta, OutputMode::Add, &mut twice);
    for o in 0..outputs {
        for i in 0..inputs {
            assert_eq!(twice[o * inputs + i], 2.0 * grad[o * inputs + i]);
            let sum: f32 = (0..batch).map(|b| x[b * inputs + i] * delta[b * outputs + o]).sum();
            assert_eq!(grad[o * inputs + i], sum, "{batch}x{inputs}x{outputs}: {o},{i}");
        }
    }
    let (mut bias_grad, mut dx) = (vec![f32::NAN; outputs], vec![f32::NAN; batch * inputs]);
    dense_backward_bias(&delta, OutputMode::Overwrite, &mut bias_grad);
    for (o, got) in bias_grad.iter().enumerate() {
        assert_eq!(*got, (0..batch).map(|b| delta[b * outputs + o]).sum::<f32>());
    }
    dense_backward_inputs(inputs, &weights, &delta, &mut dx);
    for (at, got) in dx.iter().enumerate() {
        let (b, i) = (at / inputs, at % inputs);
        let terms = (0..outputs).map(|o| delta[b * outputs + o] * weights[o * inputs + i]);
        assert_eq!(*got, terms.sum::<f32>(), "{batch}x{inputs}x{outputs}: {b},{i}");
    }
}

#[test]
fn all_directions_equal_the_plain_sums_at_odd_sizes() {
    for batch in [1, 2, 3, 10, 67] {
        for inputs in [1, 7, 8, 9, 16, 24, 31, 312, 784] {
            for outputs in [1, 2, 4, 5, 6, 10, 11, 64] {
                check(batch, inputs, outputs);
            }
        }
    }
}
