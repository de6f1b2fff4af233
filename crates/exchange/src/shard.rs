//! The division of the parameters into shards and chunks.
//!
//! Shards have equal numbers of bytes and ignore tensor boundaries: a model whose one matrix holds
//! nearly everything would otherwise leave all servers but one idle. Chunks are small enough that
//! receiving, applying and sending overlap, and so large that a frame's header costs nothing.

use std::ops::Range;

/// The most parameters in one chunk: 65,536, or 256 KiB.
pub const CHUNK_FLOATS: usize = 65_536;

/// The most chunks that a client may have sent to one server without an answer: 32 MiB of
/// gradients. Beyond it, only the last unanswered chunk of the shard may be sent.
///
/// A server holds at most this much and one chunk per worker, however large the model is.
pub const WINDOW_CHUNKS: usize = 128;

/// The most workers in one run.
pub const MAX_WORKERS: usize = 1024;

/// Divides `total` parameters into one contiguous range per server.
///
/// The lengths of the ranges differ by at most one; the longer ones come first.
///
/// ```
/// assert_eq!(paceline_exchange::shard_ranges(10, 3), [0..4, 4..7, 7..10]);
/// ```
///
/// # Panics
/// If there are no servers.
pub fn shard_ranges(total: usize, servers: usize) -> Vec<Range<usize>> {
    assert!(servers > 0, "a run has at least one server");
    let (each, longer) = (total / servers, total % servers);
    let start = |index: usize| index * each + index.min(longer);
    (0..servers).map(|index| start(index)..start(index + 1)).collect()
}

/// Divides a shard of `shard_len` parameters into chunks of `chunk_floats`.
///
/// The ranges count from the start of the shard. All chunks are full except the last.
pub(crate) fn chunk_ranges(shard_len: usize, chunk_floats: usize) -> Vec<Range<usize>> {
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
        fn shards_are_equal_and_cover_everything(
            total in 0usize..10_000_000, servers in 1usize..50,
        ) {
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
            let chunks = chunk_ranges(len, CHUNK_FLOATS);
            prop_assert_eq!(chunks.iter().map(|chunk| chunk.len()).sum::<usize>(), len);
            let full = chunks.len().saturating_sub(1);
            prop_assert!(chunks[..full].iter().all(|chunk| chunk.len() == CHUNK_FLOATS));
            prop_assert!(chunks.iter().all(|chunk| !chunk.is_empty()));
        }
    }
}
