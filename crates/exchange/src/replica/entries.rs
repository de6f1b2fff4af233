//! The state of a sparse model that a replica that is behind receives from one that is not.
//!
//! It has four parts: the common factors of the parameters, the entries as they are stored, how
//! often keys without an entry were named, and the mean gradient of the last step. A newcomer
//! receives all of them into a new table, which replaces its own when it is complete. A replica
//! that is one step behind receives the mean alone and makes the step itself. So a replica that
//! loses its donor has lost nothing.

use paceline_model::StoredEntries;

use super::event::{ReplicaError, ReplicaEvent};
use super::peer::{CatchUp, StatePiece, StateTransfer};
use super::receive::PeerTarget;
use super::send::{PeerFrame, PeerSource};
use super::state::Replica;
use super::table_replica::{IncomingState, KeyedFrame, TableReplica};
use crate::keyed_sum::KeyedBuffer;
use crate::{Flags, FrameKind, Header, ProtocolError, as_bytes, encode_keys};

/// The parts, as the header of a frame numbers them.
const FACTORS: usize = 0;
const ENTRIES: usize = 1;
const COUNTS: usize = 2;
const MEAN: usize = 3;

impl TableReplica {
    /// The numbers of each key in a part of the state.
    fn part_width(&self, part: usize) -> usize {
        match part {
            ENTRIES => self.table.stored_width(),
            COUNTS => 1,
            _ => self.table.width(),
        }
    }

    /// Writes the next frame of a part, from the key or the place `cursor` on. Returns the number
    /// of its keys, and where the next frame of the part begins.
    fn write_part(&self, part: usize, cursor: usize, out: &mut Vec<u8>) -> (usize, Option<usize>) {
        let mut entries = StoredEntries::default();
        let next = match part {
            FACTORS => {
                let factors = self.table.stored_factors();
                out.extend(factors.iter().flat_map(|factor| factor.to_le_bytes()));
                return (0, None);
            }
            ENTRIES => {
                let from = cursor.max(self.table.keys().start);
                self.table.copy_stored(from, self.frame_keys, &mut entries)
            }
            COUNTS => {
                let from = cursor.max(self.table.keys().start);
                self.table.copy_counts(from, self.frame_keys, &mut entries)
            }
            _ => {
                let (all, width) = (&self.mean, self.table.width());
                let to = (cursor + self.frame_keys).min(all.keys.len());
                entries.keys.extend_from_slice(&all.keys[cursor..to]);
                entries.cells.extend_from_slice(&all.values[cursor * width..to * width]);
                (to < all.keys.len()).then_some(to)
            }
        };
        out.extend_from_slice(as_bytes(&entries.cells));
        encode_keys(self.table.keys().start as u32, &entries.keys, out);
        (entries.keys.len(), next)
    }
}

impl Replica {
    /// Plans what a peer has to be sent, if it is behind.
    pub(super) fn plan_entries(&mut self, peer: usize) {
        let theirs = self.peers[peer].position.map(|position| position.step);
        let has_mean = self.mean_step.is_some_and(|step| step + 1 == self.global_step);
        let end = if has_mean { MEAN + 1 } else { MEAN };
        let from = |column| Some(StateTransfer { next: StatePiece { column, index: 0 }, end });
        let its = &mut self.peers[peer];
        its.cursor = 0;
        its.transfer = match theirs {
            Some(step) if step >= self.global_step => None,
            Some(step) if step + 1 == self.global_step && has_mean => from(MEAN),
            _ => from(FACTORS),
        };
    }

    /// The next frame for a peer that is behind.
    pub(super) fn next_entries(&mut self, peer: usize, transfer: StateTransfer) -> PeerFrame {
        let StateTransfer { next: StatePiece { column, index }, end } = transfer;
        let (cursor, mut out) =
            (self.peers[peer].cursor, std::mem::take(&mut self.peers[peer].out));
        out.clear();
        let Some(keyed) = &self.keyed else { unreachable!("the model is sparse") };
        let (keys, cursor) = keyed.write_part(column, cursor, &mut out);
        let next = match cursor {
            Some(_) => StatePiece { column, index: index + 1 },
            None => StatePiece { column: column + 1, index: 0 },
        };
        let is_last = next.column == end;
        let mut flags = if is_last { Flags::NONE } else { Flags::MORE };
        if self.is_checkpoint_due() {
            flags = flags | Flags::CHECKPOINT;
        }
        let header = Header {
            flags,
            chunk: index as u32,
            count: column as u32,
            sequence: keys as u64,
            step: self.global_step,
            ..Header::new(FrameKind::Entries, out.len())
        };
        let its = &mut self.peers[peer];
        its.transfer = (!is_last).then_some(StateTransfer { next, end });
        (its.cursor, its.out) = (cursor.unwrap_or(0), out);
        PeerFrame { header, source: PeerSource::Entries { peer } }
    }

    /// Checks the header of a frame of a peer's state.
    pub(super) fn expect_entries(
        &self,
        peer: usize,
        header: &Header,
    ) -> Result<PeerTarget, ProtocolError> {
        let unexpected = ProtocolError::Unexpected(FrameKind::Entries);
        let keyed = self.keyed.as_ref().ok_or(unexpected.clone())?;
        if self.is_gathering && self.config.recovers {
            return Ok(PeerTarget::Later);
        }
        let catch_up = self.catch_up.as_ref().filter(|catch_up| catch_up.donor == peer);
        let catch_up = catch_up.ok_or(unexpected)?;
        let Header { chunk, len, count, sequence, step, .. } = *header;
        let (column, index) = (count as usize, chunk as usize);
        let is_one_behind = catch_up.position.step == self.global_step + 1;
        let is_next = match catch_up.next {
            // After each frame, the part continues or the next one begins.
            Some(StatePiece { column: part, index: nth }) => {
                (column, index) == (part, nth) || (column, index) == (part + 1, 0)
            }
            None => index == 0 && (column == FACTORS || column == MEAN && is_one_behind),
        };
        let fits = if column == FACTORS {
            sequence == 0 && len as usize == keyed.table.stored_factors().len() * 8
        } else {
            column <= MEAN && keyed.fits(sequence, keyed.part_width(column), len)
        };
        let may_end = header.flags.contains(Flags::MORE) || column >= COUNTS;
        if !is_next || !fits || !may_end || step != catch_up.position.step {
            return Err(ProtocolError::Chunk { chunk, len });
        }
        Ok(PeerTarget::Keyed(len as usize))
    }

    /// A frame of a peer's state arrived.
    pub(super) fn entries_arrived(
        &mut self,
        peer: usize,
        header: &Header,
    ) -> Result<ReplicaEvent, ReplicaError> {
        let (column, index) = (header.count as usize, header.chunk as usize);
        self.take_entries(peer, column, index, header)?;
        if header.flags.contains(Flags::MORE) {
            let next = Some(StatePiece { column, index: index + 1 });
            self.catch_up.iter_mut().for_each(|catch_up| catch_up.next = next);
            return Ok(ReplicaEvent::Progress);
        }
        let Some(CatchUp { position, .. }) = self.catch_up.take() else {
            return Err(ProtocolError::Unexpected(FrameKind::Entries).into());
        };
        let Some(keyed) = &mut self.keyed else { unreachable!("the model is sparse") };
        if let Some(IncomingState { table, mean, .. }) = keyed.incoming.take() {
            keyed.mean = mean;
            match table {
                Some(table) => {
                    table.resume(position.step);
                    keyed.table = table;
                }
                None => keyed.apply_mean(self.global_step),
            }
        }
        self.mean_step = (column == MEAN).then(|| position.step.saturating_sub(1));
        (self.global_step, self.is_over) = (position.step, position.is_over);
        self.is_fresh = false;
        let takes_checkpoint = header.flags.contains(Flags::CHECKPOINT);
        self.checkpoint_step = takes_checkpoint.then_some(position.step);
        Ok(ReplicaEvent::Progress)
    }

    /// Stores what a frame holds in the state that is to come.
    fn take_entries(
        &mut self,
        peer: usize,
        column: usize,
        index: usize,
        header: &Header,
    ) -> Result<(), ReplicaError> {
        let Some(keyed) = &mut self.keyed else { return Ok(()) };
        let mut incoming = match keyed.incoming.take() {
            Some(incoming) => incoming,
            None => {
                let empty = || keyed.table.empty_like().map_err(ReplicaError::Memory);
                let table = if column == MEAN { None } else { Some(empty()?) };
                IncomingState { table, mean: KeyedBuffer::default(), last_key: None }
            }
        };
        if index == 0 {
            incoming.last_key = None;
        }
        let frame = &self.peers[peer].frame;
        if column == FACTORS {
            let bytes: &[u8] = &bytemuck::cast_slice(frame)[..header.len as usize];
            let factors: Vec<f64> =
                bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
            incoming.table.iter().for_each(|table| table.restore_factors(&factors));
        } else {
            let numbers = header.sequence as usize * keyed.part_width(column);
            let KeyedFrame { numbers, keys } =
                keyed.decode(header, frame, numbers, incoming.last_key)?;
            incoming.last_key = keys.last().copied().or(incoming.last_key);
            match (&incoming.table, column) {
                (Some(table), ENTRIES) => table.restore_stored(&keys, numbers),
                (Some(table), COUNTS) => table.set_counts(&keys, bytemuck::cast_slice(numbers)),
                _ => {
                    incoming.mean.keys.extend(keys);
                    incoming.mean.values.extend_from_slice(numbers);
                }
            }
        }
        keyed.incoming = Some(incoming);
        Ok(())
    }
}
