//! Activations: ReLU and tanh, value by value, in place.

use super::layer_op::{ElementwiseLayer, LayerPass};
use crate::kernels::each;

/// Values of a piece of work.
const TASK: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    Relu,
    Tanh,
}

impl ElementwiseLayer for Activation {
    fn forward(&self, pass: &mut LayerPass<'_>, y: &mut [f32]) {
        pass.pool.for_each_piece(y, TASK, |_, y| match self {
            // NaN stays NaN.
            Activation::Relu => each(
                #[inline(always)]
                || y.iter_mut().for_each(|y| *y = if *y < 0.0 { 0.0 } else { *y }),
            ),
            Activation::Tanh => y.iter_mut().for_each(|y| *y = y.tanh()),
        });
    }

    fn input_gradient(&self, pass: &mut LayerPass<'_>, y: &[f32], dy: &mut [f32]) {
        pass.pool.for_each_piece(dy, TASK, |task, dy| {
            let pairs = dy.iter_mut().zip(&y[task * TASK..]);
            match self {
                Activation::Relu => each(
                    #[inline(always)]
                    || pairs.for_each(|(dy, y)| *dy = if *y > 0.0 { *dy } else { 0.0 }),
                ),
                Activation::Tanh => each(
                    #[inline(always)]
                    || pairs.for_each(|(dy, y)| *dy *= 1.0 - y * y),
                ),
            }
        });
    }
}
