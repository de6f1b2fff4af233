//! Which chunks there are, which slot owns them, and the order in which they travel.

use std::ops::Range;

use super::config::ReplicaConfig;
use crate::shard::chunk_ranges;
use crate::shard_ranges;

/// The chunks of each slot's shard, as ranges of all parameters, in the order in which they travel.
/// An owner has at least one, which may be empty, so that every worker hears from every owner in
/// every step; a worker that owns no shard has none.
pub(super) fn chunk_plan(config: &ReplicaConfig, total: usize) -> Vec<Vec<Range<usize>>> {
    let mut plan = owned_chunks(config, total);
    plan.resize(config.names.len(), Vec::new());
    plan
}

/// The chunks of each owner's shard.
fn owned_chunks(config: &ReplicaConfig, total: usize) -> Vec<Vec<Range<usize>>> {
    let owners = config.owners(total);
    if config.is_whole(total) {
        return (0..owners).map(|_| shard_chunks(&(0..total), config)).collect();
    }
    if config.pieces.is_empty() {
        let shards = shard_ranges(total, owners);
        return shards.iter().map(|shard| shard_chunks(shard, config)).collect();
    }
    // Shards divide the parameters that have no factors, as if these followed each other.
    let sent = || config.sent_pieces();
    let shards = shard_ranges(sent().map(|piece| piece.range.len()).sum(), owners);
    let chunks_of = |shard: &Range<usize>| {
        let (mut by_piece, mut before) = (Vec::new(), 0);
        for piece in sent() {
            let from = shard.start.clamp(before, before + piece.range.len()) - before;
            let to = shard.end.clamp(before, before + piece.range.len()) - before;
            if from < to {
                let start = piece.range.start;
                by_piece.push(shard_chunks(&(start + from..start + to), config));
            }
            before += piece.range.len();
        }
        let mut chunks: Vec<_> = by_piece.into_iter().rev().flatten().collect();
        if chunks.is_empty() {
            chunks.push(0..0);
        }
        chunks
    };
    shards.iter().map(chunks_of).collect()
}

/// The chunks of a contiguous range, as ranges of all parameters.
fn shard_chunks(shard: &Range<usize>, config: &ReplicaConfig) -> Vec<Range<usize>> {
    let mut chunks = chunk_ranges(shard.len(), config.chunk_floats);
    for chunk in &mut chunks {
        *chunk = shard.start + chunk.start..shard.start + chunk.end;
    }
    if chunks.is_empty() {
        chunks.push(shard.start..shard.start);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use paceline_model::FactorSizes;

    use super::super::step_piece::StepPiece;
    use super::*;

    fn config(workers: usize, chunk_floats: usize, pieces: Vec<StepPiece>) -> ReplicaConfig {
        let base = ReplicaConfig::new(0, workers);
        ReplicaConfig { chunk_floats, owner_floats: 1, pieces, ..base }
    }

    #[test]
    fn a_small_model_has_as_many_owners_as_shards_of_64_kib() {
        let owners = |workers, total| {
            let config = ReplicaConfig::new(0, workers);
            let plan = chunk_plan(&config, total);
            assert_eq!(plan.len(), workers);
            plan.iter().filter(|chunks| !chunks.is_empty()).count()
        };
        let found = [(3, 7_850), (64, 7_850), (64, 40_000), (4, 40_000), (64, 2_000_000)];
        assert_eq!(found.map(|(workers, total)| owners(workers, total)), [1, 1, 3, 3, 64]);
        assert_eq!(owners(2, 7_850), 2, "two workers own the whole model each");
        let rounded = ReplicaConfig { wire: crate::WireFormat::Bf16, ..ReplicaConfig::new(0, 8) };
        assert_eq!(rounded.owners(10), 8);
    }

    #[test]
    fn where_some_workers_own_nothing_the_shards_of_a_checkpoint_still_cover_everything() {
        for recovers in [false, true] {
            let mut end = 0;
            for slot in 0..9 {
                let config = ReplicaConfig { recovers, ..ReplicaConfig::new(slot, 9) };
                let shard = config.shard(40_000);
                assert_eq!(shard.start, end);
                end = shard.end;
                let updates = config.updates(40_000);
                assert!(shard.is_empty() || updates.start <= shard.start && end <= updates.end);
            }
            assert_eq!(end, 40_000);
        }
    }

    #[test]
    fn every_owner_has_a_chunk_and_the_chunks_cover_everything() {
        for (total, workers, floats) in [(0, 3, 4), (2, 3, 4), (10, 3, 2), (61, 2, 7)] {
            let plan = chunk_plan(&config(workers, floats, Vec::new()), total);
            let owners = total.clamp(1, workers);
            let owned = plan.iter().map(|chunks| !chunks.is_empty());
            assert!(owned.eq((0..workers).map(|slot| slot < owners)), "{plan:?}");
            let chunks: Vec<_> = plan.into_iter().flatten().collect();
            let ends = chunks.iter().map(|chunk| chunk.end);
            let starts = chunks.iter().map(|chunk| chunk.start).skip(1).chain([total]);
            assert!(ends.eq(starts), "{chunks:?}");
        }
    }

    #[test]
    fn chunks_of_pieces_travel_from_the_last_piece_and_do_not_cross_a_boundary() {
        let sizes = FactorSizes { inputs: 4, outputs: 2 };
        let piece = |range, factors| StepPiece { range, factors };
        let pieces = vec![piece(0..7, None), piece(7..17, Some(sizes)), piece(17..22, None)];
        let plan = chunk_plan(&config(2, 3, pieces.clone()), 22);
        assert_eq!(plan, [vec![0..3, 3..6], vec![17..20, 20..22, 6..7]]);
        let all_factors: Vec<_> =
            pieces.iter().map(|p| piece(p.range.clone(), Some(sizes))).collect();
        let plan = chunk_plan(&config(2, 3, all_factors), 22);
        assert!(plan.iter().all(|chunks| chunks.len() == 1 && chunks[0].is_empty()), "{plan:?}");
    }

    #[test]
    fn where_gradients_travel_as_changes_a_worker_saves_the_shard_of_its_chunks() {
        let sizes = FactorSizes { inputs: 4, outputs: 2 };
        let piece = |range, factors| StepPiece { range, factors };
        for pieces in [
            vec![piece(0..7, None), piece(7..17, Some(sizes)), piece(17..22, None)],
            vec![piece(0..10, Some(sizes)), piece(10..12, None), piece(12..22, Some(sizes))],
            vec![piece(0..22, Some(sizes))],
            vec![piece(0..9, None), piece(9..22, None)],
        ] {
            for workers in 1..5 {
                let mut config = config(workers, 3, pieces.clone());
                config.wire = crate::WireFormat::Bf16;
                let plan = chunk_plan(&config, 22);
                let mut end = 0;
                for (slot, chunks) in plan.iter().enumerate() {
                    config.slot = slot;
                    let shard = config.shard(22);
                    assert_eq!(shard.start, end, "{pieces:?}");
                    end = shard.end;
                    let inside = |chunk: &Range<usize>| {
                        chunk.is_empty() || shard.start <= chunk.start && chunk.end <= shard.end
                    };
                    assert!(chunks.iter().all(inside), "{chunks:?} in {shard:?}");
                }
                assert_eq!(end, 22, "{pieces:?}");
            }
        }
    }
}
