//! A number that stands for all parameters, by which replicas are compared.

/// Tells replicas apart: two that differ in one place never have the same digest, and two that
/// differ in more hardly ever.
pub(super) fn digest(params: &[f32]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    // Four rows of words, each mixed by itself, so that the processor works on all at a time.
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
