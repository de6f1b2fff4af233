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
mod tests;
