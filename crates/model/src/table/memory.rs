//! How much memory a table takes, before there is one and when it is full.

use super::entry_policy::EntryPolicy;
use super::param_table::ParamTable;
use super::storage::Table;
use crate::memory_text;
use crate::optimizer::OptimizerSpec;

/// The memory of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMemory {
    /// The keys that it may hold.
    pub keys: usize,
    /// What it takes before the first update, in bytes: everything if each key has one parameter,
    /// otherwise the index.
    pub fixed: u64,
    /// What each entry takes beyond that, in bytes.
    pub entry: u64,
}

impl TableMemory {
    /// The memory of a table of `keys` keys with `width` parameters each.
    ///
    /// # Panics
    /// If [`ParamTable::supports`] refuses the optimizer.
    pub fn of(spec: &OptimizerSpec, width: usize, keys: usize, policy: EntryPolicy) -> Self {
        let number = size_of::<f32>() as u64;
        if width == 1 {
            let fixed = number * keys as u64 * Table::width(spec) as u64;
            return Self { keys, fixed, entry: 0 };
        }
        let mark = number * u64::from(policy.evict_after.is_some());
        let entry = ParamTable::entry_bytes(spec, width) as u64 + mark;
        Self { keys, fixed: number * keys as u64, entry }
    }

    /// What the table takes if every key has an entry, in bytes.
    pub fn most(&self) -> u64 {
        self.fixed.saturating_add(self.entry.saturating_mul(self.keys as u64))
    }

    /// The most entries that fit into `limit` bytes; `None` if all do.
    ///
    /// # Errors
    /// If the table does not fit without any entry: what it needs, in words.
    pub fn entries_within(&self, limit: u64) -> Result<Option<usize>, String> {
        let text = |bytes: u64| memory_text(bytes.into());
        let Some(left) = limit.checked_sub(self.fixed) else {
            let what = if self.entry > 0 { "the index of" } else { "a table of" };
            return Err(format!(
                "{what} {} keys takes {}, and cluster.memory is {}; raise it, use fewer features, \
                 or more servers",
                self.keys,
                text(self.fixed),
                text(limit)
            ));
        };
        let entries = left.checked_div(self.entry).unwrap_or(u64::MAX);
        Ok(usize::try_from(entries).ok().filter(|&entries| entries < self.keys))
    }
}

impl ParamTable {
    /// The bytes of the index, the entries and their state, with those of evicted entries; of a
    /// flat table, of all keys.
    pub fn used_bytes(&self) -> u64 {
        match self {
            ParamTable::Flat(table) => (size_of::<f32>() * table.width * table.len()) as u64,
            ParamTable::Entries(table) => {
                let keys = self.keys().len();
                let memory = TableMemory::of(&table.spec, table.width, keys, table.policy);
                memory.fixed + memory.entry * table.slabs.held() as u64
            }
        }
    }

    /// Checks that every key that an update has named has found room for its entry.
    ///
    /// # Errors
    /// How many entries there are and what they take, if one has not.
    pub fn check_room(&self) -> Result<(), String> {
        let ParamTable::Entries(table) = self else { return Ok(()) };
        if !table.is_full() {
            return Ok(());
        }
        let (keys, entries) = (self.keys().len(), table.entries());
        Err(format!(
            "the table has {entries} of {keys} keys and takes {}, and cluster.memory has no room \
             for more; raise it, set model.min_count or model.evict_after, or use more servers",
            memory_text(self.used_bytes().into())
        ))
    }
}
