//! Reading and updating the parameters of a list of keys.
//!
//! The cells of a step are scattered over the whole memory of the table. So they are gathered
//! into a block on the stack, updated with vector instructions, and scattered again.

use std::ops::Range;
use std::sync::PoisonError;

use super::rule::TableRule;
use super::storage::{Table, TableSpan};
use crate::kernels::{each, prefetch};
use crate::optimizer::{AdaGrad, FtrlStep, MAX_STATES, ParamUpdate};

/// Parameters that are updated together: enough for vectors, few enough for the stack.
const BLOCK: usize = 64;

impl Table {
    /// Copies the parameters of flat keys to `out`. The keys need not be sorted, but those of a
    /// tensor come before those of the next.
    ///
    /// # Panics
    /// If `out` and `keys` differ in length, or a key is outside the table's range.
    pub fn read(&self, keys: &[u32], out: &mut [f32]) {
        assert_eq!(keys.len(), out.len(), "parameters");
        let _shared =
            self.decays().then(|| self.fold_lock.read().unwrap_or_else(PoisonError::into_inner));
        for (span, part) in self.runs(keys) {
            let (keys, out) = (&keys[part.clone()], &mut out[part]);
            match self.ftrl(span) {
                Some(ftrl) => self.read_ftrl(ftrl, keys, out),
                None => self.read_plain(span.scale(), keys, out),
            }
        }
    }

    /// Asks the processor to bring the parameter of a key into the cache, because it will soon be
    /// read.
    #[inline(always)]
    pub fn prefetcher(&self) -> impl Fn(u32) {
        let (cells, start, width) = (self.cells.all(), self.range.start, self.width);
        move |key| prefetch(cells, (key as usize).wrapping_sub(start).wrapping_mul(width))
    }

    /// Applies one sparse gradient. Each key occurs once, in an order that [`Table::read`] takes.
    /// The result is that of the dense optimizer given zeros for all other parameters. `step` is
    /// the number of updates made before this one.
    ///
    /// Make one call for each step, because every call applies the decay of one step.
    ///
    /// # Panics
    /// If `grad` and `keys` differ in length, or a key is outside the table's range.
    pub fn update(&self, step: u64, keys: &[u32], grad: &[f32]) {
        assert_eq!(keys.len(), grad.len(), "gradient");
        // Every span, because those without a key decay too.
        let mut rest = self.runs(keys).peekable();
        for span in &self.spans {
            let part = rest.next_if(|(run, _)| std::ptr::eq(*run, span)).map_or(0..0, |run| run.1);
            self.update_span(step, span, &keys[part.clone()], &grad[part]);
        }
    }

    pub(super) fn update_span(&self, step: u64, span: &TableSpan, keys: &[u32], grad: &[f32]) {
        let rate = self.spec.group(span.group).rate_at(step);
        match self.rule {
            TableRule::Sgd => self.with_decay(step, span, |rate| self.descend(rate, keys, grad)),
            TableRule::AdaGrad(ada_grad) => self.ada_grad(rate, ada_grad, keys, grad),
            TableRule::Ftrl(ftrl) => {
                let before = ftrl.at_rate(span.rate.get());
                self.update_ftrl(before, ftrl.at_rate(rate), keys, grad);
                if before.rate != rate {
                    span.rate.set(rate);
                }
            }
            TableRule::Touched => self.update_touched(step, rate, keys, grad),
        }
    }

    /// Applies one step of decay to a span of plain SGD, and calls `descend` with the rate for
    /// the parameters as they are stored, which is divided by their scale.
    pub(super) fn with_decay(&self, step: u64, span: &TableSpan, descend: impl FnOnce(f32)) {
        let settings = self.spec.group(span.group);
        let rate = settings.rate_at(step);
        let Some(scale) = &span.scale else { return descend(rate) };
        let factor = 1.0 - f64::from(rate) * f64::from(settings.decay);
        let divided = |scale: f64| (f64::from(rate) / scale) as f32;
        let shared = self.fold_lock.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(scale) = scale.shrink(factor) {
            return descend(divided(scale));
        }
        drop(shared);
        let _exclusive = self.fold_lock.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have folded the scale before this one got the lock.
        let scale = scale.shrink(factor).unwrap_or_else(|| {
            self.fold_span(span, factor);
            1.0
        });
        descend(divided(scale));
    }

    fn read_plain(&self, scale: f32, keys: &[u32], out: &mut [f32]) {
        let (cells, start, width) = (self.cells.all(), self.range.start, self.width);
        for (&key, out) in keys.iter().zip(out) {
            *out = scale * cells[(key as usize - start) * width].get();
        }
    }

    fn read_ftrl(&self, ftrl: FtrlStep, keys: &[u32], out: &mut [f32]) {
        for (keys, out) in keys.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
            let [z, n] = self.gather(keys);
            each(
                #[inline(always)]
                || {
                    for ((out, &z), &n) in out.iter_mut().zip(&z).zip(&n) {
                        *out = ftrl.weight(z, n);
                    }
                },
            );
        }
    }

    fn descend(&self, rate: f32, keys: &[u32], grad: &[f32]) {
        let (cells, start, width) = (self.cells.all(), self.range.start, self.width);
        for (&key, g) in keys.iter().zip(grad) {
            let cell = &cells[(key as usize - start) * width];
            cell.set(cell.get() - rate * g);
        }
    }

    fn ada_grad(&self, rate: f32, ada_grad: AdaGrad, keys: &[u32], grad: &[f32]) {
        let AdaGrad { epsilon, initial } = ada_grad;
        for (keys, grad) in keys.chunks(BLOCK).zip(grad.chunks(BLOCK)) {
            let [mut params, mut sums] = self.gather(keys);
            each(
                #[inline(always)]
                || {
                    for ((p, sum), g) in params.iter_mut().zip(&mut sums).zip(grad) {
                        *sum += g * g;
                        *p -= rate * g / ((initial + *sum).sqrt() + epsilon);
                    }
                },
            );
            self.scatter(keys, &params, &sums);
        }
    }

    /// FTRL: the parameters before this update follow from the rate of the previous update.
    fn update_ftrl(&self, before: FtrlStep, now: FtrlStep, keys: &[u32], grad: &[f32]) {
        for (keys, grad) in keys.chunks(BLOCK).zip(grad.chunks(BLOCK)) {
            let [mut z, mut n] = self.gather(keys);
            each(
                #[inline(always)]
                || {
                    for ((z, n), &g) in z.iter_mut().zip(&mut n).zip(grad) {
                        (*z, *n) = now.accumulate(before.weight(*z, *n), *z, *n, g);
                    }
                },
            );
            self.scatter(keys, &z, &n);
        }
    }

    /// Any optimizer that ignores zero gradients: gathers a block of parameters with their state,
    /// has the optimizer update it, and scatters it again.
    fn update_touched(&self, step: u64, rate: f32, keys: &[u32], grad: &[f32]) {
        let (cells, start, width) = (self.cells.all(), self.range.start, self.width);
        let entry = |key: u32| &cells[(key as usize - start) * width..][..width];
        let mut columns = [[0.0; BLOCK]; 1 + MAX_STATES];
        for (keys, grad) in keys.chunks(BLOCK).zip(grad.chunks(BLOCK)) {
            for (at, &key) in keys.iter().enumerate() {
                for (column, cell) in columns.iter_mut().zip(entry(key)) {
                    column[at] = cell.get();
                }
            }
            let mut used = columns[..width].iter_mut().map(|column| &mut column[..keys.len()]);
            let params = used.next().unwrap_or_default();
            let state = std::array::from_fn(|_| used.next().unwrap_or_default());
            let update = ParamUpdate { params, grad, state, rate, decay: 0.0, l1: 0.0 };
            self.spec.optimizer().update(step, update);
            for (at, &key) in keys.iter().enumerate() {
                for (column, cell) in columns.iter().zip(entry(key)) {
                    cell.set(column[at]);
                }
            }
        }
    }

    /// Both cells of each key, for at most a block of keys.
    #[inline(always)]
    fn gather(&self, keys: &[u32]) -> [[f32; BLOCK]; 2] {
        let (cells, start) = (self.cells.all(), self.range.start);
        let [mut first, mut second] = [[0.0; BLOCK]; 2];
        for ((&key, first), second) in keys.iter().zip(&mut first).zip(&mut second) {
            let pair = &cells[(key as usize - start) * 2..][..2];
            (*first, *second) = (pair[0].get(), pair[1].get());
        }
        [first, second]
    }

    #[inline(always)]
    fn scatter(&self, keys: &[u32], first: &[f32; BLOCK], second: &[f32; BLOCK]) {
        let (cells, start) = (self.cells.all(), self.range.start);
        for ((&key, &first), &second) in keys.iter().zip(first).zip(second) {
            let pair = &cells[(key as usize - start) * 2..][..2];
            pair[0].set(first);
            pair[1].set(second);
        }
    }

    pub(super) fn decays(&self) -> bool {
        self.spans.iter().any(|span| span.scale.is_some())
    }

    /// The spans that the keys fall into, in order, each with its part of the keys.
    fn runs(&self, keys: &[u32]) -> impl Iterator<Item = (&TableSpan, Range<usize>)> {
        let ends = (keys.first(), keys.last());
        if let (Some(&first), Some(&last)) = ends {
            let inside = self.range.start <= first as usize && (last as usize) < self.range.end;
            assert!(inside, "keys {first} to {last} are outside a table of {:?}", self.range);
        }
        let mut from = 0;
        let part = move |span: &TableSpan| {
            let start = from;
            from += keys[from..].partition_point(|&key| (key as usize) < span.range.end);
            start..from
        };
        let parts = self.spans.iter().scan(part, |part, span| Some((span, part(span))));
        parts.filter(|(_, part)| !part.is_empty())
    }
}
