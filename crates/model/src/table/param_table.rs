//! The table of any sparse model.

use std::ops::Range;

use super::entry_policy::EntryPolicy;
use super::entry_rule::EntryRule;
use super::entry_table::EntryTable;
use super::storage::Table;
use crate::optimizer::OptimizerSpec;
use crate::sparse_model::SparseModel;
use paceline_kernels::{KeyPart, KeyRun};

/// The parameters of a range of a sparse model's keys, with the state of their optimizer, which
/// threads share without locks: a flat [`Table`] if a key has one parameter, otherwise entries that
/// exist once they are touched.
#[expect(
    clippy::large_enum_variant,
    reason = "a task has one table, and hot loops use the flat one"
)]
pub enum ParamTable {
    /// One parameter for each key.
    Flat(Table),
    /// Several parameters for each key.
    Entries(Box<EntryTable>),
}

/// What an entry has for each of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryColumn {
    /// The number itself.
    Params,
    /// A state of the optimizer, by its index among the names.
    State(usize),
}

impl From<Table> for ParamTable {
    fn from(table: Table) -> Self {
        ParamTable::Flat(table)
    }
}

/// Calls a method of either table.
macro_rules! either {
    ($self:ident, $table:ident => $call:expr) => {
        match $self {
            ParamTable::Flat($table) => $call,
            ParamTable::Entries($table) => $call,
        }
    };
}

impl ParamTable {
    /// Checks that a table of this width runs an optimizer.
    ///
    /// # Errors
    /// The reason why it does not, and what to use instead.
    pub fn supports(spec: &OptimizerSpec, width: usize) -> Result<(), String> {
        if width == 1 { Table::supports(spec) } else { EntryRule::of(spec).map(drop) }
    }

    /// The memory of an entry of this width with its state, in bytes.
    ///
    /// # Panics
    /// If [`ParamTable::supports`] refuses the optimizer.
    pub fn entry_bytes(spec: &OptimizerSpec, width: usize) -> usize {
        let rule = EntryRule::of(spec).unwrap_or_else(|reason| panic!("{reason}"));
        width * rule.cells(spec) * size_of::<f32>()
    }

    /// A table of the model's keys in a range, as training starts from. Equal seeds give equal
    /// entries.
    ///
    /// # Panics
    /// If [`ParamTable::supports`] refuses the optimizer, or `keys` do not lie inside the model's.
    pub fn new(
        spec: OptimizerSpec,
        model: &dyn SparseModel,
        keys: Range<usize>,
        seed: u64,
    ) -> Self {
        Self::allocate(spec, model, keys, seed).unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// The same as [`ParamTable::new`], or why there is no memory for it.
    ///
    /// # Errors
    /// If a table that has a cell for every key does not fit into memory.
    ///
    /// # Panics
    /// As [`ParamTable::new`].
    pub fn allocate(
        spec: OptimizerSpec,
        model: &dyn SparseModel,
        keys: Range<usize>,
        seed: u64,
    ) -> Result<Self, String> {
        Self::allocate_with(spec, model, keys, seed, EntryPolicy::default())
    }

    /// The same as [`ParamTable::allocate`], with a rule for which keys have an entry. A table that
    /// has one parameter for each key has all of them, whatever the rule says.
    ///
    /// # Errors
    /// As [`ParamTable::allocate`].
    ///
    /// # Panics
    /// As [`ParamTable::new`].
    pub fn allocate_with(
        spec: OptimizerSpec,
        model: &dyn SparseModel,
        keys: Range<usize>,
        seed: u64,
        policy: EntryPolicy,
    ) -> Result<Self, String> {
        let part = KeyPart::contiguous(keys, model.inputs());
        Self::allocate_part(spec, model, part, seed, policy)
    }

    /// The same as [`ParamTable::allocate_with`], of the keys that a server holds. Its methods take
    /// their places for keys; [`key_runs`](Self::key_runs) has the keys.
    ///
    /// # Errors
    /// As [`ParamTable::allocate`].
    ///
    /// # Panics
    /// As [`ParamTable::new`].
    pub fn allocate_part(
        spec: OptimizerSpec,
        model: &dyn SparseModel,
        part: KeyPart,
        seed: u64,
        policy: EntryPolicy,
    ) -> Result<Self, String> {
        if model.layout().width() == 1 {
            return Table::allocate(spec, model.layout(), part.places()).map(ParamTable::Flat);
        }
        let table = EntryTable::new(spec, model, part, seed, policy)?;
        Ok(ParamTable::Entries(Box::new(table)))
    }

    /// The table, if a key has one parameter.
    pub fn as_flat(&self) -> Option<&Table> {
        let ParamTable::Flat(table) = self else { return None };
        Some(table)
    }

    /// The table, if a key has several parameters.
    pub fn as_entries(&self) -> Option<&EntryTable> {
        let ParamTable::Entries(table) = self else { return None };
        Some(table)
    }

    /// The parameters of each key.
    pub fn width(&self) -> usize {
        self.as_entries().map_or(1, |table| table.width)
    }

    /// The keys it holds.
    pub fn keys(&self) -> Range<usize> {
        match self {
            ParamTable::Flat(table) => table.range(),
            ParamTable::Entries(table) => table.keys(),
        }
    }

    /// The keys it holds as the model counts them, and their places, by which the other methods
    /// name them.
    pub fn key_runs(&self) -> Vec<KeyRun> {
        match self {
            ParamTable::Flat(table) => {
                vec![KeyRun { keys: table.range(), place: table.range().start }]
            }
            ParamTable::Entries(table) => table.part.runs().collect(),
        }
    }

    /// Turns places of keys into the keys, as the model counts them.
    pub fn name_keys(&self, places: &mut [u32]) {
        if let ParamTable::Entries(table) = self {
            for place in places {
                *place = table.part.key_at(*place as usize) as u32;
            }
        }
    }

    /// The range of the model's flat parameters that it holds.
    pub fn range(&self) -> Range<usize> {
        match self {
            ParamTable::Flat(table) => table.range(),
            ParamTable::Entries(table) => table.params(),
        }
    }

    /// Entries that exist; `None` if every key has one.
    pub fn entries(&self) -> Option<usize> {
        self.as_entries().map(EntryTable::entries)
    }

    /// The optimizer and its settings.
    pub fn spec(&self) -> &OptimizerSpec {
        match self {
            ParamTable::Flat(table) => table.spec(),
            ParamTable::Entries(table) => &table.spec,
        }
    }

    /// Copies the parameters of keys to `out`, [`width`](Self::width) for each: the current ones,
    /// or those that the key starts from. The keys need not be sorted, but features come before
    /// others.
    ///
    /// # Panics
    /// If `out` has another length, or a key is outside the table's range.
    pub fn read(&self, keys: &[u32], out: &mut [f32]) {
        either!(self, table => table.read(keys, out));
    }

    /// As [`read`](Self::read), with zeros for keys that no gradient has touched: what tests and
    /// predictions use.
    ///
    /// # Panics
    /// In the same cases.
    pub fn read_known(&self, keys: &[u32], out: &mut [f32]) {
        match self {
            ParamTable::Flat(table) => table.read(keys, out),
            ParamTable::Entries(table) => table.read_known(keys, out),
        }
    }

    /// Applies one sparse gradient. Each key occurs once, in an order that [`read`](Self::read)
    /// takes. `step` is the number of updates made before this one. Make one call for each step.
    ///
    /// # Panics
    /// If `grad` is not of these keys, or a key is outside the table's range.
    pub fn update(&self, step: u64, keys: &[u32], grad: &[f32]) {
        either!(self, table => table.update(step, keys, grad));
    }

    /// Copies the parameters of a flat range to `out`, with zeros for keys that no gradient has
    /// touched.
    ///
    /// # Panics
    /// If the range is not inside the table's, or `out` has another length.
    pub fn read_range(&self, range: Range<usize>, out: &mut [f32]) {
        assert_eq!(range.len(), out.len(), "parameters");
        either!(self, table => table.read_range(range, out));
    }

    /// Sets the parameters of a flat range; see [`Table::write_range`].
    ///
    /// # Panics
    /// If the range is not inside the table's, or `values` has another length.
    pub fn write_range(&self, range: Range<usize>, values: &[f32]) {
        assert_eq!(range.len(), values.len(), "parameters");
        either!(self, table => table.write_range(range, values));
    }

    /// The names of the states, as written to checkpoints.
    pub fn state_names(&self) -> &[&'static str] {
        self.spec().optimizer().state_names()
    }

    /// Copies one state of a flat range to `out`, by its index among the names.
    ///
    /// # Panics
    /// If there is no such state, the range is not inside the table's, or `out` has another length.
    pub fn read_state(&self, state: usize, range: Range<usize>, out: &mut [f32]) {
        assert_eq!(range.len(), out.len(), "state");
        either!(self, table => table.read_state(state, range, out));
    }

    /// Sets one state of a flat range, by its index among the names.
    ///
    /// # Panics
    /// If there is no such state, the range is not inside the table's, or `values` has another
    /// length.
    pub fn write_state(&self, state: usize, range: Range<usize>, values: &[f32]) {
        assert_eq!(range.len(), values.len(), "state");
        either!(self, table => table.write_state(state, range, values));
    }

    /// The keys of the entries that exist in a range, in order. Every key of a flat table has one.
    ///
    /// # Panics
    /// If the range is not inside the table's.
    pub fn entry_keys(&self, keys: Range<usize>) -> Vec<u32> {
        match self {
            ParamTable::Flat(_) => keys.map(|key| key as u32).collect(),
            ParamTable::Entries(table) => table.entry_keys(keys),
        }
    }

    /// Copies a column of some keys to `out`, [`width`](Self::width) numbers for each: the
    /// parameters, or a state of them. Behind the last parameter are zeros.
    ///
    /// # Panics
    /// If `out` has another length, a key is outside the table's range, or there is no such state.
    pub fn read_entries(&self, keys: &[u32], column: EntryColumn, out: &mut [f32]) {
        assert_eq!(keys.len() * self.width(), out.len(), "numbers of the keys");
        for (&key, out) in keys.iter().zip(out.chunks_exact_mut(self.width())) {
            let range = self.params_of(key);
            let (out, padding) = out.split_at_mut(range.len());
            padding.fill(0.0);
            match column {
                EntryColumn::Params => self.read_range(range, out),
                EntryColumn::State(state) => self.read_state(state, range, out),
            }
        }
    }

    /// Sets a column of some keys, as [`read_entries`](Self::read_entries) gives it. Set parameters
    /// before their states.
    ///
    /// # Panics
    /// In the same cases.
    pub fn write_entries(&self, keys: &[u32], column: EntryColumn, values: &[f32]) {
        assert_eq!(keys.len() * self.width(), values.len(), "numbers of the keys");
        for (&key, values) in keys.iter().zip(values.chunks_exact(self.width())) {
            let range = self.params_of(key);
            let values = &values[..range.len()];
            match column {
                EntryColumn::Params => self.write_range(range, values),
                EntryColumn::State(state) => self.write_state(state, range, values),
            }
        }
    }

    /// The flat parameters of a key.
    fn params_of(&self, key: u32) -> Range<usize> {
        let start = key as usize * self.width();
        start..(start + self.width()).min(self.range().end)
    }

    /// Sets the number of updates made before, when a table is restored from a checkpoint.
    pub fn resume(&self, updates: u64) {
        either!(self, table => table.resume(updates));
    }

    /// Makes the stored bits independent of the steps before, for a checkpoint; see
    /// [`Table::fold`].
    pub fn fold(&self) {
        if let ParamTable::Flat(table) = self {
            table.fold();
        }
    }
}

#[cfg(test)]
mod tests;
