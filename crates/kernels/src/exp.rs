//! The exponential function of many numbers at once.

use crate::elementwise::each;

/// Below this the result is zero: the exact one would be close to the least normal float.
const LEAST: f32 = -87.0;

/// Replaces every number, which must not be above 0, by its exponential. NaN stays NaN.
///
/// Results are right to two units in the last place, and the same on every processor.
pub fn exp_below_zero(values: &mut [f32]) {
    each(
        #[inline(always)]
        || values.iter_mut().for_each(|value| *value = exp(*value)),
    );
}

/// `2^n * e^r` with a whole `n` and a small `r`: the first is an exponent, the second a short
/// polynomial. It has no branches, so the compiler vectorises the loop around it.
#[inline(always)]
#[expect(clippy::excessive_precision, reason = "the digits that the halves of ln 2 have")]
pub(crate) fn exp(x: f32) -> f32 {
    // Added to a small number, this moves its whole part into the lowest bits.
    const SHIFT: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_375;
    const LN_2_LOW: f32 = -2.121_944_40e-4;
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let mut sum = 1.0 / 5_040.0;
    for term in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * r + term;
    }
    let result = f32::from_bits(sum.to_bits().wrapping_add(shifted.to_bits() << 23));
    if x < LEAST {
        0.0
    } else if x >= LEAST {
        result
    } else {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_agree_with_the_library_to_two_units() {
        let mut values: Vec<f32> = (0..87_000).map(|i| i as f32 * -0.001).collect();
        values.extend([-0.0, -1e-30, -1e-7]);
        let exact: Vec<f64> = values.iter().map(|&x| f64::from(x).exp()).collect();
        let before = values.clone();
        exp_below_zero(&mut values);
        for ((&ours, &exact), x) in values.iter().zip(&exact).zip(before) {
            let unit = f64::from((exact as f32).next_up()) - f64::from(exact as f32);
            assert!(
                (f64::from(ours) - exact).abs() <= 2.0 * unit,
                "exp({x}) is {ours}, not {exact}"
            );
        }
    }

    #[test]
    fn far_below_zero_the_result_is_zero_and_nan_stays_nan() {
        let mut values = [-87.1, -1e30, f32::NEG_INFINITY, f32::NAN, 0.0];
        exp_below_zero(&mut values);
        assert_eq!(values[..3], [0.0; 3]);
        assert!(values[3].is_nan());
        assert_eq!(values[4], 1.0);
    }
}
