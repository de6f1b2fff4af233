//! A digest of all parameters, by which replicas are compared.

/// The digest of some parameters: two replicas that differ in one place never have the same, and
/// two that differ in more places hardly ever.
pub(super) fn digest(params: &[f32]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    // Four independent lanes, so that the processor works on all of them at once.
    let mut lanes = [1u64, 2, 3, 4];
    let (blocks, rest) = params.as_chunks::<8>();
    let mix = |lane: u64, word: u64| (lane ^ word).wrapping_mul(ODD).rotate_left(29);
    for block in blocks {
        for (lane, pair) in lanes.iter_mut().zip(block.as_chunks::<2>().0) {
            let word = u64::from(pair[0].to_bits()) | u64::from(pair[1].to_bits()) << 32;
            *lane = mix(*lane, word);
        }
    }
    for value in rest {
        lanes[0] = mix(lanes[0], u64::from(value.to_bits()));
    }
    let all = lanes.into_iter().fold(params.len() as u64, mix);
    // 0 stands for "not due".
    all.max(1)
}

/// The digest of several digests, in this order.
pub(super) fn digest_of(parts: [u64; 3]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |all: u64, part: u64| (all ^ part).wrapping_mul(ODD).rotate_left(29);
    parts.into_iter().fold(1, mix).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_sees_every_single_difference() {
        for len in [1, 2, 7, 8, 9, 16, 31] {
            let params: Vec<f32> = (0..len).map(|i| i as f32 * 0.1).collect();
            for at in 0..len {
                for bit in [0, 15, 31] {
                    let mut other = params.clone();
                    other[at] = f32::from_bits(other[at].to_bits() ^ 1 << bit);
                    assert_ne!(digest(&params), digest(&other), "{len} {at} {bit}");
                }
            }
            assert_ne!(digest(&params), digest(&[&params[..], &[0.0]].concat()));
        }
    }
}
