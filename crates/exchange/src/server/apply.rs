//! Where gradients become updates.
//!
//! Sums are taken in the order of the slots, never in order of arrival, so that a run of one
//! seed ends with the same bits every time. The first gradient's vector becomes the mean, so
//! that no other is needed; used vectors go back to the pool.

use super::Server;
use crate::chunk::PendingGradient;
use crate::mean::{add_scaled, scale, weight};
use crate::{GradientStage, Host, ServerPhase, Store};

impl Server {
    /// Applies one gradient as one update; the keys are those of a sparse model.
    pub(super) fn apply(
        &mut self,
        index: usize,
        keys: &[u32],
        gradient: &[f32],
        host: &mut impl Host,
    ) {
        host.phase(ServerPhase::Apply);
        let chunk = &mut self.chunks[index];
        match &mut self.store {
            Store::Dense(dense) => dense.apply(chunk.version, &chunk.range, gradient),
            Store::Sparse(sparse) => sparse.apply(chunk.version, keys, gradient),
        }
        chunk.version += 1;
    }

    /// Applies the mean of the gradients that a chunk holds, weighted by their examples, summed
    /// in the order of the slots.
    pub(super) fn apply_mean(&mut self, index: usize, host: &mut impl Host) {
        let pending = || self.chunks[index].slots.iter().filter_map(|state| state.pending.as_ref());
        let contributors = pending().count();
        let examples: u64 = pending().map(|pending| u64::from(pending.examples)).sum();
        let mut mean: Option<PendingGradient> = None;
        for slot in 0..self.members.len() {
            let Some(mut pending) = self.take_pending(index, slot) else { continue };
            self.count_applied(index, slot, pending.version, pending.examples, 0);
            self.tell_applied(index, slot, self.chunks[index].slots[slot].step, host);
            let weight = weight(pending.examples, examples, contributors);
            match &mut mean {
                None => {
                    scale(&mut pending.gradient, weight);
                    mean = Some(pending);
                }
                Some(mean) => {
                    match &self.store {
                        Store::Dense(_) => {
                            add_scaled(&mut mean.gradient, &pending.gradient, weight)
                        }
                        Store::Sparse(_) => self.merge_scaled(mean, &pending, weight),
                    }
                    self.put_back(pending);
                }
            }
        }
        match mean {
            Some(mean) => {
                self.apply(index, &mean.keys, &mean.gradient, host);
                self.put_back(mean);
            }
            // All who were chosen for the step were lost before they delivered this chunk.
            None => self.chunks[index].version += 1,
        }
    }

    /// Applies the gradients that a chunk holds one by one, in the order of the slots.
    pub(super) fn apply_each(&mut self, index: usize, host: &mut impl Host) {
        for slot in 0..self.members.len() {
            let Some(pending) = self.take_pending(index, slot) else { continue };
            self.count_applied(index, slot, pending.version, pending.examples, 0);
            self.tell_applied(index, slot, self.chunks[index].slots[slot].step, host);
            self.apply(index, &pending.keys, &pending.gradient, host);
            self.put_back(pending);
        }
    }

    fn put_back(&mut self, pending: PendingGradient) {
        self.pool.put_back(pending.gradient);
        self.key_pool.put_back(pending.keys);
    }

    /// `sum += weight * more`, where each has keys of its own: one walk along both lists.
    fn merge_scaled(&mut self, sum: &mut PendingGradient, more: &PendingGradient, weight: f32) {
        let (mut keys, mut values) = (self.key_pool.take(), self.pool.take());
        keys.clear();
        values.clear();
        let most = sum.keys.len() + more.keys.len();
        keys.reserve(most);
        values.reserve(most);
        let (mut i, mut j) = (0, 0);
        while let (Some(&left), Some(&right)) = (sum.keys.get(i), more.keys.get(j)) {
            let mut value = 0.0;
            if left <= right {
                value = sum.gradient[i];
                i += 1;
            }
            if right <= left {
                value += weight * more.gradient[j];
                j += 1;
            }
            keys.push(left.min(right));
            values.push(value);
        }
        keys.extend_from_slice(&sum.keys[i..]);
        values.extend_from_slice(&sum.gradient[i..]);
        keys.extend_from_slice(&more.keys[j..]);
        values.extend(more.gradient[j..].iter().map(|value| weight * value));
        self.key_pool.put_back(std::mem::replace(&mut sum.keys, keys));
        self.pool.put_back(std::mem::replace(&mut sum.gradient, values));
    }

    fn take_pending(&mut self, index: usize, slot: usize) -> Option<PendingGradient> {
        let pending = self.chunks[index].slots[slot].pending.take()?;
        self.members[slot].pending -= 1;
        Some(pending)
    }

    /// Tells whoever follows it that the gradient of a slot for a step is applied.
    #[inline]
    pub(super) fn tell_applied(&self, index: usize, slot: usize, step: u64, host: &mut impl Host) {
        if index == 0 {
            host.trace(GradientStage::Applied, slot, step);
        }
    }

    /// Counts a gradient of chunk 0, for which `since` updates have been made since its turn.
    pub(super) fn count_applied(
        &mut self,
        index: usize,
        slot: usize,
        from: u64,
        examples: u32,
        since: u64,
    ) {
        if index == 0 {
            let version = self.chunks[0].version - since;
            self.stats.applied(slot, version - from, examples);
        }
    }
}
