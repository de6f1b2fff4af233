//! The memory behind sparse rows: a mapped cache file, or an anonymous map of the same layout.
//!
//! Rows from an iterator are laid out exactly as in a cache file. So there is one way to read a
//! row, with no branch on where it came from.

use std::io;
use std::ops::Range;

use memmap2::{Mmap, MmapMut};

/// Sections begin at multiples of this, in bytes.
const ALIGN: usize = 64;

/// The bytes of a map that each section of the rows takes up.
#[derive(Clone, Debug)]
pub(crate) struct RowSections {
    pub(crate) keys: Range<usize>,
    pub(crate) values: Range<usize>,
    pub(crate) starts: Range<usize>,
    pub(crate) labels: Range<usize>,
}

/// Rows in a map. The keys, starts and labels are checked before a store is handed out.
#[derive(Debug)]
pub(crate) struct RowStore {
    map: Mmap,
    sections: RowSections,
    pub(crate) features: usize,
    /// The rows before this one are for training, the others for testing.
    pub(crate) train_rows: usize,
    /// Rows of the source that could not be read and were left out.
    pub(crate) skipped: u64,
    /// The index of the first feature in the source: 0 or 1.
    pub(crate) first_index: u32,
}

impl RowStore {
    /// Rows in a map whose sections are aligned. The caller checks what they contain.
    pub(crate) fn new(map: Mmap, sections: RowSections, features: usize) -> Self {
        RowStore { map, sections, features, train_rows: 0, skipped: 0, first_index: 0 }
    }

    /// Copies collected rows into an anonymous map.
    pub(crate) fn in_memory(rows: &CollectedRows, features: usize) -> io::Result<Self> {
        let mut end = 0;
        let mut section = |bytes: &[u8]| {
            let start = usize::next_multiple_of(end, ALIGN);
            end = start + bytes.len();
            start..end
        };
        let contents: [&[u8]; 4] = [
            bytemuck::cast_slice(&rows.keys),
            bytemuck::cast_slice(&rows.values),
            bytemuck::cast_slice(&rows.starts),
            &rows.labels,
        ];
        let ranges = contents.map(&mut section);
        let mut map = MmapMut::map_anon(end)?;
        for (range, bytes) in ranges.iter().zip(contents) {
            map[range.clone()].copy_from_slice(bytes);
        }
        let [keys, values, starts, labels] = ranges;
        let sections = RowSections { keys, values, starts, labels };
        let mut store = RowStore::new(map.make_read_only()?, sections, features);
        store.train_rows = rows.labels.len();
        Ok(store)
    }

    #[inline]
    pub(crate) fn keys(&self) -> &[u32] {
        bytemuck::cast_slice(&self.map[self.sections.keys.clone()])
    }

    /// The values; empty if all are 1.
    #[inline]
    pub(crate) fn values(&self) -> &[f32] {
        bytemuck::cast_slice(&self.map[self.sections.values.clone()])
    }

    /// The index in the keys at which each row begins, and after the last row the number of keys.
    #[inline]
    pub(crate) fn starts(&self) -> &[u64] {
        bytemuck::cast_slice(&self.map[self.sections.starts.clone()])
    }

    #[inline]
    pub(crate) fn labels(&self) -> &[u8] {
        &self.map[self.sections.labels.clone()]
    }
}

/// Rows on their way into memory.
#[derive(Debug)]
pub(crate) struct CollectedRows {
    keys: Vec<u32>,
    /// Empty as long as every value is 1.
    values: Vec<f32>,
    starts: Vec<u64>,
    labels: Vec<u8>,
}

impl CollectedRows {
    pub(crate) fn new() -> Self {
        CollectedRows { keys: vec![], values: vec![], starts: vec![0], labels: vec![] }
    }

    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Appends a row whose keys and values are checked; no values means that all are 1.
    pub(crate) fn push(&mut self, label: u32, keys: &[u32], values: &[f32]) {
        if !values.is_empty() && self.values.is_empty() {
            self.values.resize(self.keys.len(), 1.0);
        }
        let has_values = !values.is_empty() || !self.values.is_empty();
        self.keys.extend_from_slice(keys);
        self.values.extend_from_slice(values);
        if has_values {
            self.values.resize(self.keys.len(), 1.0);
        }
        self.starts.push(self.keys.len() as u64);
        self.labels.push(label as u8);
    }
}
