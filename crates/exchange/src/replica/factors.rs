//! The frames that carry factors of gradients.
//!
//! The factors of a piece, the inputs of all examples followed by the derivatives with respect to
//! the outputs, are one row of numbers, cut into frames of at most a chunk. They travel piece after
//! piece, from the last to the first. Each frame states the number of examples, which determines
//! how many frames there are, and must be the same in all frames of a step.

use std::ops::Range;

use super::peer::{Contribution, FactorPosition};
use super::receive::PeerTarget;
use super::send::{PeerFrame, PeerSource};
use super::state::Replica;
use crate::{Flags, FrameKind, Header, ProtocolError};

impl Replica {
    /// The pieces whose factors travel, in that order.
    fn factor_pieces(&self) -> impl Iterator<Item = usize> {
        let pieces = self.config.pieces.iter().enumerate().rev();
        pieces.filter(|(_, piece)| piece.factors.is_some()).map(|(index, _)| index)
    }

    /// The number of pieces whose factors travel.
    fn factor_count(&self) -> usize {
        self.factor_pieces().count()
    }

    /// The piece of a position and the frame's range of its factors over `examples` examples.
    fn factor_frame(&self, at: FactorPosition, examples: u32) -> Option<(usize, Range<usize>)> {
        let piece = self.factor_pieces().nth(at.nth)?;
        let floats = self.config.pieces[piece].factors?.floats(examples as usize);
        let start = (at.chunk * self.config.chunk_floats).min(floats);
        Some((piece, start..(start + self.config.chunk_floats).min(floats)))
    }

    /// The position after this one, whose frame has this range.
    fn next_position(
        &self,
        at: FactorPosition,
        frame: &Range<usize>,
        total: usize,
    ) -> FactorPosition {
        if frame.end < total {
            FactorPosition { chunk: at.chunk + 1, ..at }
        } else {
            FactorPosition { nth: at.nth + 1, chunk: 0 }
        }
    }

    fn factor_floats(&self, piece: usize, examples: u32) -> usize {
        self.config.pieces[piece].factors.map_or(0, |sizes| sizes.floats(examples as usize))
    }

    /// The next frame with factors for a peer, if there is one and it has been handed in.
    pub(super) fn next_factors(&mut self, peer: usize, own: Contribution) -> Option<PeerFrame> {
        let at = self.peers[peer].progress.factors_sent;
        if own.has_left {
            return None;
        }
        let (piece, range) = self.factor_frame(at, own.examples)?;
        if !self.has_own_factors(piece) {
            return None;
        }
        let total = self.factor_floats(piece, own.examples);
        self.peers[peer].progress.factors_sent = self.next_position(at, &range, total);
        let header = self.step_header(FrameKind::Factors, at.chunk, range.len());
        let (count, version, sequence) = (own.examples, own.digest, piece as u64);
        let header = Header { flags: own.flags(), count, version, sequence, ..header };
        Some(PeerFrame { header, source: PeerSource::Factors { piece, range } })
    }

    /// Checks the header of a frame with factors.
    pub(super) fn expect_factors(
        &self,
        peer: usize,
        header: &Header,
    ) -> Result<PeerTarget, ProtocolError> {
        if self.is_early(FrameKind::Factors, header)? {
            return Ok(PeerTarget::Later);
        }
        let Header { chunk, len, flags, count, sequence, .. } = *header;
        let wrong = ProtocolError::Factors { piece: sequence, chunk, examples: count, len };
        let at = self.peers[peer].progress.factors_received;
        let known = self.peers[peer].contribution;
        let fits_known = known.is_none_or(|its| !its.has_left && its.examples == count);
        let fits_batch = count > 0 && count as usize <= self.config.batch;
        let decides = flags.contains(Flags::STOP) || flags.contains(Flags::CHECKPOINT);
        if !fits_known || !fits_batch || (decides && peer != super::peer::COORDINATOR) {
            return Err(wrong);
        }
        let Some((piece, range)) = self.factor_frame(at, count) else { return Err(wrong) };
        let is_next = (sequence, chunk as usize) == (piece as u64, at.chunk);
        if !is_next || len as usize != range.len() * 4 || self.pieces.is_empty() {
            return Err(wrong);
        }
        Ok(PeerTarget::Factors { piece, range })
    }

    /// A frame with factors arrived.
    pub(super) fn factors_arrived(&mut self, peer: usize, header: &Header) {
        self.contribution_arrived(peer, header);
        let at = self.peers[peer].progress.factors_received;
        if let Some((piece, range)) = self.factor_frame(at, header.count) {
            let total = self.factor_floats(piece, header.count);
            self.peers[peer].progress.factors_received = self.next_position(at, &range, total);
        }
    }

    /// Whether all factors have been sent to a peer, as far as this worker has any.
    pub(super) fn has_sent_factors(&self, peer: usize) -> bool {
        self.step.is_some_and(|step| step.own.has_left)
            || self.peers[peer].progress.factors_sent.nth == self.factor_count()
    }

    /// Whether all factors of a peer have arrived.
    pub(super) fn has_received_factors(&self, peer: usize) -> bool {
        self.peers[peer].contribution.is_some_and(|its| its.has_left)
            || self.peers[peer].progress.factors_received.nth == self.factor_count()
    }

    /// Whether the factors of a piece are here from every worker that has any.
    pub(super) fn has_all_factors(&self, piece: usize) -> bool {
        let nth = self.factor_pieces().position(|other| other == piece);
        let own = self.step.is_some_and(|step| step.own.has_left) || self.has_own_factors(piece);
        own && self.others().all(|peer| {
            let peer = &self.peers[peer];
            let has_left = peer.contribution.is_some_and(|its| its.has_left);
            has_left || nth.is_some_and(|nth| peer.progress.factors_received.nth > nth)
        })
    }
}
