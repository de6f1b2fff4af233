//! The numbers that an entry starts from.

use crate::seed::mixed;

/// Fills the vectors of a key's entry with its initial values: bell-shaped, with mean 0 and the
/// given standard deviation.
///
/// A value depends on the seed, the key and its dimension alone, so every process computes the same
/// ones, and an entry need not exist before a row touches it. It is the sum of four uniform numbers
/// and stays within 3.47 deviations, with the same bits on every processor.
///
/// ```
/// use paceline_model::initial_vector;
///
/// let (mut whole, mut start) = ([0.0; 8], [0.0; 3]);
/// initial_vector(1, 4_711, 0.01, &mut whole);
/// initial_vector(1, 4_711, 0.01, &mut start);
/// assert_eq!(start, whole[..3]);
/// ```
pub fn initial_vector(seed: u64, key: u64, deviation: f32, vector: &mut [f32]) {
    // The seed is hashed twice, so that these numbers are not those of a dense tensor.
    let base = mixed(mixed(mixed(seed)) ^ key);
    // Four uniform numbers from 0 to 65,535 have the mean 131,070 and, together, the deviation
    // 65,536 / sqrt(3), to nine digits.
    let scale = deviation * (1.732_050_8 / 65_536.0);
    for (value, dimension) in vector.iter_mut().zip(0u64..) {
        let bits = mixed(base.wrapping_add(dimension));
        let sum: i32 = (0..4).map(|lane| (bits >> (16 * lane)) as i32 & 0xffff).sum();
        *value = (sum - 131_070) as f32 * scale;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_values_are_those_of_seed_key_and_dimension_and_have_the_deviation() {
        let draw = |seed, key| {
            let mut vector = [0.0; 8];
            initial_vector(seed, key, 0.01, &mut vector);
            vector
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert!(draw(1, 2) != draw(2, 1) && draw(1, 2) != draw(1, 3));
        let all: Vec<f64> = (0..50_000).flat_map(|key| draw(7, key)).map(f64::from).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64;
        assert!(mean.abs() < 1e-4, "{mean}");
        assert!((variance.sqrt() / 0.01 - 1.0).abs() < 0.01, "{variance}");
        // Equal seeds give equal bits on every machine, and in every version.
        let bits: Vec<u32> = draw(1, 2)[..2].iter().map(|number| number.to_bits()).collect();
        assert_eq!(bits, [3_147_785_872, 3_113_120_161]);
    }
}
