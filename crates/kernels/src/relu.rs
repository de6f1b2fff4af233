//! ReLU: zeroes what is below zero.

use crate::elementwise::each;

/// Values that are copied before they are changed. Where a value is kept or zeroed in its place,
/// the compiler stores parts of vectors, which is many times slower than to store whole ones.
const COPIED: usize = 512;

/// Replaces every number below zero by zero. NaN stays NaN.
pub fn relu(values: &mut [f32]) {
    each(
        #[inline(always)]
        || zero_negative(values),
    );
}

/// Turns the gradient by the results into that by the arguments, given the results.
pub fn relu_gradient(results: &[f32], gradient: &mut [f32]) {
    each(
        #[inline(always)]
        || keep_positive(results, gradient),
    );
}

#[inline(always)]
fn zero_negative(y: &mut [f32]) {
    let mut copied = [0.0; COPIED];
    for y in y.chunks_mut(COPIED) {
        let copied = &mut copied[..y.len()];
        copied.copy_from_slice(y);
        y.iter_mut().zip(&*copied).for_each(|(y, x)| *y = if *x < 0.0 { 0.0 } else { *x });
    }
}

#[inline(always)]
fn keep_positive(y: &[f32], dy: &mut [f32]) {
    let mut copied = [0.0; COPIED];
    for (y, dy) in y.chunks(COPIED).zip(dy.chunks_mut(COPIED)) {
        let copied = &mut copied[..dy.len()];
        copied.copy_from_slice(dy);
        for ((dy, before), y) in dy.iter_mut().zip(&*copied).zip(y) {
            *dy = if *y > 0.0 { *before } else { 0.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_negative_becomes_zero_and_nan_stays() {
        // Longer than what is copied at a time.
        let len = 2 * COPIED + 3;
        let mut y: Vec<f32> = (0..len).map(|i| i as f32 - COPIED as f32).collect();
        (y[0], y[len - 1]) = (f32::NAN, -f32::NAN);
        let mut dy = vec![1.0; len];
        relu(&mut y);
        relu_gradient(&y, &mut dy);
        assert!(y[0].is_nan() && y[len - 1].is_nan());
        for i in 1..len - 1 {
            let kept = i.saturating_sub(COPIED) as f32;
            assert_eq!((y[i], dy[i]), (kept, if kept > 0.0 { 1.0 } else { 0.0 }), "{i}");
        }
    }
}
