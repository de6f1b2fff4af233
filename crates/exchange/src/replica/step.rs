//! A step: shares go out, chunks are made of those that come in, fresh parameters go out. What comes
//! in is the matter of `receive.rs`.

use std::ops::Range;

use super::{PeerProgress, Replica, ReplicaError, Said, Turn, digest};
use crate::mean::{add_scaled, scale, set_scaled_pair, weight};
use crate::{Flags, FrameKind, Header};

/// A frame to send to a peer.
#[derive(Clone, Debug)]
pub struct PeerFrame {
    /// Its header.
    pub header: Header,
    /// Where its payload is.
    pub source: PeerSource,
}

/// Where the payload of a frame to send is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerSource {
    /// This range of the gradient.
    Gradient(Range<usize>),
    /// This range of the parameters.
    Params(Range<usize>),
    /// This range of the mean of everybody's gradients.
    Mean(Range<usize>),
    /// This range of a slot of the optimizer.
    Slot(usize, Range<usize>),
}

impl Replica {
    /// Begins a step with a gradient over so many examples; none if there are no more.
    ///
    /// # Panics
    /// If a step is in the making, the last has been made, or not everybody is here.
    pub fn begin_step(&mut self, examples: Option<u32>) {
        let is_ready = !self.is_gathering && self.behind.is_none() && !self.is_over;
        assert!(self.turn.is_none() && is_ready, "no time for a step");
        for peer in &mut self.peers {
            peer.progress = PeerProgress::default();
            (peer.said, peer.is_held) = (None, false);
        }
        let is_due =
            self.global_step > 0 && self.global_step.is_multiple_of(self.config.check_every);
        let mine = Said {
            examples: examples.unwrap_or(0),
            has_left: examples.is_none(),
            stops: self.stop_asked,
            keeps: self.checkpoint_asked,
            digest: if is_due { digest(&self.params) } else { 0 },
        };
        self.turn = Some(Turn { mine, made: 0 });
    }

    /// The next frame for a peer; none if there is none now.
    pub fn next_frame(&mut self, peer: usize) -> Option<PeerFrame> {
        if let Some(owed) = self.peers[peer].owed {
            return Some(self.next_owed(peer, owed));
        }
        let Turn { mine, made } = self.turn?;
        let has_fresh = self.has_fresh();
        let progress = &mut self.peers[peer].progress;
        // What is fresh first: it is in the cache, and somebody waits for it. But never before
        // the share of the same number, so that what comes of small models can be foretold.
        let owes_share = progress.shares_sent < self.chunks[peer].len();
        let may_be_fresh = progress.shares_sent > progress.fresh_sent || !owes_share;
        if has_fresh && progress.fresh_sent < made && may_be_fresh {
            let chunk = progress.fresh_sent;
            progress.fresh_sent += 1;
            let range = self.chunks[self.config.slot][chunk].clone();
            let header = self.header(FrameKind::UpdatedChunk, chunk, range.len());
            let source = match self.config.recovers {
                true => PeerSource::Mean(range),
                false => PeerSource::Params(range),
            };
            return Some(PeerFrame { header, source });
        }
        let chunk = progress.shares_sent;
        let mut range = self.chunks[peer].get(chunk)?.clone();
        progress.shares_sent += 1;
        let mut flags = if mine.stops { Flags::STOP } else { Flags::NONE };
        if mine.keeps {
            flags = flags | Flags::CHECKPOINT;
        }
        if mine.has_left {
            // Once is enough.
            progress.shares_sent = self.chunks[peer].len();
            flags = flags | Flags::LEFT;
            range = 0..0;
        }
        let header = self.header(FrameKind::GradientChunk, chunk, range.len());
        let header = Header { flags, count: mine.examples, version: mine.digest, ..header };
        Some(PeerFrame { header, source: PeerSource::Gradient(range) })
    }

    /// The payload of a frame that goes out.
    pub fn payload<'a>(&'a self, source: &PeerSource, gradient: &'a [f32]) -> &'a [f32] {
        match source {
            PeerSource::Gradient(range) => &gradient[range.clone()],
            PeerSource::Params(range) => &self.params[range.clone()],
            PeerSource::Mean(range) => &self.mean[range.clone()],
            PeerSource::Slot(slot, range) => {
                let mut slots = self.optimizer.states();
                slots.nth(*slot).map_or(&[], |(_, values)| &values[range.clone()])
            }
        }
    }

    pub(super) fn header(&self, kind: FrameKind, chunk: usize, floats: usize) -> Header {
        Header { chunk: chunk as u32, step: self.global_step, ..Header::new(kind, floats * 4) }
    }

    /// Makes the next chunk of the own shard, if everybody's share of it is here: takes the mean
    /// and updates the parameters. Says whether it did.
    pub fn reduce_chunk(&mut self, gradient: &[f32]) -> bool {
        let Some(Turn { made, .. }) = self.turn else { return false };
        let Some(range) = self.chunks[self.config.slot].get(made).cloned() else { return false };
        let is_ready = self.others().all(|other| {
            let peer = &self.peers[other];
            peer.is_held || peer.said.is_some_and(|said| said.has_left)
        });
        if !is_ready {
            return false;
        }
        if !self.has_all_left() {
            self.make_mean(&range, gradient);
        }
        self.peers.iter_mut().for_each(|peer| peer.is_held = false);
        if let Some(turn) = &mut self.turn {
            turn.made += 1;
        }
        true
    }

    /// Takes the mean of all shares of a chunk of the own shard, in the order of slots. Unless the
    /// run recovers, the chunk is updated with it at once.
    fn make_mean(&mut self, range: &Range<usize>, gradient: &[f32]) {
        let said = |slot: usize| match slot == self.config.slot {
            true => self.turn.map(|turn| turn.mine),
            false => self.peers[slot].said,
        };
        let contributes = |slot: &usize| said(*slot).is_some_and(|said| !said.has_left);
        let examples = |slot: usize| said(slot).map_or(0, |said| said.examples);
        let slots = || (0..self.peers.len()).filter(contributes);
        let (contributors, total) =
            (slots().count(), slots().map(|s| u64::from(examples(s))).sum());
        let share = |slot: usize| {
            let values = match slot == self.config.slot {
                true => &gradient[range.clone()],
                false => &self.peers[slot].held[..range.len()],
            };
            (values, weight(examples(slot), total, contributors))
        };
        let mut shares = slots().map(share);
        let mut buffer = std::mem::take(&mut self.mean);
        let place = if self.config.recovers { range.clone() } else { 0..range.len() };
        if buffer.len() < place.end {
            buffer.resize(place.end, 0.0);
        }
        let mean = &mut buffer[place];
        match (shares.next(), shares.next()) {
            (None, _) => unreachable!("somebody has a gradient"),
            (Some((first, weight)), None) => {
                mean.copy_from_slice(first);
                scale(mean, weight);
            }
            (Some(first), Some(second)) => {
                set_scaled_pair(mean, first, second);
                shares.for_each(|(values, weight)| add_scaled(mean, values, weight));
            }
        }
        if !self.config.recovers {
            let offset = range.start - self.chunks[self.config.slot][0].start;
            let params = &mut self.params[range.clone()];
            self.optimizer.apply(self.global_step, offset, params, mean);
        }
        self.mean = buffer;
        self.mean_of = None;
    }

    /// Of a run that recovers: makes the whole update, now that the whole mean is here.
    pub(super) fn apply_mean(&mut self) {
        self.optimizer.apply(self.global_step, 0, &mut self.params, &self.mean);
        self.mean_of = Some(self.global_step);
    }

    /// Whether nobody has any more examples, so that there is no such step.
    fn has_all_left(&self) -> bool {
        let others = || self.others().map(|slot| self.peers[slot].said);
        self.turn.is_some_and(|turn| turn.mine.has_left)
            && others().all(|said| said.is_some_and(|said| said.has_left))
    }

    /// Whether it is known already that the present step will be made.
    pub(super) fn is_certain(&self) -> bool {
        let said = self.turn.iter().map(|turn| turn.mine);
        said.chain(self.peers.iter().filter_map(|peer| peer.said)).any(|said| !said.has_left)
    }

    /// Whether parameters travel in this step.
    pub(super) fn has_fresh(&self) -> bool {
        !self.is_whole && !self.has_all_left()
    }

    /// Whether everything of the present step has been handed out and has come.
    pub fn is_complete(&self) -> bool {
        self.turn.is_some()
            && self.others().all(|peer| !self.needs_in_step(peer))
            && self.turn.is_none_or(|turn| turn.made == self.chunks[self.config.slot].len())
    }

    /// Whether the present step still has something for a peer, or expects something of it, as far
    /// as is known: parameters only once somebody is known to have a gradient.
    pub(super) fn needs_in_step(&self, peer: usize) -> bool {
        let own = self.chunks[self.config.slot].len();
        let progress = self.peers[peer].progress;
        let theirs = self.chunks[peer].len();
        let fresh = if !self.is_whole && self.is_certain() { (own, theirs) } else { (0, 0) };
        (progress.shares_sent, progress.shares_got) != (theirs, own)
            || (progress.fresh_sent, progress.fresh_got) != fresh
    }

    /// The peers that a step waits for: those whose gradient is not here, or if all are, those
    /// whose parameters are not. Between steps, those who are not out of it yet.
    pub fn awaited(&self) -> Vec<usize> {
        if self.turn.is_none() {
            return self.others().filter(|&slot| self.needs(slot)).collect();
        }
        let own = self.chunks[self.config.slot].len();
        let late = |slot: &usize| self.peers[*slot].progress.shares_got < own;
        let slow = |slot: &usize| self.needs_in_step(*slot);
        let found: Vec<_> = self.others().filter(late).collect();
        if found.is_empty() { self.others().filter(slow).collect() } else { found }
    }

    /// Ends a step that is complete, and compares replicas if it was time.
    ///
    /// # Panics
    /// If the step is not complete.
    pub fn finish_step(&mut self) -> Result<(), ReplicaError> {
        assert!(self.is_complete(), "the step is not complete");
        let all_left = self.has_all_left();
        let Some(Turn { mine, .. }) = self.turn.take() else { unreachable!("it is complete") };
        let said = |slot: usize| self.peers[slot].said;
        let others = self.others().filter_map(|slot| said(slot).map(|said| (slot, said)));
        let others: Vec<_> = others.collect();
        let differing: Vec<_> =
            others.iter().filter(|(_, said)| said.digest != mine.digest).map(|o| o.0).collect();
        if !differing.is_empty() {
            return Err(self.differ(&differing));
        }
        let stops = mine.stops || others.iter().any(|(_, said)| said.stops);
        let keeps = mine.keeps || others.iter().any(|(_, said)| said.keeps);
        if !all_left {
            if self.config.recovers {
                self.apply_mean();
            }
            self.global_step += 1;
            self.checkpoint_of = keeps.then_some(self.global_step);
            self.checkpoint_asked = false;
        }
        let is_last = self.config.stop_steps.is_some_and(|steps| self.global_step >= steps);
        self.is_over = stops || all_left || is_last;
        Ok(())
    }

    /// Replicas that should be the same are not.
    pub(super) fn differ(&self, slots: &[usize]) -> ReplicaError {
        let names: Vec<_> = slots.iter().map(|&slot| self.name(slot)).collect();
        ReplicaError::Differ {
            step: self.global_step,
            left: self.name(self.config.slot).into(),
            right: names.join(", "),
        }
    }
}
