//! The table itself: parameters beside their state, read and written by range.

use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use super::atomic_cells::{AtomicCell, AtomicCells};
use super::decay_scale::DecayScale;
use super::rule::TableRule;
use crate::layout::{Group, Layout};
use crate::optimizer::{FtrlStep, OptimizerSpec};

/// A range of a sparse model's flat parameters with the state of their optimizer, which threads
/// share without locks.
///
/// ```
/// use paceline_model::{Logistic, Model, Sgd, Table};
///
/// let model = Logistic::new(1_000_000);
/// let table = Table::new(Sgd::new(0.5), model.layout(), 0..model.layout().len());
/// table.update(0, &[3, 999_999], &[1.0, -2.0]);
/// let mut params = [0.0; 3];
/// table.read(&[3, 4, 999_999], &mut params);
/// assert_eq!(params, [-0.5, 0.0, 1.0]);
/// ```
pub struct Table {
    pub(super) spec: OptimizerSpec,
    pub(super) rule: TableRule,
    /// Which of the model's parameters the table holds.
    pub(super) range: Range<usize>,
    /// Runs of one group, in order and without gaps.
    pub(super) spans: Vec<TableSpan>,
    /// Each parameter with its state, `width` cells together.
    pub(super) cells: AtomicCells,
    pub(super) width: usize,
    /// Held for reading while a decay scale is used, for writing while one is folded.
    pub(super) fold_lock: RwLock<()>,
}

/// A run of parameters that share their settings.
pub(super) struct TableSpan {
    /// Flat, not relative to the table.
    pub(super) range: Range<usize>,
    pub(super) group: Group,
    /// The common factor of all parameters, if they decay.
    pub(super) scale: Option<DecayScale>,
    /// The learning rate of the last update, on which FTRL's parameters depend.
    pub(super) rate: AtomicCell,
}

impl Table {
    /// Checks that a table can run an optimizer exactly, although it never visits the parameters
    /// that a step does not touch.
    ///
    /// # Errors
    /// The reason why it cannot, and what to use instead.
    pub fn supports(spec: &OptimizerSpec) -> Result<(), String> {
        TableRule::of(spec).map(drop)
    }

    /// How many numbers a table keeps for each parameter: itself, unless it follows from the state
    /// of its optimizer, and that state.
    ///
    /// # Panics
    /// If [`Table::supports`] refuses the optimizer.
    pub fn width(spec: &OptimizerSpec) -> usize {
        TableRule::of(spec).unwrap_or_else(|reason| panic!("{reason}")).width(spec)
    }

    /// A table of zeros for the parameters in `range`. The system provides memory for a page when
    /// it is first written to.
    ///
    /// # Panics
    /// As [`Table::allocate`] does, and if there is no memory.
    pub fn new(spec: OptimizerSpec, layout: &Layout, range: Range<usize>) -> Self {
        Self::allocate(spec, layout, range).unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// The same as [`Table::new`], or why there is no memory for it.
    ///
    /// # Panics
    /// If [`Table::supports`] refuses the optimizer, `range` does not lie inside the layout, or
    /// it ends above `u32::MAX`.
    pub fn allocate(
        spec: OptimizerSpec,
        layout: &Layout,
        range: Range<usize>,
    ) -> Result<Self, String> {
        let rule = TableRule::of(&spec).unwrap_or_else(|reason| panic!("{reason}"));
        assert!(range.end <= layout.len(), "{range:?} is outside the layout");
        assert!(u32::try_from(range.end).is_ok(), "{range:?} ends above what a key can hold");
        let spans = layout.tensors().iter().map(|tensor| TableSpan {
            range: tensor.range.start.max(range.start)..tensor.range.end.min(range.end),
            group: tensor.group,
            scale: (spec.group(tensor.group).decay != 0.0).then(DecayScale::one),
            rate: AtomicCell::new(spec.group(tensor.group).rate_at(0)),
        });
        let spans = spans.filter(|span| !span.range.is_empty()).collect();
        let width = rule.width(&spec);
        Ok(Self {
            spec,
            rule,
            spans,
            cells: AtomicCells::zeros(range.len() * width)?,
            width,
            range,
            fold_lock: RwLock::new(()),
        })
    }

    /// A table of zeros of the same kind.
    pub(super) fn empty_like(&self) -> Result<Self, String> {
        let spans = self.spans.iter().map(|span| TableSpan {
            range: span.range.clone(),
            group: span.group,
            scale: span.scale.is_some().then(DecayScale::one),
            rate: AtomicCell::new(self.spec.group(span.group).rate_at(0)),
        });
        Ok(Self {
            spec: self.spec.clone(),
            rule: self.rule,
            range: self.range.clone(),
            spans: spans.collect(),
            cells: AtomicCells::zeros(self.len() * self.width)?,
            width: self.width,
            fold_lock: RwLock::new(()),
        })
    }

    /// The same table, still of zeros, with room beside each parameter where one thread sums the
    /// gradient while it steps in place. It takes twice the memory and gives the bits of
    /// [`Table::update`].
    ///
    /// # Errors
    /// Why there is no memory for it.
    ///
    /// # Panics
    /// If [`Table::steps_in_place`] is false.
    pub fn with_sums(self) -> Result<Self, String> {
        assert!(self.steps_in_place(), "{} does not step in place", self.spec.optimizer().name());
        Ok(Self { cells: AtomicCells::zeros(self.len() * 2)?, width: 2, ..self })
    }

    /// Whether a [`RowDescent`](crate::RowDescent) can step on this table: with plain SGD, with or
    /// without decay.
    pub fn steps_in_place(&self) -> bool {
        matches!(self.rule, TableRule::Sgd)
    }

    /// The optimizer and its settings.
    pub fn spec(&self) -> &OptimizerSpec {
        &self.spec
    }

    /// The number of parameters.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether the table holds no parameters.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The range of the model's flat parameters that the table holds.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Copies the parameters of a flat range to `out`.
    ///
    /// # Panics
    /// If the range is not inside the table's, or `out` has another length.
    pub fn read_range(&self, range: Range<usize>, out: &mut [f32]) {
        assert_eq!(range.len(), out.len(), "parameters");
        let _shared = self.fold_lock.read().unwrap_or_else(PoisonError::into_inner);
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

    /// Sets the parameters of a flat range. With FTRL that sets `z`, so when restoring a
    /// checkpoint write `n` first, or both states afterwards.
    ///
    /// # Panics
    /// If the range is not inside the table's, or `values` has another length.
    pub fn write_range(&self, range: Range<usize>, values: &[f32]) {
        assert_eq!(range.len(), values.len(), "parameters");
        let _shared = self.fold_lock.read().unwrap_or_else(PoisonError::into_inner);
        for (span, part) in self.parts(range.clone()) {
            let values = &values[part.start - range.start..part.end - range.start];
            let scale = span.scale();
            for (&value, cells) in values.iter().zip(self.cells_of(part)) {
                let value = match self.ftrl(span) {
                    Some(ftrl) => ftrl.z_of(value, cells[1].get()),
                    None => value / scale,
                };
                // Equal values are not written, so that zeros take no memory.
                if cells[0].get().to_bits() != value.to_bits() {
                    cells[0].set(value);
                }
            }
        }
    }

    /// The names of the states, as written to checkpoints.
    pub fn state_names(&self) -> &[&'static str] {
        self.spec.optimizer().state_names()
    }

    /// Copies one state of a flat range of parameters to `out`, by its index among the names.
    ///
    /// # Panics
    /// If there is no such state, the range is not inside the table's, or `out` has another
    /// length.
    pub fn read_state(&self, state: usize, range: Range<usize>, out: &mut [f32]) {
        assert_eq!(range.len(), out.len(), "state");
        let column = self.column(state);
        let cells = self.cells_of(range);
        out.iter_mut().zip(cells).for_each(|(out, cells)| *out = cells[column].get());
    }

    /// Sets one state of a flat range of parameters, by its index among the names.
    ///
    /// # Panics
    /// If there is no such state, the range is not inside the table's, or `values` has another
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

    /// Sets the number of updates made before, when a table is restored from a checkpoint: FTRL's
    /// parameters depend on the learning rate of the last one.
    pub fn resume(&self, updates: u64) {
        for span in &self.spans {
            span.rate.set(self.spec.group(span.group).rate_at(updates.saturating_sub(1)));
        }
    }

    /// Multiplies all parameters by their decay scale and resets it to 1. Reads and updates wait
    /// meanwhile.
    ///
    /// An update that needs this does it by itself. Call it to make the stored bits independent of
    /// the steps before, as for a checkpoint.
    pub fn fold(&self) {
        let _exclusive = self.fold_lock.write().unwrap_or_else(PoisonError::into_inner);
        self.spans.iter().for_each(|span| self.fold_span(span, 1.0));
    }

    /// Multiplies a span's parameters by their scale times `factor` and resets the scale. The
    /// caller holds the fold lock for writing.
    pub(super) fn fold_span(&self, span: &TableSpan, factor: f64) {
        let Some(scale) = &span.scale else { return };
        let factor = (scale.take() * factor) as f32;
        for cells in self.cells_of(span.range.clone()) {
            let value = cells[0].get();
            if value != 0.0 {
                cells[0].set(factor * value);
            }
        }
    }

    /// The spans that a flat range overlaps, each with the part of the range in it.
    fn parts(&self, range: Range<usize>) -> impl Iterator<Item = (&TableSpan, Range<usize>)> {
        assert!(
            self.range.start <= range.start && range.end <= self.range.end,
            "{range:?} is outside a table of {:?}",
            self.range
        );
        let part = move |span: &TableSpan| {
            span.range.start.max(range.start)..span.range.end.min(range.end)
        };
        self.spans.iter().map(move |span| (span, part(span))).filter(|(_, part)| !part.is_empty())
    }

    /// The cells of a flat range, those of one parameter together.
    fn cells_of(&self, range: Range<usize>) -> impl Iterator<Item = &[AtomicCell]> {
        let (from, to) = (range.start - self.range.start, range.end - self.range.start);
        self.cells.all()[from * self.width..to * self.width].chunks_exact(self.width)
    }

    /// The index of a state among a parameter's cells.
    fn column(&self, state: usize) -> usize {
        assert!(
            state < self.state_names().len(),
            "{} has no state {state}",
            self.spec.optimizer().name()
        );
        // With all optimizers but FTRL the parameter comes first.
        if matches!(self.rule, TableRule::Ftrl(_)) { state } else { state + 1 }
    }

    /// The formula by which a span's parameters follow from their state, with FTRL.
    #[inline]
    pub(super) fn ftrl(&self, span: &TableSpan) -> Option<FtrlStep> {
        match self.rule {
            TableRule::Ftrl(ftrl) => Some(ftrl.at_rate(span.rate.get())),
            _ => None,
        }
    }
}

impl TableSpan {
    /// The factor of its parameters.
    pub(super) fn scale(&self) -> f32 {
        self.scale.as_ref().map_or(1.0, |scale| scale.get() as f32)
    }
}
