//! A step in pieces: what may travel before the whole gradient is known.
//!
//! The parameters are cut into pieces, one for each layer, and the computing thread hands in the
//! gradient of one piece after the other, the last one first. So chunks do not cross the
//! boundaries of pieces, and every worker sends, sums and answers them in the order in which they
//! are handed in: piece after piece from the last to the first. The order is part of the plan, the
//! same on all workers. Thus a chunk is found by its index as in a step at once, and a worker holds
//! no more than one chunk of each peer.
//!
//! The gradient of some pieces is not sent at all. Every worker sends every other the two factors
//! of it ([`FrameKind::Factors`](crate::FrameKind::Factors)), and each computes the mean of all
//! gradients itself. All other parameters are divided among the workers as usual.

use std::ops::Range;

use paceline_model::FactorSizes;

use super::config::ReplicaConfig;
use super::state::Replica;
use crate::mean::weight;
use crate::shard::chunk_ranges;
use crate::shard_ranges;

/// A piece of the parameters that is handed in as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPiece {
    /// Its range of the flat parameters. Pieces follow each other without gaps.
    pub range: Range<usize>,
    /// The sizes of its factors, if these travel instead of the gradient.
    pub factors: Option<FactorSizes>,
}

/// What a step in pieces has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletedPiece {
    /// The output of this piece will not change any more in this step.
    Output(usize),
    /// The factors of all workers that have any for this piece are here.
    Factors(usize),
}

/// A worker's part in the mean of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contributor {
    /// Its slot.
    pub slot: usize,
    /// The number of examples of its gradient.
    pub examples: u32,
    /// The weight of its gradient.
    pub weight: f32,
}

/// How far a piece of the present step is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PieceProgress {
    /// Its gradient or its factors have been handed in.
    has_gradient: bool,
    /// Its output may be written.
    has_output: bool,
    /// Chunks whose output is still to come.
    outputs_left: usize,
    /// The completion has been reported.
    is_reported: bool,
}

/// The chunks of each slot's shard, as ranges of all parameters, in the order in which they travel;
/// at least one each, which may be empty, so that every worker hears from every other in every step.
pub(super) fn chunk_plan(config: &ReplicaConfig, total: usize) -> Vec<Vec<Range<usize>>> {
    let workers = config.names.len();
    if config.is_whole(total) {
        return (0..workers).map(|_| shard_chunks(&(0..total), config)).collect();
    }
    if config.pieces.is_empty() {
        let shards = shard_ranges(total, workers);
        return shards.iter().map(|shard| shard_chunks(shard, config)).collect();
    }
    // Shards divide the parameters that have no factors, as if these followed each other.
    let sent = || config.pieces.iter().filter(|piece| piece.factors.is_none());
    let shards = shard_ranges(sent().map(|piece| piece.range.len()).sum(), workers);
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
        let chunks: Vec<_> = by_piece.into_iter().rev().flatten().collect();
        if chunks.is_empty() { vec![0..0] } else { chunks }
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

impl Replica {
    /// Begins a step as [`Replica::begin_step`] does, whose gradient, factors and outputs will be
    /// handed in piece by piece.
    ///
    /// # Panics
    /// In the same cases, or if the replica has no pieces.
    pub fn begin_step_in_pieces(&mut self, examples: Option<u32>) {
        assert!(!self.config.pieces.is_empty(), "the replica has no pieces");
        self.begin_step(examples);
        let progress = |piece: &StepPiece| {
            let is_inside =
                |chunk: &&Range<usize>| !chunk.is_empty() && piece.range.contains(&chunk.start);
            let outputs_left = self.chunks.iter().flatten().filter(is_inside).count();
            PieceProgress { outputs_left, ..PieceProgress::default() }
        };
        self.pieces = self.config.pieces.iter().map(progress).collect();
    }

    /// The gradient or the factors of a piece may be read from now on.
    pub fn gradient_handed_in(&mut self, piece: usize) {
        self.pieces[piece].has_gradient = true;
    }

    /// The output of a piece may be written from now on.
    pub fn output_handed_in(&mut self, piece: usize) {
        self.pieces[piece].has_output = true;
    }

    /// Whether a piece of the present step has not been handed in.
    pub fn awaits_pieces(&self) -> bool {
        let has_left = self.step.is_some_and(|step| step.own.has_left);
        self.pieces.iter().any(|piece| !piece.has_gradient && !has_left)
    }

    /// What the step has completed since the last call; each piece is reported once. The caller
    /// may then read its memory, and so may the replica.
    pub fn next_completed(&mut self) -> Option<CompletedPiece> {
        let is_new = |piece: &usize| {
            let progress = self.pieces[*piece];
            !progress.is_reported
                && if self.config.pieces[*piece].factors.is_some() {
                    self.has_all_factors(*piece)
                } else {
                    progress.outputs_left == 0
                }
        };
        let piece = (0..self.pieces.len()).find(is_new)?;
        self.pieces[piece].is_reported = true;
        let is_factor = self.config.pieces[piece].factors.is_some();
        Some(if is_factor { CompletedPiece::Factors(piece) } else { CompletedPiece::Output(piece) })
    }

    /// The workers that contribute to the present step, in slot order, as far as is known.
    pub fn contributors(&self) -> impl Iterator<Item = Contributor> {
        let examples = |slot: usize| {
            let contribution = self.contribution(slot).filter(|its| !its.has_left)?;
            Some(contribution.examples)
        };
        let slots = 0..self.peers.len();
        let total = slots.clone().filter_map(examples).map(u64::from).sum();
        let count = slots.clone().filter_map(examples).count();
        slots.filter_map(move |slot| {
            let examples = examples(slot)?;
            Some(Contributor { slot, examples, weight: weight(examples, total, count) })
        })
    }

    /// The piece that a chunk belongs to; `None` for an empty chunk, and in a step at once.
    fn piece_of(&self, chunk: &Range<usize>) -> Option<usize> {
        if self.pieces.is_empty() || chunk.is_empty() {
            return None;
        }
        Some(self.config.pieces.partition_point(|piece| piece.range.end <= chunk.start))
    }

    /// Whether the gradient of a chunk may be read.
    pub(super) fn has_own_gradient(&self, chunk: &Range<usize>) -> bool {
        self.piece_of(chunk).is_none_or(|piece| self.pieces[piece].has_gradient)
    }

    /// Whether the output of a chunk may be written.
    pub(super) fn may_write(&self, chunk: &Range<usize>) -> bool {
        self.piece_of(chunk).is_none_or(|piece| self.pieces[piece].has_output)
    }

    /// Whether this worker's factors of a piece may be read.
    pub(super) fn has_own_factors(&self, piece: usize) -> bool {
        self.pieces.get(piece).is_none_or(|piece| piece.has_gradient)
    }

    /// The output of a chunk has been written.
    pub(super) fn output_written(&mut self, chunk: &Range<usize>) {
        if let Some(piece) = self.piece_of(chunk) {
            self.pieces[piece].outputs_left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(workers: usize, chunk_floats: usize, pieces: Vec<StepPiece>) -> ReplicaConfig {
        ReplicaConfig { chunk_floats, pieces, ..ReplicaConfig::new(0, workers) }
    }

    #[test]
    fn every_shard_has_a_chunk_and_the_chunks_cover_everything() {
        for (total, workers, floats) in [(0, 3, 4), (2, 3, 4), (10, 3, 2), (61, 2, 7)] {
            let plan = chunk_plan(&config(workers, floats, Vec::new()), total);
            assert!(plan.iter().all(|chunks| !chunks.is_empty()));
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
        assert_eq!(chunk_plan(&config(2, 3, all_factors), 22), [vec![0..0], vec![0..0]]);
    }
}
