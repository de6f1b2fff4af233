//! The hyperbolic tangent of many numbers at once.

use crate::elementwise::each;
use crate::exp::exp;

/// Below this the result is a polynomial; above, `1 - e^-2x` loses no digits.
const SMALL: f32 = 0.625;

/// Replaces every number by its hyperbolic tangent. NaN stays NaN.
///
/// Results are right to two units in the last place, and the same on every processor.
pub fn tanh(values: &mut [f32]) {
    each(
        #[inline(always)]
        || values.iter_mut().for_each(|value| *value = tanh_of(*value)),
    );
}

/// Both formulas are computed and one is kept, so the compiler vectorises the loop around it.
#[inline(always)]
fn tanh_of(x: f32) -> f32 {
    let size = x.abs();
    let square = size * size;
    // The polynomial is that of Cephes.
    let mut sum = -5.704_988_7e-3;
    for term in [2.063_908_8e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
        sum = sum * square + term;
    }
    let small = sum * square * size + size;
    let power = exp(-2.0 * size);
    let large = (1.0 - power) / (1.0 + power);
    let result = if size < SMALL { small } else { large };
    result.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_agree_with_the_library_to_two_units() {
        let mut values: Vec<f32> = (-100_000..100_000).map(|i| i as f32 * 1e-4).collect();
        values.extend([1e-30, -1e-30, 1e-7, 0.624_999_94, 0.625, 0.625_000_06]);
        let before = values.clone();
        tanh(&mut values);
        for (&ours, x) in values.iter().zip(before) {
            let exact = f64::from(x).tanh();
            let unit = f64::from((exact.abs() as f32).next_up()) - f64::from(exact.abs() as f32);
            let error = (f64::from(ours) - exact).abs();
            assert!(error <= 2.0 * unit, "tanh({x}) is {ours}, not {exact}");
        }
    }

    #[test]
    fn far_from_zero_the_result_is_one_with_the_sign_and_nan_stays_nan() {
        let mut values = [9.1, -9.1, 1e30, f32::NEG_INFINITY, f32::INFINITY, 0.0, -0.0, f32::NAN];
        tanh(&mut values);
        assert_eq!(values[..5], [1.0, -1.0, 1.0, -1.0, 1.0]);
        assert_eq!([values[5].to_bits(), values[6].to_bits()], [0.0f32, -0.0].map(f32::to_bits));
        assert!(values[7].is_nan());
    }
}
