//! Tests of what is not seen from outside.

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

#[test]
fn every_shard_has_a_chunk_and_chunks_leave_nothing_out() {
    for (total, workers, chunk) in [(0, 3, 4), (2, 3, 4), (10, 3, 2), (61, 2, 7)] {
        let shards = shard_ranges(total, workers);
        let chunks: Vec<_> = shards.iter().flat_map(|shard| cut(shard, chunk)).collect();
        assert!(chunks.len() >= workers);
        let ends = chunks.iter().map(|chunk| chunk.end);
        let starts = chunks.iter().map(|chunk| chunk.start).skip(1).chain([total]);
        assert!(ends.eq(starts), "{chunks:?}");
    }
}
