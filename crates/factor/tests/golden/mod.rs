//! The inputs of the reference files.

/// Numbers from -1 to 1, by the formula of `factorization.py`.
pub(crate) fn values(count: usize, salt: usize) -> Vec<f32> {
    (0..count as u64)
        .map(|place| {
            let mut x = place.wrapping_add(salt as u64 * 1_000_003);
            x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x ^= x >> 32;
            x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
            x ^= x >> 32;
            (x >> 40) as f32 / 8_388_608.0 - 1.0
        })
        .collect()
}
