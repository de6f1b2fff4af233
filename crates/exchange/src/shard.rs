//! Which parameters lie on which server, and in which chunks they travel.
//!
//! Shards are cut by bytes, not by tensors: a model whose one matrix holds nearly everything
//! would otherwise leave all servers but one idle. Chunks are cut small enough that receiving,
//! applying and sending overlap, and large enough that a frame's header costs nothing.

use std::ops::Range;

/// The most parameters that one chunk holds: 65,536, or 256 KiB.
pub const CHUNK_FLOATS: usize = 65_536;

/// How many chunks a client may have sent to one server without an answer: 32 MiB of gradients.
///
/// A server holds at most this much for each worker, however large the model is.
pub const WINDOW_CHUNKS: usize = 128;

/// The most workers that one run may have.
pub const MAX_WORKERS: usize = 1024;

/// Cuts `total` parameters into one contiguous range for each server.
///
/// The ranges differ by at most one parameter in length, the longer ones first.
///
/// # Panics
/// If there are no servers.
pub fn shard_ranges(total: usize, servers: usize) -> Vec<Range<usize>> {
    assert!(servers > 0, "a run has at least one server");
    let (each, longer) = (total / servers, total % servers);
    let start = |index: usize| index * each + index.min(longer);
    (0..servers).map(|index| start(index)..start(index + 1)).collect()
}

/// Cuts a shard of `shard_len` parameters into chunks of at most [`CHUNK_FLOATS`].
///
/// The ranges count from the start of the shard. All chunks but the last are full.
pub fn chunk_ranges(shard_len: usize) -> Vec<Range<usize>> {
    chunk_ranges_of(shard_len, CHUNK_FLOATS)
}

/// As [`chunk_ranges`], with another size, so that small tests have several chunks.
pub(crate) fn chunk_ranges_of(shard_len: usize, chunk_floats: usize) -> Vec<Range<usize>> {
    assert!((1..=CHUNK_FLOATS).contains(&chunk_floats), "chunks of {chunk_floats} parameters");
    (0..shard_len)
        .step_by(chunk_floats)
        .map(|start| start..shard_len.min(start + chunk_floats))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shards_are_equal_and_leave_nothing_out(total in 0usize..10_000_000, servers in 1usize..50) {
            let shards = shard_ranges(total, servers);
            prop_assert_eq!(shards.len(), servers);
            prop_assert_eq!(shards[0].start, 0);
            prop_assert_eq!(shards[servers - 1].end, total);
            for pair in shards.windows(2) {
                prop_assert_eq!(pair[0].end, pair[1].start);
                prop_assert!(pair[0].len() - pair[1].len() <= 1);
            }
        }

        #[test]
        fn all_chunks_but_the_last_are_full(len in 0usize..1_000_000) {
            let chunks = chunk_ranges(len);
            prop_assert_eq!(chunks.iter().map(|chunk| chunk.len()).sum::<usize>(), len);
            let full = chunks.len().saturating_sub(1);
            prop_assert!(chunks[..full].iter().all(|chunk| chunk.len() == CHUNK_FLOATS));
            prop_assert!(chunks.iter().all(|chunk| !chunk.is_empty()));
        }
    }
}
