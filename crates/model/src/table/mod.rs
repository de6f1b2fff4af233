//! The parameters of a sparse model with the slots of their optimizer, shared by threads.
//!
//! A step of a sparse model touches a few thousand of many million parameters: it reads those,
//! and updates those. A table does both for sorted keys. What the dense rule would do to all the
//! others at every step (decay, a rate that changes) it does without touching them, exactly.
//!
//! Any number of threads may read and update at the same time without locks, as in "Hogwild!"
//! (Niu et al., 2011): two that meet at one parameter may lose one of the updates, which sparse
//! problems forgive. One thread alone gives equal bits for equal arguments.
//!
//! A parameter lies beside its slots, so that it costs one miss of the cache and not three. Of
//! FTRL only `z` and `n` are stored; the parameter follows from them.

mod apply;
mod cells;
mod in_place;
mod rule;
mod scale;

use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use self::cells::{Cell, Cells};
pub use self::in_place::RowDescent;
use self::rule::TableRule;
use self::scale::Scale;
use crate::layout::{Group, Layout};
use crate::optimizer::{FtrlStep, OptimizerSpec};

/// A range of a sparse model's flat parameters, with the slots of their optimizer.
pub struct Table {
    spec: OptimizerSpec,
    rule: TableRule,
    /// Which of the model's parameters these are.
    range: Range<usize>,
    /// Runs of one group, in order and without gaps.
    spans: Vec<Span>,
    /// Each parameter with its slots, `width` cells together.
    cells: Cells,
    width: usize,
    /// Held for reading by whoever uses a scale, for writing by whoever folds one.
    gate: RwLock<()>,
}

/// A run of parameters that share their settings.
struct Span {
    /// Flat, not relative to the table.
    range: Range<usize>,
    group: Group,
    /// What they are all to be multiplied by, if they decay.
    scale: Option<Scale>,
    /// The rate of the last update, on which FTRL's parameters depend.
    rate: Cell,
}

impl Table {
    /// Whether a table can keep an optimizer's promises for parameters it does not touch.
    ///
    /// # Errors
    /// What is wrong, and what to use instead.
    pub fn supports(spec: &OptimizerSpec) -> Result<(), String> {
        TableRule::of(spec).map(drop)
    }

    /// A table of zeros for the parameters in `range`. Memory is taken when it is touched.
    ///
    /// # Panics
    /// If the optimizer is not one that [`Table::supports`], or `range` does not lie inside the
    /// layout, or a key of it is more than a `u32` can say.
    pub fn new(spec: OptimizerSpec, layout: &Layout, range: Range<usize>) -> Self {
        let rule = TableRule::of(&spec).unwrap_or_else(|reason| panic!("{reason}"));
        assert!(range.end <= layout.len(), "{range:?} is outside the layout");
        assert!(u32::try_from(range.end).is_ok(), "{range:?} is more than keys can say");
        let spans = layout.tensors().iter().map(|tensor| Span {
            range: tensor.range.start.max(range.start)..tensor.range.end.min(range.end),
            group: tensor.group,
            scale: (spec.group(tensor.group).decay != 0.0).then(Scale::one),
            rate: Cell::new(spec.group(tensor.group).rate.at(0)),
        });
        let spans = spans.filter(|span| !span.range.is_empty()).collect();
        let width = rule.width(&spec);
        Self {
            spec,
            rule,
            spans,
            cells: Cells::zeros(range.len() * width),
            width,
            range,
            gate: RwLock::new(()),
        }
    }

    /// The same table, still of zeros, with a place beside each parameter where one thread sums
    /// its gradient up while it steps in place: twice the memory, and the bits of [`Table::update`].
    ///
    /// # Panics
    /// If [`Table::steps_in_place`] says no.
    pub fn with_sums(self) -> Self {
        assert!(self.steps_in_place(), "{} does not step in place", self.spec.optimizer().name());
        Self { cells: Cells::zeros(self.len() * 2), width: 2, ..self }
    }

    /// Whether a [`RowDescent`] can step on this table: with plain SGD, decaying or not, for which
    /// a gradient of zero changes nothing.
    pub fn steps_in_place(&self) -> bool {
        matches!(self.rule, TableRule::Sgd)
    }

    /// The optimizer.
    pub fn spec(&self) -> &OptimizerSpec {
        &self.spec
    }

    /// How many parameters there are.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Which of the model's flat parameters these are.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The parameters of `range`, which is flat and inside the table's.
    ///
    /// # Panics
    /// If it is not, or `out` has another length.
    pub fn read_range(&self, range: Range<usize>, out: &mut [f32]) {
        assert_eq!(range.len(), out.len(), "parameters");
        let _shared = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        for (span, part) in self.parts(range.clone()) {
            let out = &mut out[part.start - range.start..part.end - range.start];
            let scale = span.scale();
            for (out, cells) in out.iter_mut().zip(self.cells_of(part)) {
                *out = match self.ftrl(span) {
                    Some(ftrl) => ftrl.weight(cells[0].get(), cells[1].get()),
                    None => scale * cells[0].get(),
                };
            }
        }
    }

    /// Sets the parameters of `range`, which is flat and inside the table's. With FTRL that sets
    /// `z`, so from a checkpoint write `n` first, or both slots afterwards.
    ///
    /// # Panics
    /// If it is not inside, or `values` has another length.
    pub fn write_range(&self, range: Range<usize>, values: &[f32]) {
        assert_eq!(range.len(), values.len(), "parameters");
        let _shared = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        for (span, part) in self.parts(range.clone()) {
            let values = &values[part.start - range.start..part.end - range.start];
            let scale = span.scale();
            for (&value, cells) in values.iter().zip(self.cells_of(part)) {
                let value = match self.ftrl(span) {
                    Some(ftrl) => ftrl.z_of(value, cells[1].get()),
                    None => value / scale,
                };
                // Zeros that are there already are not written, so that they take no memory.
                if cells[0].get().to_bits() != value.to_bits() {
                    cells[0].set(value);
                }
            }
        }
    }

    /// The names of the slots, as written to checkpoints.
    pub fn state_names(&self) -> &[&'static str] {
        self.spec.optimizer().state_names()
    }

    /// The values of a slot, by its index among the names, for the parameters of `range`.
    ///
    /// # Panics
    /// If there is no such slot, or the range is not inside the table, or `out` has another length.
    pub fn read_state(&self, state: usize, range: Range<usize>, out: &mut [f32]) {
        assert_eq!(range.len(), out.len(), "state");
        let column = self.column(state);
        let cells = self.cells_of(range);
        out.iter_mut().zip(cells).for_each(|(out, cells)| *out = cells[column].get());
    }

    /// Sets the values of a slot, by its index among the names, for the parameters of `range`.
    ///
    /// # Panics
    /// If there is no such slot, or the range is not inside the table, or `values` has another
    /// length.
    pub fn write_state(&self, state: usize, range: Range<usize>, values: &[f32]) {
        assert_eq!(range.len(), values.len(), "state");
        let column = self.column(state);
        for (&value, cells) in values.iter().zip(self.cells_of(range)) {
            if cells[column].get().to_bits() != value.to_bits() {
                cells[column].set(value);
            }
        }
    }

    /// Says how many updates were made before, when a table goes on from a checkpoint: FTRL's
    /// parameters depend on the rate of the last one.
    pub fn resume(&self, updates: u64) {
        for span in &self.spans {
            span.rate.set(self.spec.group(span.group).rate.at(updates.saturating_sub(1)));
        }
    }

    /// Brings the factor that parameters are lazily multiplied by down to 1, by multiplying them.
    /// It is done by itself when it must be. Others wait meanwhile.
    pub fn fold(&self) {
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.spans.iter().for_each(|span| self.fold_span(span, 1.0));
    }

    /// Multiplies a span's parameters by their factor and another. The gate must be held.
    fn fold_span(&self, span: &Span, factor: f64) {
        let Some(scale) = &span.scale else { return };
        let factor = (scale.take() * factor) as f32;
        for cells in self.cells_of(span.range.clone()) {
            let value = cells[0].get();
            if value != 0.0 {
                cells[0].set(factor * value);
            }
        }
    }

    /// The spans that a flat range reaches into, each with the part of it that lies there.
    fn parts(&self, range: Range<usize>) -> impl Iterator<Item = (&Span, Range<usize>)> {
        assert!(
            self.range.start <= range.start && range.end <= self.range.end,
            "{range:?} is outside a table of {:?}",
            self.range
        );
        let part =
            move |span: &Span| span.range.start.max(range.start)..span.range.end.min(range.end);
        self.spans.iter().map(move |span| (span, part(span))).filter(|(_, part)| !part.is_empty())
    }

    /// The cells of a flat range, those of one parameter together.
    fn cells_of(&self, range: Range<usize>) -> impl Iterator<Item = &[Cell]> {
        let (from, to) = (range.start - self.range.start, range.end - self.range.start);
        self.cells.all()[from * self.width..to * self.width].chunks_exact(self.width)
    }

    /// Which of a parameter's cells holds a slot.
    fn column(&self, state: usize) -> usize {
        assert!(
            state < self.state_names().len(),
            "{} has no state {state}",
            self.spec.optimizer().name()
        );
        // All but FTRL have the parameter itself in front.
        if matches!(self.rule, TableRule::Ftrl(_)) { state } else { state + 1 }
    }

    /// The rule by which a span's parameters follow from their slots, if they do.
    #[inline]
    fn ftrl(&self, span: &Span) -> Option<FtrlStep> {
        match self.rule {
            TableRule::Ftrl(ftrl) => Some(ftrl.at_rate(span.rate.get())),
            _ => None,
        }
    }
}

impl Span {
    /// What its parameters are to be multiplied by.
    fn scale(&self) -> f32 {
        self.scale.as_ref().map_or(1.0, |scale| scale.get() as f32)
    }
}

#[cfg(test)]
mod tests;
