//! Pseudo-random numbers that are a function of a seed.

/// A hash of a number: the finalizer of SplitMix64.
pub(crate) fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Fills a tensor with values evenly spread between `-bound` and `bound`.
///
/// Equal arguments give equal values. `tensor` tells the tensors of a model apart: it is mixed
/// with the seed, so that they do not start with the same values.
pub fn fill_uniform(seed: u64, tensor: usize, bound: f32, values: &mut [f32]) {
    let key = mixed(mixed(seed) ^ tensor as u64);
    for (place, value) in values.iter_mut().enumerate() {
        // 24 bits, so that every value is exact and both bounds are equally far from the ends.
        let bits = mixed(key.wrapping_add(place as u64)) >> 40;
        *value = (bits as f32 + 0.5) / 8_388_608.0 * bound - bound;
    }
}
