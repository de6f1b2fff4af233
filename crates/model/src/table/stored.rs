//! Entries as they are stored, bit by bit: what a replica that is behind receives from another.
//!
//! A checkpoint has parameters and states by their meaning, so that any table can be filled with
//! them. Here everything that decides about the next bits is copied as it is, and nothing in the
//! table changes.

use std::ops::Range;

use super::atomic_cells::AtomicCell;
use super::param_table::ParamTable;
use super::storage::Table;

/// Some entries of a table as they are stored.
#[derive(Clone, Debug, Default)]
pub struct StoredEntries {
    /// Their keys, in order.
    pub keys: Vec<u32>,
    /// The cells of each, [`ParamTable::stored_width`] of them.
    pub cells: Vec<f32>,
}

impl ParamTable {
    /// An empty table of the same kind and the same keys, as training starts from.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn empty_like(&self) -> Result<Self, String> {
        Ok(match self {
            ParamTable::Flat(table) => ParamTable::Flat(table.empty_like()?),
            ParamTable::Entries(table) => ParamTable::Entries(Box::new(table.empty_like()?)),
        })
    }

    /// The cells of a stored entry.
    pub fn stored_width(&self) -> usize {
        match self {
            ParamTable::Flat(table) => table.width,
            ParamTable::Entries(table) => table.slabs.entry_len(),
        }
    }

    /// Replaces `out` with the next entries from the key `from` on, at most `most`. Returns the key
    /// to continue with; `None` behind the last one. Keys whose cells are all zero in a table that
    /// has all keys are left out, as an empty table has zeros too.
    pub fn copy_stored(&self, from: usize, most: usize, out: &mut StoredEntries) -> Option<usize> {
        out.keys.clear();
        out.cells.clear();
        let end = self.keys().end;
        for key in from..end {
            if out.keys.len() == most {
                return Some(key);
            }
            let cells = match self {
                ParamTable::Flat(table) => table.stored(key),
                ParamTable::Entries(table) => table.find(key as u32),
            };
            if let Some(cells) = cells {
                out.keys.push(key as u32);
                out.cells.extend(cells.iter().map(AtomicCell::get));
            }
        }
        None
    }

    /// Creates the entries of keys that a checkpoint lists, as zeros.
    ///
    /// # Panics
    /// If a key is outside the table.
    pub fn create_entries(&self, keys: &[u32]) {
        let Some(table) = self.as_entries() else { return };
        for &key in keys {
            if table.find(key).is_none() {
                table.create(key, |_| ());
            }
        }
    }

    /// Stores entries that [`copy_stored`](Self::copy_stored) has copied from a table of this kind.
    ///
    /// # Panics
    /// If a key is outside the table, or the cells are not of these keys.
    pub fn restore_stored(&self, keys: &[u32], cells: &[f32]) {
        let width = self.stored_width();
        assert_eq!(keys.len() * width, cells.len(), "cells of the keys");
        for (&key, cells) in keys.iter().zip(cells.chunks_exact(width)) {
            let place = match self {
                ParamTable::Flat(table) => table.stored_at(key as usize),
                ParamTable::Entries(table) => {
                    table.find(key).unwrap_or_else(|| table.create(key, |_| ()))
                }
            };
            place.iter().zip(cells).for_each(|(cell, &value)| cell.set(value));
        }
    }

    /// The common factors of the stored parameters of a table that has all keys.
    pub fn stored_factors(&self) -> Vec<f64> {
        match self {
            ParamTable::Flat(table) => table.factors(),
            ParamTable::Entries(_) => Vec::new(),
        }
    }

    /// Sets the common factors that [`stored_factors`](Self::stored_factors) has given.
    pub fn restore_factors(&self, factors: &[f64]) {
        if let ParamTable::Flat(table) = self {
            table.set_factors(factors);
        }
    }

    /// As [`copy_stored`](Self::copy_stored), for the keys without an entry that updates have named
    /// ([`EntryPolicy`](super::EntryPolicy)): a key's only cell has the bits of how many have.
    pub fn copy_counts(&self, from: usize, most: usize, out: &mut StoredEntries) -> Option<usize> {
        out.keys.clear();
        out.cells.clear();
        let table = self.as_entries().filter(|table| table.policy.min_count > 1)?;
        for key in from..self.keys().end {
            if out.keys.len() == most {
                return Some(key);
            }
            if let Some(count) = table.counted(key as u32) {
                out.keys.push(key as u32);
                out.cells.push(f32::from_bits(count));
            }
        }
        None
    }

    /// All that [`copy_counts`](Self::copy_counts) gives for a range of keys.
    ///
    /// # Panics
    /// If the range is not inside the table's.
    pub fn counts(&self, keys: Range<usize>) -> StoredEntries {
        let mut counts = StoredEntries::default();
        self.copy_counts(keys.start, usize::MAX, &mut counts);
        let within = counts.keys.partition_point(|&key| (key as usize) < keys.end);
        counts.keys.truncate(within);
        counts.cells.truncate(within);
        counts
    }

    /// Sets how many updates have named keys without an entry.
    ///
    /// # Panics
    /// If a key is outside the table.
    pub fn set_counts(&self, keys: &[u32], counts: &[u32]) {
        if let Some(table) = self.as_entries() {
            table.set_counts(keys, counts);
        }
    }

    /// When updates have last named the entries of some keys, as a number that rises; nothing if
    /// entries are not evicted.
    ///
    /// # Panics
    /// If a key is outside the table.
    pub fn marks(&self, keys: &[u32]) -> Vec<u32> {
        self.as_entries().map(|table| table.marks(keys)).unwrap_or_default()
    }

    /// Sets the numbers that [`marks`](Self::marks) has given, if entries are evicted.
    ///
    /// # Panics
    /// If a key is outside the table.
    pub fn set_marks(&self, keys: &[u32], marks: &[u32]) {
        if let Some(table) = self.as_entries() {
            table.set_marks(keys, marks);
        }
    }

    /// What [`marks`](Self::marks) gives for an entry that update number `step` names.
    pub fn mark_of(&self, step: u64) -> u32 {
        let after = self.as_entries().and_then(|table| table.policy.evict_after);
        after.map_or(0, |after| (step / after) as u32)
    }
}

impl Table {
    /// The cells of a key, unless all are zero.
    fn stored(&self, key: usize) -> Option<&[AtomicCell]> {
        Some(self.stored_at(key)).filter(|cells| cells.iter().any(|cell| cell.bits() != 0))
    }

    fn stored_at(&self, key: usize) -> &[AtomicCell] {
        let at = (key - self.range.start) * self.width;
        &self.cells.all()[at..at + self.width]
    }

    fn factors(&self) -> Vec<f64> {
        let scales = self.spans.iter().filter_map(|span| span.scale.as_ref());
        scales.map(super::decay_scale::DecayScale::get).collect()
    }

    fn set_factors(&self, factors: &[f64]) {
        let scales = self.spans.iter().filter_map(|span| span.scale.as_ref());
        scales.zip(factors).for_each(|(scale, &factor)| scale.set(factor));
    }
}
