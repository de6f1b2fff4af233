//! What a replica that is behind gets from one that is not.
//!
//! The state is cut into columns, each as long as the parameters: these themselves, the slots of
//! the optimizer, and the mean of the last step. Who comes new gets all of them. Who is only a step
//! behind gets the mean, and makes the step itself: until that is whole its replica stays as it
//! was. The mean is there because nobody can have begun to overwrite it: that takes a share of the
//! one that is behind.

use std::ops::Range;

use super::regroup::Position;
use super::{PeerFrame, PeerSource, PeerTarget, Replica, ReplicaError, ReplicaEvent};
use crate::{Flags, FrameKind, Header, ProtocolError};

/// Somebody sends what is missing here.
#[derive(Clone, Debug)]
pub(super) struct Behind {
    pub(super) donor: usize,
    /// Where the replica will be.
    position: Position,
    /// The column and the piece that come next; none before the first.
    next: Option<(usize, usize)>,
}

impl Behind {
    pub(super) fn new(donor: usize, position: Position) -> Self {
        Self { donor, position, next: None }
    }
}

/// What a peer still has to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    /// The column and the piece that go next.
    column: usize,
    piece: usize,
    /// The column behind the last one.
    end: usize,
}

impl Replica {
    /// The column of the mean: behind the parameters and the slots.
    fn mean_column(&self) -> usize {
        1 + self.optimizer.states().count()
    }

    /// How many pieces a column has.
    fn pieces(&self) -> usize {
        self.params.len().div_ceil(self.config.chunk_floats).max(1)
    }

    fn piece(&self, piece: usize) -> Range<usize> {
        let (floats, total) = (self.config.chunk_floats, self.params.len());
        (piece * floats).min(total)..((piece + 1) * floats).min(total)
    }

    /// Finds out what a peer has to be sent, if it is behind.
    pub(super) fn owe(&mut self, peer: usize) {
        let theirs = self.peers[peer].position.map(|position| position.step);
        let mean = self.mean_column();
        let has_mean = self.mean_of.is_some_and(|step| step + 1 == self.global_step);
        let end = mean + usize::from(has_mean);
        self.peers[peer].owed = match theirs {
            Some(step) if step >= self.global_step => None,
            Some(step) if step + 1 == self.global_step && has_mean => {
                Some(Owed { column: mean, piece: 0, end })
            }
            _ => Some(Owed { column: 0, piece: 0, end }),
        };
    }

    /// The next frame for a peer that is behind.
    pub(super) fn next_owed(&mut self, peer: usize, owed: Owed) -> PeerFrame {
        let Owed { column, piece, end } = owed;
        let next = match piece + 1 < self.pieces() {
            true => Owed { piece: piece + 1, ..owed },
            false => Owed { column: column + 1, piece: 0, end },
        };
        let is_last = next.column == end;
        self.peers[peer].owed = (!is_last).then_some(next);
        let range = self.piece(piece);
        let header = self.header(FrameKind::State, piece, range.len());
        let mut flags = if is_last { Flags::NONE } else { Flags::MORE };
        if self.is_checkpoint_due() {
            flags = flags | Flags::CHECKPOINT;
        }
        let source = match column {
            0 => PeerSource::Params(range),
            column if column == self.mean_column() => PeerSource::Mean(range),
            column => PeerSource::Slot(column - 1, range),
        };
        PeerFrame { header: Header { flags, count: column as u32, ..header }, source }
    }

    pub(super) fn expect_state(
        &self,
        peer: usize,
        header: &Header,
    ) -> Result<PeerTarget, ProtocolError> {
        if self.is_gathering && self.config.recovers {
            return Ok(PeerTarget::Later);
        }
        let Some(behind) = self.behind.as_ref().filter(|behind| behind.donor == peer) else {
            return Err(ProtocolError::Unexpected(FrameKind::State));
        };
        let Header { chunk, len, count, step, .. } = *header;
        let (column, piece) = (count as usize, chunk as usize);
        let mean = self.mean_column();
        let is_next = match behind.next {
            Some(next) => next == (column, piece),
            None => piece == 0 && (column == 0 || column == mean && self.is_one_behind()),
        };
        let range = self.piece(piece);
        // It may end behind the last slot or behind the mean, and nowhere else.
        let ends = piece + 1 == self.pieces() && column + 1 >= mean;
        let goes_on = header.flags.contains(Flags::MORE) && column <= mean;
        let fits = len as usize == range.len() * 4 && step == behind.position.step;
        match is_next && fits && (goes_on || ends) {
            true if column == 0 => Ok(PeerTarget::Params(range)),
            true if column == mean => Ok(PeerTarget::Mean(range)),
            true => Ok(PeerTarget::Slot(column - 1, range)),
            false => Err(ProtocolError::Chunk { chunk, len }),
        }
    }

    /// Whether the replica is sound, and one step behind.
    fn is_one_behind(&self) -> bool {
        let goal = self.behind.as_ref().map(|behind| behind.position.step);
        !self.is_torn && goal == Some(self.global_step + 1)
    }

    /// A piece of the state is here.
    pub(super) fn state_arrived(&mut self, header: &Header) -> Result<ReplicaEvent, ReplicaError> {
        let (column, piece) = (header.count as usize, header.chunk as usize);
        let next = if piece + 1 < self.pieces() { (column, piece + 1) } else { (column + 1, 0) };
        if header.flags.contains(Flags::MORE) {
            self.behind.iter_mut().for_each(|behind| behind.next = Some(next));
            return Ok(ReplicaEvent::Progress);
        }
        let Some(Behind { position, .. }) = self.behind.take() else {
            return Err(ProtocolError::Unexpected(FrameKind::State).into());
        };
        let has_mean = column == self.mean_column();
        if self.is_torn {
            self.mean_of = has_mean.then(|| position.step.saturating_sub(1));
        } else {
            // Only the mean has come: the step is made here too.
            self.apply_mean();
        }
        (self.global_step, self.is_over) = (position.step, position.is_over);
        self.is_torn = false;
        let keeps = header.flags.contains(Flags::CHECKPOINT);
        self.checkpoint_of = keeps.then_some(position.step);
        Ok(ReplicaEvent::Progress)
    }
}
