//! How gradients become updates.
//!
//! Sums are taken in slot order, never in order of arrival, so that runs of one seed end with the
//! same bits. The first gradient's vector becomes the mean, so that no other is needed; used
//! vectors return to the pool.

use super::host::{GradientStage, Host, ServerPhase};
use super::state::Server;
use crate::chunk::PendingGradient;
use crate::keyed_sum::{KeyedBuffer, KeyedValues, merge_scaled};
use crate::mean::{add_scaled, scale, weight};
use crate::wire::add_changes;
use crate::{Store, WireFormat};

impl Server {
    /// Applies one gradient as one update. The keys are those of a sparse model.
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
        if let Store::Sparse(sparse) = &self.store
            && let Err(why) = sparse.table().check_room()
            && self.outcome.is_none()
        {
            self.fail(&why, host);
        }
    }

    /// Applies the mean of the pending gradients of a chunk, weighted by their examples and summed
    /// in slot order.
    pub(super) fn apply_mean(&mut self, index: usize, host: &mut impl Host) {
        let pending = || self.chunks[index].slots.iter().filter_map(|s| s.pending.as_ref());
        let contributors = pending().count();
        let examples: u64 = pending().map(|pending| u64::from(pending.examples)).sum();
        let mut mean: Option<PendingGradient> = None;
        for slot in 0..self.members.len() {
            let Some(mut pending) = self.take_pending(index, slot) else { continue };
            self.count_applied(index, slot, pending.version, pending.examples, 0);
            self.trace_applied(index, slot, self.chunks[index].slots[slot].step, host);
            let weight = weight(pending.examples, examples, contributors);
            let Some(sum) = &mut mean else {
                scale(&mut pending.gradient, weight);
                mean = Some(pending);
                continue;
            };
            match &self.store {
                Store::Dense(_) => add_scaled(&mut sum.gradient, &pending.gradient, weight),
                Store::Sparse(_) => self.merge_scaled(sum, &pending, weight),
            }
            self.recycle(pending);
        }
        match mean {
            Some(mean) => {
                self.apply(index, &mean.keys, &mean.gradient, host);
                self.recycle(mean);
            }
            // All workers chosen for the step were lost before they delivered this chunk.
            None => self.chunks[index].version += 1,
        }
    }

    /// Applies the pending gradients of a chunk one by one, in slot order.
    pub(super) fn apply_each(&mut self, index: usize, host: &mut impl Host) {
        for slot in 0..self.members.len() {
            let Some(pending) = self.take_pending(index, slot) else { continue };
            self.count_applied(index, slot, pending.version, pending.examples, 0);
            self.trace_applied(index, slot, self.chunks[index].slots[slot].step, host);
            self.apply(index, &pending.keys, &pending.gradient, host);
            self.recycle(pending);
        }
    }

    pub(super) fn recycle(&mut self, used: PendingGradient) {
        self.pool.put_back(used.gradient);
        self.key_pool.put_back(used.keys);
    }

    /// `sum += weight * more`, where each has its own keys.
    fn merge_scaled(&mut self, sum: &mut PendingGradient, more: &PendingGradient, weight: f32) {
        let mut merged = KeyedBuffer { keys: self.key_pool.take(), values: self.pool.take() };
        let before = KeyedValues { keys: &sum.keys, values: &sum.gradient };
        let more = KeyedValues { keys: &more.keys, values: &more.gradient };
        merge_scaled(self.config.width, before, more, weight, &mut merged);
        self.key_pool.put_back(std::mem::replace(&mut sum.keys, merged.keys));
        self.pool.put_back(std::mem::replace(&mut sum.gradient, merged.values));
    }

    pub(super) fn take_pending(&mut self, index: usize, slot: usize) -> Option<PendingGradient> {
        let mut pending = self.chunks[index].slots[slot].pending.take()?;
        self.members[slot].pending -= 1;
        self.widen(index, slot, &mut pending.gradient);
        Some(pending)
    }

    /// Where gradients travel as changes: adds those of a push to what the server knows of the
    /// slot's gradient, and replaces them by it.
    pub(super) fn widen(&mut self, index: usize, slot: usize, gradient: &mut Vec<f32>) {
        if self.config.wire == WireFormat::Bf16 {
            let chunk = &mut self.chunks[index];
            let (len, known) = (chunk.range.len(), &mut chunk.slots[slot].known);
            let mut whole = self.pool.take();
            add_changes(gradient, known, len, &mut whole);
            self.pool.put_back(std::mem::replace(gradient, whole));
        }
    }

    #[inline]
    pub(super) fn trace_applied(&self, index: usize, slot: usize, step: u64, host: &mut impl Host) {
        if index == 0 {
            host.trace(GradientStage::Applied, slot, step);
        }
    }

    /// Counts a gradient of chunk 0 that was computed from version `from`; `since` updates have
    /// been made since it was its turn.
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
