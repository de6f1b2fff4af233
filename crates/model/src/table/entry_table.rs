//! A table whose keys have several numbers each, and whose entries exist once they are touched.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use super::atomic_cells::{AtomicCell, AtomicCells, load_all};
use super::entry_policy::{COUNTS, EntryPolicy};
use super::entry_rule::EntryRule;
use super::slabs::Slabs;
use crate::kernels::prefetch;
use crate::layout::{Group, Layout};
use crate::optimizer::{FtrlStep, OptimizerSpec};
use crate::sparse_model::{EntryBirth, SparseModel};
use paceline_kernels::KeyPart;

/// How many keys ahead of their use entries are prefetched.
const AHEAD: usize = 8;
/// Numbers of a cache line.
const LINE: usize = 16;
/// The most numbers of an entry whose creation allocates nothing.
const FEW: usize = 64;

/// The entries of a range of a sparse model's keys, each with the state of its optimizer, which
/// threads share without locks.
///
/// An entry exists once an update has touched its key. Until then `read` gives its
/// first numbers, a function of seed and key ([`EntryBirth`]), and `read_known`
/// gives zeros.
pub struct EntryTable {
    pub(super) spec: OptimizerSpec,
    pub(super) rule: EntryRule,
    /// The keys it holds. Everywhere else in the table a key is named by its place among them.
    pub(super) part: KeyPart,
    /// The places of these keys.
    keys: Range<usize>,
    /// The flat parameters at those places.
    params: Range<usize>,
    pub(super) width: usize,
    /// Places below this are of features, those from it on of keys that every example touches.
    pub(super) features: usize,
    /// The model's number of features.
    inputs: usize,
    /// The tensors of the shared keys.
    pub(super) shared: Vec<SharedRun>,
    pub(super) birth: EntryBirth,
    pub(super) policy: EntryPolicy,
    /// For each key the number of its entry plus 1; 0 if it does not exist, and from [`COUNTS`] on
    /// how many updates have named it, if an entry takes several.
    pub(super) index: AtomicCells,
    /// The numbers of an entry, then each of its states, then a mark if entries are evicted.
    pub(super) slabs: Slabs,
    /// Whether a key has found no room for its entry.
    pub(super) is_full: AtomicBool,
    /// Takes the updates of keys that have no entry yet, and is never read.
    pub(super) sink: AtomicCells,
    /// The learning rate of the last update, on which FTRL's weights depend.
    pub(super) rate: AtomicCell,
}

/// Shared parameters of one group.
#[derive(Clone)]
pub(super) struct SharedRun {
    pub(super) range: Range<usize>,
    pub(super) group: Group,
}

impl EntryTable {
    /// The table of the model's keys in a range, or why there is no memory for it. The shared keys
    /// among them exist from the start.
    ///
    /// # Panics
    /// If the optimizer is not supported, or the keys do not lie inside the model's.
    pub(super) fn new(
        spec: OptimizerSpec,
        model: &dyn SparseModel,
        part: KeyPart,
        seed: u64,
        policy: EntryPolicy,
    ) -> Result<Self, String> {
        let rule = EntryRule::of(&spec).unwrap_or_else(|reason| panic!("{reason}"));
        let (layout, inputs, keys) = (model.layout(), model.inputs(), part.places());
        assert!(keys.end <= layout.keys(), "{keys:?} is outside the layout");
        assert!(u32::try_from(keys.end).is_ok(), "{keys:?} ends above what a key can hold");
        let width = layout.width();
        let cells = width * rule.cells(&spec) + usize::from(policy.evict_after.is_some());
        let table = Self {
            rule,
            policy,
            params: layout.params_of(keys.clone()),
            width,
            features: part.shared_place(),
            inputs,
            shared: shared_runs(layout, inputs),
            birth: model.birth(seed),
            index: AtomicCells::zeros(keys.len())?,
            slabs: Slabs::new(cells),
            is_full: AtomicBool::new(false),
            sink: AtomicCells::zeros(cells)?,
            rate: AtomicCell::new(spec.weights.rate_at(0)),
            keys,
            part,
            spec,
        };
        table.create_shared();
        Ok(table)
    }

    /// A table of the same kind, as training starts from.
    pub(super) fn empty_like(&self) -> Result<Self, String> {
        let table = Self {
            spec: self.spec.clone(),
            rule: self.rule,
            part: self.part.clone(),
            keys: self.keys.clone(),
            params: self.params.clone(),
            width: self.width,
            features: self.features,
            inputs: self.inputs,
            shared: self.shared.clone(),
            birth: self.birth.clone(),
            policy: self.policy,
            index: AtomicCells::zeros(self.keys.len())?,
            slabs: Slabs::new(self.slabs.entry_len()),
            is_full: AtomicBool::new(false),
            sink: AtomicCells::zeros(self.slabs.entry_len())?,
            rate: AtomicCell::new(self.spec.weights.rate_at(0)),
        };
        table.create_shared();
        Ok(table)
    }

    /// Creates the entries of the keys that every example touches.
    fn create_shared(&self) {
        for key in self.keys.start.max(self.features)..self.keys.end {
            self.born(key as u32);
        }
    }

    pub(super) fn keys(&self) -> Range<usize> {
        self.keys.clone()
    }

    pub(super) fn params(&self) -> Range<usize> {
        self.params.clone()
    }

    /// The keys of the entries that exist in a range, in order.
    pub(super) fn entry_keys(&self, keys: Range<usize>) -> Vec<u32> {
        let within = keys.start - self.keys.start..keys.end - self.keys.start;
        let places = self.index.all()[within].iter().zip(keys.start as u32..);
        places.filter(|(place, _)| has_entry(place.published())).map(|(_, key)| key).collect()
    }

    /// Entries that exist. Threads that create one entry at the same moment may count it twice.
    pub(super) fn entries(&self) -> usize {
        self.slabs.used() as usize
    }

    /// Asks the processor to bring the place of a key's entry into the cache.
    #[inline(always)]
    pub fn prefetcher(&self) -> impl Fn(u32) {
        let (index, start) = (self.index.all(), self.keys.start);
        move |key| prefetch(index, (key as usize).wrapping_sub(start))
    }

    /// Copies the numbers of each key to `out`; where there is no entry, the first numbers that it
    /// would have, or zeros if the next update does not create it.
    pub(super) fn read(&self, keys: &[u32], out: &mut [f32]) {
        self.prefetch_first(keys);
        self.read_ahead(keys, behind_first(keys), out);
    }

    /// As [`ParamTable::read`](super::ParamTable::read), while the entries of the keys in `later`
    /// come into the cache, one with each key that is read.
    pub fn read_ahead(&self, keys: &[u32], later: &[u32], out: &mut [f32]) {
        self.read_with(keys, later, out, |key, out| {
            if self.is_due(key) { self.first_numbers(key, out) } else { out.fill(0.0) }
        });
    }

    /// Copies the numbers of each key to `out`, and zeros where there is no entry.
    pub(super) fn read_known(&self, keys: &[u32], out: &mut [f32]) {
        self.prefetch_first(keys);
        self.read_with(keys, behind_first(keys), out, |_, out| out.fill(0.0));
    }

    fn read_with(
        &self,
        keys: &[u32],
        later: &[u32],
        out: &mut [f32],
        absent: impl Fn(u32, &mut [f32]),
    ) {
        assert_eq!(keys.len() * self.width, out.len(), "numbers of the keys");
        let ftrl = self.ftrl();
        for (at, (&key, out)) in keys.iter().zip(out.chunks_exact_mut(self.width)).enumerate() {
            self.prefetch_later(later, at);
            match self.find(key) {
                Some(entry) => self.copy(ftrl, key, entry, 0..self.width, out),
                None => absent(key, out),
            }
        }
    }

    /// Copies some columns of an entry's numbers.
    #[inline(always)]
    fn copy(
        &self,
        ftrl: Option<FtrlStep>,
        key: u32,
        entry: &[AtomicCell],
        columns: Range<usize>,
        out: &mut [f32],
    ) {
        load_all(&entry[columns.clone()], out);
        if let Some(ftrl) = ftrl {
            for column in self.linear(key).start.max(columns.start)..self.linear(key).end {
                if let Some(out) = out.get_mut(column - columns.start) {
                    *out = ftrl.weight(entry[column].get(), entry[self.width + column].get());
                }
            }
        }
    }

    /// The columns of a key that FTRL updates, if the optimizer is FTRL.
    #[inline(always)]
    pub(super) fn linear(&self, key: u32) -> Range<usize> {
        if (key as usize) < self.features { 0..self.birth.linear } else { 0..0 }
    }

    /// Copies the parameters of a flat range to `out`: zeros where there is no entry.
    pub(super) fn read_range(&self, range: Range<usize>, out: &mut [f32]) {
        let ftrl = self.ftrl();
        self.for_each_part(range, |key, columns, part| {
            let out = &mut out[part];
            match self.find(key) {
                Some(entry) => self.copy(ftrl, key, entry, columns, out),
                None => out.fill(0.0),
            }
        });
    }

    /// Sets the parameters of a flat range. Zeros create no entry.
    pub(super) fn write_range(&self, range: Range<usize>, values: &[f32]) {
        let ftrl = self.ftrl();
        self.for_each_part(range, |key, columns, part| {
            let values = &values[part];
            let Some(entry) = self.find_for(key, values) else { return };
            for (column, &value) in columns.zip(values) {
                let value = match ftrl.filter(|_| self.linear(key).contains(&column)) {
                    Some(ftrl) => ftrl.z_of(value, entry[self.width + column].get()),
                    None => value,
                };
                entry[column].set(value);
            }
        });
    }

    /// Copies one state of a flat range, by its index among the names.
    pub(super) fn read_state(&self, state: usize, range: Range<usize>, out: &mut [f32]) {
        self.for_each_part(range, |key, columns, part| {
            let entry = self.find(key);
            for (column, out) in columns.zip(&mut out[part]) {
                let cell = entry.zip(self.state_cell(state, key, column));
                *out = cell.map_or(0.0, |(entry, cell)| entry[cell].get());
            }
        });
    }

    /// Sets one state of a flat range. Zeros create no entry.
    pub(super) fn write_state(&self, state: usize, range: Range<usize>, values: &[f32]) {
        self.for_each_part(range, |key, columns, part| {
            let values = &values[part];
            let Some(entry) = self.find_for(key, values) else { return };
            for (column, &value) in columns.zip(values) {
                if let Some(cell) = self.state_cell(state, key, column) {
                    entry[cell].set(value);
                }
            }
        });
    }

    /// Where an entry has a state of a column. With FTRL the first state of a linear column lies in
    /// the place of the number itself, and other columns have the second state alone.
    fn state_cell(&self, state: usize, key: u32, column: usize) -> Option<usize> {
        match self.rule {
            EntryRule::Plain => Some((1 + state) * self.width + column),
            EntryRule::LinearFtrl(_) => (state > 0 || self.linear(key).contains(&column))
                .then_some(state * self.width + column),
        }
    }

    /// Sets the number of updates made before.
    pub(super) fn resume(&self, updates: u64) {
        self.rate.set(self.spec.weights.rate_at(updates.saturating_sub(1)));
    }

    /// The formula by which linear weights follow from their state, with FTRL.
    #[inline]
    pub(super) fn ftrl(&self) -> Option<FtrlStep> {
        match self.rule {
            EntryRule::LinearFtrl(ftrl) => Some(ftrl.at_rate(self.rate.get())),
            EntryRule::Plain => None,
        }
    }

    /// Calls `visit` with each key of a flat range, the columns of it that are in the range and
    /// where they are in the range.
    fn for_each_part(
        &self,
        range: Range<usize>,
        mut visit: impl FnMut(u32, Range<usize>, Range<usize>),
    ) {
        let own = &self.params;
        let is_inside = own.start <= range.start && range.end <= own.end;
        assert!(is_inside, "{range:?} is outside a table of {own:?}");
        let mut from = range.start;
        while from < range.end {
            let key = from / self.width;
            let to = ((key + 1) * self.width).min(range.end);
            let columns = from - key * self.width..to - key * self.width;
            visit(key as u32, columns, from - range.start..to - range.start);
            from = to;
        }
    }

    /// The entry of a key, if it exists.
    #[inline(always)]
    pub(super) fn find(&self, key: u32) -> Option<&[AtomicCell]> {
        match self.place(key).published() {
            number if has_entry(number) => Some(self.slabs.entry(number - 1)),
            _ => None,
        }
    }

    #[inline(always)]
    pub(super) fn place(&self, key: u32) -> &AtomicCell {
        match self.index.all().get((key as usize).wrapping_sub(self.keys.start)) {
            Some(place) => place,
            None => panic!("key {key} is outside a table of the keys {:?}", self.keys),
        }
    }

    /// The entry of a key for values that are about to be written: it is created, as zeros, unless
    /// the values are zeros.
    fn find_for(&self, key: u32, values: &[f32]) -> Option<&[AtomicCell]> {
        let is_zero = values.iter().all(|value| value.to_bits() == 0);
        match self.find(key) {
            None if is_zero => None,
            None => Some(self.create(key, |_| ())),
            found => found,
        }
    }

    /// The entry of a key that an update touches.
    #[inline(always)]
    pub(super) fn born(&self, key: u32) -> &[AtomicCell] {
        match self.find(key) {
            Some(entry) => entry,
            None => self.create(key, |entry| self.fill_first(key, entry)),
        }
    }

    #[cold]
    pub(super) fn create(&self, key: u32, fill: impl FnOnce(&[AtomicCell])) -> &[AtomicCell] {
        let number = self.slabs.take();
        let entry = self.slabs.entry(number);
        fill(entry);
        let place = self.place(key);
        let mut before = place.published();
        loop {
            if has_entry(before) {
                // Another thread was faster; this thread's entry is never used.
                return self.slabs.entry(before - 1);
            }
            match place.publish(before, number + 1) {
                Ok(()) => return entry,
                Err(other) => before = other,
            }
        }
    }

    /// Writes the numbers that a key starts from into its entry.
    fn fill_first(&self, key: u32, entry: &[AtomicCell]) {
        let mut many = vec![0.0; if self.width > FEW { self.width } else { 0 }];
        let mut few = [0.0; FEW];
        let first = few.get_mut(..self.width).unwrap_or(&mut many);
        self.first_numbers(key, first);
        entry.iter().zip(first).for_each(|(cell, value)| cell.set(*value));
    }

    /// The numbers that a key starts from.
    fn first_numbers(&self, key: u32, out: &mut [f32]) {
        let key = self.part.key_at(key as usize);
        let Some(at) = key.checked_sub(self.inputs) else {
            return self.birth.feature(key as u32, out);
        };
        out.fill(0.0);
        let shared = self.birth.shared.get(at * self.width..).unwrap_or_default();
        out.iter_mut().zip(shared).for_each(|(out, &value)| *out = value);
    }

    /// Prefetches the entries of the first keys of a list.
    pub(super) fn prefetch_first(&self, keys: &[u32]) {
        (0..AHEAD).filter_map(|at| keys.get(at)).for_each(|&key| self.prefetch_entry(key));
    }

    /// Prefetches the entry of the key at `at`, and the place of one some keys behind it.
    #[inline(always)]
    pub(super) fn prefetch_later(&self, later: &[u32], at: usize) {
        if let Some(&key) = later.get(at + AHEAD) {
            self.prefetcher()(key);
        }
        if let Some(&key) = later.get(at) {
            self.prefetch_entry(key);
        }
    }

    #[inline(always)]
    fn prefetch_entry(&self, key: u32) {
        if let Some(entry) = self.find(key) {
            (0..entry.len()).step_by(LINE).for_each(|at| prefetch(entry, at));
            prefetch(entry, entry.len() - 1);
        }
    }
}

/// The keys behind those that [`EntryTable::prefetch_first`] prefetches.
#[inline(always)]
pub(super) fn behind_first(keys: &[u32]) -> &[u32] {
    keys.get(AHEAD..).unwrap_or_default()
}

/// Whether a number of the index is that of an entry.
#[inline(always)]
pub(super) fn has_entry(number: u32) -> bool {
    number.wrapping_sub(1) < COUNTS - 1
}

/// The tensors behind that of the features.
fn shared_runs(layout: &Layout, features: usize) -> Vec<SharedRun> {
    let start = layout.params_of(0..features).end;
    let tensors = layout.tensors().iter().filter(|tensor| tensor.range.start >= start);
    tensors.map(|tensor| SharedRun { range: tensor.range.clone(), group: tensor.group }).collect()
}
