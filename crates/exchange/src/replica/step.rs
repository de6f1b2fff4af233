//! A step: gradients go out, chunks of the worker's own shard are reduced, updated chunks go out.
//! `send.rs` builds the frames and `receive.rs` handles those of peers.

use std::ops::Range;

use super::event::ReplicaError;
use super::known::KnownPart;
use super::memory::StepMemory;
use super::peer::{Contribution, CurrentStep, PeerProgress};
use super::pieces::Contributor;
use super::state::Replica;
use crate::mean::{Weighted, add_scaled, scale, set_scaled_pair};

impl Replica {
    /// Begins a step with a gradient that is a mean over `examples` examples; `None` if this
    /// worker has no more examples.
    ///
    /// # Panics
    /// If a step is in progress, the last one has been made, or a peer is missing.
    pub fn begin_step(&mut self, examples: Option<u32>) {
        let is_ready = !self.is_gathering && !self.is_behind() && !self.is_over;
        assert!(self.step.is_none() && is_ready, "a step cannot begin now");
        for peer in &mut self.peers {
            peer.progress = PeerProgress::default();
            (peer.contribution, peer.has_gradient) = (None, false);
            peer.keyed.clear();
        }
        self.pieces.clear();
        self.is_fresh = false;
        let is_due =
            self.global_step > 0 && self.global_step.is_multiple_of(self.config.check_every);
        let own = Contribution {
            examples: examples.unwrap_or(0),
            has_left: examples.is_none(),
            stops: self.stop_requested,
            takes_checkpoint: self.checkpoint_requested,
            digest: if is_due { self.compared_digest() } else { 0 },
        };
        self.step = Some(CurrentStep { own, reduced: 0 });
    }

    /// Reduces the next chunk of this worker's shard, if every worker's gradient of it has arrived:
    /// takes the mean and updates the parameters. Returns whether it did.
    pub fn reduce_chunk(&mut self, memory: &mut dyn StepMemory) -> bool {
        let Some(CurrentStep { own, reduced }) = self.step else { return false };
        let Some(range) = self.chunks[self.config.slot].get(reduced).cloned() else { return false };
        let own_is_ready = own.has_left || self.has_own_gradient(&range);
        let is_ready = self.others().all(|other| {
            let peer = &self.peers[other];
            peer.has_gradient || peer.contribution.is_some_and(|theirs| theirs.has_left)
        });
        if !is_ready || !own_is_ready || !self.may_write(&range) {
            return false;
        }
        if !self.has_all_left() && self.keyed.is_some() {
            self.reduce_keyed(memory);
        } else if !self.has_all_left() && !range.is_empty() {
            self.reduce(reduced, &range, memory);
            self.output_written(&range);
        }
        self.peers.iter_mut().for_each(|peer| peer.has_gradient = false);
        if let Some(step) = &mut self.step {
            step.reduced += 1;
        }
        true
    }

    /// Takes the mean of all gradients of a chunk of this worker's shard, in slot order. Unless
    /// updated chunks carry means, updates the chunk with it at once.
    fn reduce(&mut self, chunk: usize, range: &Range<usize>, memory: &mut dyn StepMemory) {
        let mut buffer = std::mem::take(&mut self.chunk_mean);
        if buffer.len() < range.len() {
            buffer.resize(range.len(), 0.0);
        }
        let mean = &mut buffer[..range.len()];
        self.sum(range, memory, mean);
        if self.is_rounded() {
            let part = KnownPart::Mean { owner: self.config.slot, chunk };
            let mut known = std::mem::take(&mut self.known);
            known.encode_mean(part, mean, self.output_mut(memory, range));
            self.known = known;
        } else if self.config.sends_means() {
            self.output_mut(memory, range).copy_from_slice(mean);
        } else {
            let offset = range.start - self.config.updates(self.total).start;
            let step = self.global_step;
            let params = match memory.output_mut(range.clone()) {
                Some(params) => params,
                None => &mut self.params[range.clone()],
            };
            self.optimizer.apply(step, offset, params, mean);
        }
        self.chunk_mean = buffer;
    }

    /// The weighted sum of all gradients of a chunk, in slot order.
    fn sum(&self, range: &Range<usize>, memory: &dyn StepMemory, mean: &mut [f32]) {
        let weighted = |its: Contributor| {
            let values = if its.slot == self.config.slot {
                memory.gradient(range.clone())
            } else {
                &self.peers[its.slot].gradient[..range.len()]
            };
            Weighted { values, weight: its.weight }
        };
        let mut gradients = self.contributors().map(weighted);
        match (gradients.next(), gradients.next()) {
            (None, _) => unreachable!("some worker has a gradient"),
            (Some(only), None) => {
                mean.copy_from_slice(only.values);
                scale(mean, only.weight);
            }
            (Some(first), Some(second)) => {
                set_scaled_pair(mean, first, second);
                gradients.for_each(|next| add_scaled(mean, next.values, next.weight));
            }
        }
    }

    /// What a slot, this worker's included, contributes to the current step, as far as is known.
    pub(super) fn contribution(&self, slot: usize) -> Option<Contribution> {
        if slot == self.config.slot {
            self.step.map(|step| step.own)
        } else {
            self.peers[slot].contribution
        }
    }

    /// If updated chunks carry means, or the model is sparse: makes the whole update, once the
    /// whole mean has arrived.
    pub(super) fn apply_mean(&mut self) {
        if let Some(keyed) = &self.keyed {
            keyed.apply_mean(self.global_step);
            self.mean_step = Some(self.global_step);
            return;
        }
        self.optimizer.apply(self.global_step, 0, &mut self.params, &self.mean);
        self.mean_step = Some(self.global_step);
    }

    /// This worker's slot, and those that it hears from in a step: an owner hears from all; other
    /// workers hear from the owners, which speak for all.
    fn heard(&self) -> impl Iterator<Item = usize> {
        let own = self.config.slot;
        let hears_all = self.owns(own);
        (0..self.peers.len()).filter(move |&slot| hears_all || slot == own || self.owns(slot))
    }

    /// Whether no worker has any more examples, so that the step is not made.
    pub(super) fn has_all_left(&self) -> bool {
        self.heard().all(|slot| self.contribution(slot).is_some_and(|its| its.has_left))
    }

    /// Whether it is already known that the current step will be made.
    pub(super) fn is_certain(&self) -> bool {
        self.heard().any(|slot| self.contribution(slot).is_some_and(|its| !its.has_left))
    }

    /// Whether updated chunks are sent in this step.
    pub(super) fn has_updates(&self) -> bool {
        !self.is_whole && !self.has_all_left()
    }

    /// Whether everything of the current step has been handed out and has arrived.
    pub fn is_complete(&self) -> bool {
        let own = self.chunks[self.config.slot].len();
        self.step.is_some_and(|step| step.reduced == own)
            && !self.awaits_pieces()
            && self.others().all(|peer| !self.needs_in_step(peer))
    }

    /// Whether the current step still has a frame for a peer or expects one from it, as far as is
    /// known. Between owners, updated chunks count only once some worker is known to have a
    /// gradient; other workers learn from them whether the step is made.
    pub(super) fn needs_in_step(&self, peer: usize) -> bool {
        let own = self.chunks[self.config.slot].len();
        let progress = self.peers[peer].progress;
        let theirs = self.chunks[peer].len();
        let is_certain = self.is_certain();
        let updates_to = |slot, chunks| {
            let has_updates = !self.is_whole && (is_certain || !self.owns(slot));
            if has_updates { chunks } else { 0 }
        };
        let updates = (updates_to(peer, own), updates_to(self.config.slot, theirs));
        (progress.gradients_sent, progress.gradients_received) != (theirs, own)
            || (progress.updates_sent, progress.updates_received) != updates
            || !self.has_sent_factors(peer)
            || !self.has_received_factors(peer)
    }

    /// The peers that a step waits for: those whose gradient has not arrived; if all have, those
    /// whose updated chunks have not. Between steps, those that this worker still needs.
    pub fn awaited(&self) -> Vec<usize> {
        if self.step.is_none() {
            return self.others().filter(|&slot| self.needs(slot)).collect();
        }
        let own = self.chunks[self.config.slot].len();
        let late = |slot: &usize| {
            self.peers[*slot].progress.gradients_received < own || !self.has_received_factors(*slot)
        };
        let slow = |slot: &usize| self.needs_in_step(*slot);
        let found: Vec<_> = self.others().filter(late).collect();
        if found.is_empty() { self.others().filter(slow).collect() } else { found }
    }

    /// Ends a complete step, and compares the replicas if that is due.
    ///
    /// # Panics
    /// If the step is not complete.
    pub fn finish_step(&mut self) -> Result<(), ReplicaError> {
        assert!(self.is_complete(), "the step is not complete");
        let all_left = self.has_all_left();
        let Some(CurrentStep { own, .. }) = self.step.take() else { unreachable!("see above") };
        let theirs = |slot: usize| Some((slot, self.peers[slot].contribution?));
        let others: Vec<_> = self.others().filter_map(theirs).collect();
        let differs = |(_, its): &&(usize, Contribution)| its.digest != own.digest;
        let differing: Vec<_> = others.iter().filter(differs).map(|(slot, _)| *slot).collect();
        if !differing.is_empty() {
            return Err(self.differ(&differing));
        }
        let stops = own.stops || others.iter().any(|(_, its)| its.stops);
        let takes_checkpoint =
            own.takes_checkpoint || others.iter().any(|(_, its)| its.takes_checkpoint);
        if !all_left {
            // In a step in pieces the caller makes the update, with what it was lent.
            if self.pieces.is_empty() && (self.config.sends_means() || self.keyed.is_some()) {
                self.apply_mean();
            } else if !self.config.has_factors() && self.config.sends_means() {
                self.mean_step = Some(self.global_step);
            }
            self.known.settle();
            self.global_step += 1;
            self.checkpoint_step = takes_checkpoint.then_some(self.global_step);
            self.checkpoint_requested = false;
        }
        let is_last = self.config.stop_steps.is_some_and(|steps| self.global_step >= steps);
        self.is_over = stops || all_left || is_last;
        Ok(())
    }

    /// The error for replicas that should be equal but are not.
    pub(super) fn differ(&self, slots: &[usize]) -> ReplicaError {
        let names: Vec<_> = slots.iter().map(|&slot| self.name(slot)).collect();
        ReplicaError::Differ {
            step: self.global_step,
            left: self.name(self.config.slot).into(),
            right: names.join(", "),
        }
    }
}
