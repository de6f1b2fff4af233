//! Activations: ReLU and tanh, value by value, where they lie.

use super::stage::{Map, Pass};
use crate::kernels::each;

/// Values that a task takes.
const TASK: usize = 16 * 1024;

/// An activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    Relu,
    Tanh,
}

impl Map for Activation {
    fn forward(&self, pass: &mut Pass<'_>, y: &mut [f32]) {
        pass.crew.each(y, TASK, |_, y| match self {
            // What is not a number stays so.
            Activation::Relu => each(
                #[inline(always)]
                || y.iter_mut().for_each(|y| *y = if *y < 0.0 { 0.0 } else { *y }),
            ),
            Activation::Tanh => y.iter_mut().for_each(|y| *y = y.tanh()),
        });
    }

    fn back(&self, pass: &mut Pass<'_>, y: &[f32], dy: &mut [f32]) {
        pass.crew.each(dy, TASK, |task, dy| {
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
