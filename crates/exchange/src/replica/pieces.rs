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

use super::peer::PieceProgress;
use super::state::Replica;
use super::step_piece::StepPiece;
use crate::mean::weight;

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

    /// Whether a piece of the current step has not been handed in.
    pub fn awaits_pieces(&self) -> bool {
        let has_left = self.step.is_some_and(|step| step.own.has_left);
        self.pieces.iter().any(|piece| !piece.has_gradient && !has_left)
    }

    /// Whether anything of the current step has not been handed in: a gradient, factors or the
    /// memory of an output.
    pub fn awaits_hand_in(&self) -> bool {
        let pieces = self.pieces.iter().zip(&self.config.pieces);
        let mut outputs = pieces.filter(|(_, piece)| piece.factors.is_none());
        self.awaits_pieces() || outputs.any(|(progress, _)| !progress.has_output)
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

    /// The workers that contribute to the current step, in slot order, as far as is known.
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
