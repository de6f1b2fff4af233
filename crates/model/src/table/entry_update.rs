//! Updating entries: those of a block are copied side by side, updated with vector instructions,
//! and copied back.

use std::ops::Range;

use super::atomic_cells::{AtomicCell, load_all, load_four, store_all, store_four};
use super::entry_rule::{BESIDE_FTRL, EntryRule};
use super::entry_table::{EntryTable, behind_first};
use crate::layout::Group;
use crate::optimizer::{AdaGrad, MAX_STATES, Optimizer, ParamUpdate};

/// Numbers that are updated together.
const BLOCK: usize = 1_024;
/// The numbers, their states, and room for a part of a gradient.
const COLUMNS: usize = 2 + MAX_STATES;
/// Entries of at least this many numbers are updated where they lie, if the optimizer is AdaGrad.
const WIDE: usize = 64;
/// The most entries that are updated together.
const ENTRIES: usize = 64;

/// Room for copies of a block's numbers, of each of their states and, last, of their gradient.
#[derive(Debug)]
pub struct BlockColumns([[f32; BLOCK]; COLUMNS]);

impl Default for BlockColumns {
    fn default() -> Self {
        Self([[0.0; BLOCK]; COLUMNS])
    }
}

impl EntryTable {
    /// Applies one sparse gradient: the numbers of each key, which occurs once. Creates the entries
    /// that do not exist. `step` is the number of updates made before this one.
    ///
    /// Entries that the gradient does not name stay as they are: decay pulls only those that it
    /// names, and Adam's means fade only then.
    ///
    /// # Panics
    /// If the gradient is not of these keys, or a key is outside the table.
    pub(super) fn update(&self, step: u64, keys: &[u32], grad: &[f32]) {
        assert_eq!(keys.len() * self.width, grad.len(), "gradient of the keys");
        let features = keys.partition_point(|&key| (key as usize) < self.features);
        let (own, shared) = keys.split_at(features);
        let (own_grad, shared_grad) = grad.split_at(features * self.width);
        let mut columns = BlockColumns::default();
        self.prefetch_first(own);
        self.update_ahead(step, own, behind_first(own), own_grad, &mut columns);
        self.update_shared(step, shared, shared_grad, &mut columns);
        let rate = self.spec.weights.rate_at(step);
        if self.rate.get() != rate {
            self.rate.set(rate);
        }
        self.evict_if_due(step);
    }

    /// Applies the gradient of some features, which the rest of the step does not name, while the
    /// entries of the keys in `later` come into the cache. The step ends with
    /// [`ParamTable::update`](super::ParamTable::update), which takes everything else.
    ///
    /// # Panics
    /// If the gradient is not of these keys, or a key is outside the table.
    pub fn update_ahead(
        &self,
        step: u64,
        keys: &[u32],
        later: &[u32],
        grad: &[f32],
        columns: &mut BlockColumns,
    ) {
        assert_eq!(keys.len() * self.width, grad.len(), "gradient of the keys");
        if let Some(ada_grad) = self.spec.downcast::<AdaGrad>()
            && self.width >= WIDE
        {
            let rule = self.spec.group(Group::Weights);
            let step_rule =
                AdaGradStep { ada_grad: *ada_grad, rate: rule.rate_at(step), decay: rule.decay };
            for (at, (&key, grad)) in keys.iter().zip(grad.chunks_exact(self.width)).enumerate() {
                self.prefetch_later(later, at);
                step_rule.update(self.admit(step, key), grad);
            }
            return;
        }
        let (width, mut entries) = (self.width, [&[][..]; ENTRIES]);
        let at_once = (BLOCK / width).clamp(1, ENTRIES);
        let blocks = keys.chunks(at_once).zip(grad.chunks(at_once * width));
        for (number, (some, grad)) in blocks.enumerate() {
            for (at, (entry, &key)) in entries.iter_mut().zip(some).enumerate() {
                self.prefetch_later(later, number * at_once + at);
                *entry = self.admit(step, key);
            }
            let entries = &entries[..some.len()];
            let mut linear = 0;
            if let EntryRule::LinearFtrl(ftrl) = self.rule {
                linear = self.birth.linear;
                let rates = [self.rate.get(), self.spec.weights.rate_at(step)];
                let [before, now] = rates.map(|rate| ftrl.at_rate(rate));
                for (entry, grad) in entries.iter().zip(grad.chunks_exact(width)) {
                    for (column, &g) in grad[..linear].iter().enumerate() {
                        let (z, n) = (entry[column].get(), entry[width + column].get());
                        let (z, n) = now.accumulate(before.weight(z, n), z, n, g);
                        entry[column].set(z);
                        entry[width + column].set(n);
                    }
                }
            }
            // The other columns: by the optimizer itself, or by AdaGrad beside FTRL.
            for from in (linear..width).step_by(BLOCK) {
                let part = EntryPart { entries, columns: from..width.min(from + BLOCK) };
                self.update_part(step, Group::Weights, part, grad, columns);
            }
        }
    }

    /// Updates keys that every example touches: together, those whose numbers are of one tensor.
    fn update_shared(&self, step: u64, keys: &[u32], grad: &[f32], columns: &mut BlockColumns) {
        let (width, mut left) = (self.width, grad);
        let start_of = |key: &u32| self.part.key_at(*key as usize) * width;
        let are_of_one = |one: &u32, next: &u32| {
            let (from, to) = (start_of(one), start_of(next) + width);
            self.shared.iter().any(|run| run.range.start <= from && to <= run.range.end)
        };
        let at_once = (BLOCK / width).clamp(1, ENTRIES);
        for some in keys.chunk_by(are_of_one).flat_map(|alike| alike.chunks(at_once)) {
            let (grad, behind) = left.split_at(some.len() * width);
            let (start, mut entries) = (start_of(&some[0]), [&[][..]; ENTRIES]);
            entries.iter_mut().zip(some).for_each(|(entry, &key)| *entry = self.born(key));
            for run in &self.shared {
                let (from, to) = (run.range.start.max(start), run.range.end.min(start + width));
                for from in (from..to).step_by(BLOCK) {
                    let part = from - start..to.min(from + BLOCK) - start;
                    let part = EntryPart { entries: &entries[..some.len()], columns: part };
                    self.update_part(step, run.group, part, grad, columns);
                }
            }
            left = behind;
        }
    }

    /// Updates some columns of some entries, whose whole gradient is given.
    fn update_part(
        &self,
        step: u64,
        group: Group,
        part: EntryPart<'_>,
        grad: &[f32],
        BlockColumns(columns): &mut BlockColumns,
    ) {
        let width = self.width;
        let EntryPart { entries, columns: which } = part;
        let (len, is_whole) = (which.len(), which.len() == width);
        let cells = self.rule.cells(&self.spec);
        for (at, entry) in entries.iter().enumerate() {
            for (state, column) in columns[..cells].iter_mut().enumerate() {
                load_all(&entry[state * width..][which.clone()], &mut column[at * len..][..len]);
            }
        }
        let (all, (numbers, spare)) = (entries.len() * len, columns.split_at_mut(cells));
        let grad = if is_whole {
            grad
        } else {
            let Some(place) = spare.last_mut() else { unreachable!("a place for the gradient") };
            for (to, from) in place.chunks_exact_mut(len).zip(grad.chunks_exact(width)) {
                to.copy_from_slice(&from[which.clone()]);
            }
            &place[..all]
        };
        let mut used = numbers.iter_mut().map(|column| &mut column[..all]);
        let params = used.next().unwrap_or_default();
        let settings = self.spec.group(group);
        let (rate, decay) = (settings.rate_at(step), settings.decay);
        let state = std::array::from_fn(|_| used.next().unwrap_or_default());
        let update = ParamUpdate { params, grad, state, rate, decay, l1: 0.0 };
        match self.rule {
            EntryRule::Plain => self.spec.optimizer().update(step, update),
            EntryRule::LinearFtrl(_) => BESIDE_FTRL.update(step, update),
        }
        for (at, entry) in entries.iter().enumerate() {
            for (state, column) in columns[..cells].iter().enumerate() {
                store_all(&entry[state * width..][which.clone()], &column[at * len..][..len]);
            }
        }
    }
}

/// Some columns of some entries.
struct EntryPart<'a> {
    entries: &'a [&'a [AtomicCell]],
    columns: Range<usize>,
}

/// The step of AdaGrad on the cells of an entry, with the bits of its `Optimizer::update`.
#[derive(Clone, Copy)]
struct AdaGradStep {
    ada_grad: AdaGrad,
    rate: f32,
    decay: f32,
}

impl AdaGradStep {
    /// Updates an entry: its numbers, then their sums.
    #[inline(always)]
    fn update(self, entry: &[AtomicCell], grad: &[f32]) {
        let (params, sums) = entry.split_at(grad.len());
        let sums = &sums[..grad.len()];
        let (params_of_four, last_params) = params.as_chunks::<4>();
        let (sums_of_four, last_sums) = sums.as_chunks::<4>();
        let (grads_of_four, last_grads) = grad.as_chunks::<4>();
        for ((params, sums), grad) in params_of_four.iter().zip(sums_of_four).zip(grads_of_four) {
            let (mut param, mut sum) = (load_four(params), load_four(sums));
            for at in 0..4 {
                (param[at], sum[at]) = self.apply(param[at], sum[at], grad[at]);
            }
            store_four(params, param);
            store_four(sums, sum);
        }
        for ((param, sum), &grad) in last_params.iter().zip(last_sums).zip(last_grads) {
            let (new_param, new_sum) = self.apply(param.get(), sum.get(), grad);
            param.set(new_param);
            sum.set(new_sum);
        }
    }

    /// The new number and the new sum.
    #[inline(always)]
    fn apply(self, param: f32, sum: f32, grad: f32) -> (f32, f32) {
        let AdaGrad { epsilon, initial } = self.ada_grad;
        let grad = grad + self.decay * param;
        let sum = sum + grad * grad;
        (param - self.rate * grad / ((initial + sum).sqrt() + epsilon), sum)
    }
}
