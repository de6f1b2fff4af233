//! The state that a replica that is behind receives from one that is not.
//!
//! The state has columns, each as long as the parameters: the parameters, the parts of the
//! optimizer's state, and the mean gradient of the last step. A newcomer receives all of them. A
//! replica that is only one step behind receives the mean and makes the step itself: until the
//! mean is complete its state stays as it was. The donor still has the mean, because overwriting
//! it takes a gradient of the replica that is behind.

use std::ops::Range;

use super::event::{ReplicaError, ReplicaEvent};
use super::kept_state::KeptState;
use super::peer::{CatchUp, StatePiece, StateTransfer};
use super::receive::PeerTarget;
use super::send::{PeerFrame, PeerSource};
use super::state::Replica;
use crate::{Flags, FrameKind, Header, ProtocolError};

impl Replica {
    /// The column of the mean: after the parameters and the optimizer's state.
    fn mean_column(&self) -> usize {
        1 + self.optimizer.states().count()
    }

    /// Pieces per column.
    fn pieces(&self) -> usize {
        self.total.div_ceil(self.config.chunk_floats).max(1)
    }

    fn piece_range(&self, index: usize) -> Range<usize> {
        let (floats, total) = (self.config.chunk_floats, self.total);
        (index * floats).min(total)..((index + 1) * floats).min(total)
    }

    /// Plans what a peer has to be sent, if it is behind.
    pub(super) fn plan_transfer(&mut self, peer: usize) {
        if self.keyed.is_some() {
            return self.plan_entries(peer);
        }
        let theirs = self.peers[peer].position.map(|position| position.step);
        let mean = self.mean_column();
        let has_mean = self.mean_step.is_some_and(|step| step + 1 == self.global_step);
        let is_newcomer = self.is_rounded() && self.peers[peer].is_fresh;
        // The mean that changes are relative to is part of the state.
        let end = mean + usize::from(has_mean || self.is_rounded());
        let from = |column| Some(StateTransfer { next: StatePiece { column, index: 0 }, end });
        self.peers[peer].transfer = match theirs {
            Some(step) if step >= self.global_step => None,
            Some(step) if step + 1 == self.global_step && has_mean && !is_newcomer => from(mean),
            _ => from(0),
        };
    }

    /// The next frame for a peer that is behind.
    pub(super) fn next_state_frame(&mut self, peer: usize, transfer: StateTransfer) -> PeerFrame {
        let StateTransfer { next: StatePiece { column, index }, end } = transfer;
        let next = transfer.next.next(self.pieces());
        let is_last = next.column == end;
        self.peers[peer].transfer = (!is_last).then_some(StateTransfer { next, end });
        let range = self.piece_range(index);
        let header = self.step_header(FrameKind::State, index, range.len());
        let mut flags = if is_last { Flags::NONE } else { Flags::MORE };
        if self.is_checkpoint_due() {
            flags = flags | Flags::CHECKPOINT;
        }
        let source = match column {
            0 => PeerSource::Params(range),
            column if column == self.mean_column() => PeerSource::Mean(range),
            column => PeerSource::State(column - 1, range),
        };
        PeerFrame { header: Header { flags, count: column as u32, ..header }, source }
    }

    pub(super) fn expect_state(
        &self,
        peer: usize,
        header: &Header,
    ) -> Result<PeerTarget, ProtocolError> {
        if self.is_gathering && self.config.recovers && self.keyed.is_none() {
            return Ok(PeerTarget::Later);
        }
        let Some(catch_up) = self.catch_up.as_ref().filter(|catch_up| catch_up.donor == peer)
        else {
            return Err(ProtocolError::Unexpected(FrameKind::State));
        };
        let Header { chunk, len, count, step, .. } = *header;
        let (column, index) = (count as usize, chunk as usize);
        let mean = self.mean_column();
        let is_next = match catch_up.next {
            Some(next) => next == StatePiece { column, index },
            None => index == 0 && (column == 0 || column == mean && self.is_one_behind()),
        };
        let range = self.piece_range(index);
        // The transfer ends after the optimizer's state or after the mean, and nowhere else.
        let may_end = index + 1 == self.pieces() && column + 1 >= mean;
        let continues = header.flags.contains(Flags::MORE) && column <= mean;
        let fits = len as usize == range.len() * 4 && step == catch_up.position.step;
        if !is_next || !fits || !(continues || may_end) {
            return Err(ProtocolError::Chunk { chunk, len });
        }
        Ok(match column {
            0 => PeerTarget::Params(range),
            column if column == mean => PeerTarget::Mean(range),
            column => PeerTarget::State(column - 1, range),
        })
    }

    /// Whether the replica's state is complete and one step behind.
    fn is_one_behind(&self) -> bool {
        let goal = self.catch_up.as_ref().map(|catch_up| catch_up.position.step);
        !self.is_incomplete && goal == Some(self.global_step + 1)
    }

    /// Before a piece of a peer's state overwrites this replica's: keeps a copy, if other workers
    /// could need it.
    pub(super) fn keep_state(&mut self) {
        if self.catch_up.is_some() && !self.is_incomplete && !self.is_fresh {
            self.kept = Some(KeptState::copy(&self.params, &self.optimizer, &self.mean));
        }
    }

    /// The peer that sent its state was lost: takes back the copy, if there is one.
    pub(super) fn restore_kept_state(&mut self) {
        self.keyed.iter_mut().for_each(|keyed| keyed.incoming = None);
        let Some(kept) = self.kept.take() else { return };
        kept.restore(&mut self.params, &mut self.optimizer, &mut self.mean);
        self.is_incomplete = false;
    }

    /// A piece of the state arrived.
    pub(super) fn state_arrived(&mut self, header: &Header) -> Result<ReplicaEvent, ReplicaError> {
        let (column, index) = (header.count as usize, header.chunk as usize);
        if header.flags.contains(Flags::MORE) {
            let next = StatePiece { column, index }.next(self.pieces());
            self.catch_up.iter_mut().for_each(|catch_up| catch_up.next = Some(next));
            return Ok(ReplicaEvent::Progress);
        }
        let Some(CatchUp { position, .. }) = self.catch_up.take() else {
            return Err(ProtocolError::Unexpected(FrameKind::State).into());
        };
        self.kept = None;
        let has_mean = column == self.mean_column();
        if self.is_incomplete {
            let covers_all = has_mean && !self.config.has_factors();
            self.mean_step = covers_all.then(|| position.step.saturating_sub(1));
        } else {
            // Only the mean has arrived: this replica makes the step itself.
            self.apply_mean();
        }
        (self.global_step, self.is_over) = (position.step, position.is_over);
        self.known.settle();
        self.is_incomplete = self.awaits_known();
        self.is_fresh &= self.is_incomplete;
        let takes_checkpoint = header.flags.contains(Flags::CHECKPOINT);
        self.checkpoint_step = takes_checkpoint.then_some(position.step);
        Ok(ReplicaEvent::Progress)
    }
}
