//! Which parameters lie on which server, and in which parts they travel.
//!
//! Shards are cut by bytes, not by tensors: a model whose one matrix holds nearly everything
//! would otherwise leave all servers but one idle. Parts are cut small enough that receiving,
//! applying and sending overlap, and large enough that a frame's header costs nothing.

use std::ops::Range;

/// The most parameters that one part holds: 65,536, or 256 KiB.
pub const PART_FLOATS: usize = 65_536;

/// How many parts a client may have sent to one server without an answer: 32 MiB of gradients.
///
/// A server holds at most this much for each worker, however large the model is.
pub const WINDOW_PARTS: usize = 128;

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

/// Cuts a shard of `shard_len` parameters into parts of at most [`PART_FLOATS`].
///
/// The ranges count from the start of the shard. All parts but the last are full.
pub fn part_ranges(shard_len: usize) -> Vec<Range<usize>> {
    part_ranges_of(shard_len, PART_FLOATS)
}

/// As [`part_ranges`], with another size, so that small tests have several parts.
pub(crate) fn part_ranges_of(shard_len: usize, part_floats: usize) -> Vec<Range<usize>> {
    assert!((1..=PART_FLOATS).contains(&part_floats), "parts of {part_floats} parameters");
    (0..shard_len)
        .step_by(part_floats)
        .map(|start| start..shard_len.min(start + part_floats))
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
        fn parts_are_full_but_the_last(len in 0usize..1_000_000) {
            let parts = part_ranges(len);
            prop_assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), len);
            let full = parts.len().saturating_sub(1);
            prop_assert!(parts[..full].iter().all(|part| part.len() == PART_FLOATS));
            prop_assert!(parts.iter().all(|part| !part.is_empty()));
        }
    }
}
