//! The memory behind sparse rows: a mapped cache file, or an anonymous map of the same segments.
//!
//! Rows from an iterator are laid out exactly as in a cache file. So there is one way to read a
//! row, with no branch on where it came from.

use std::io;

use memmap2::MmapMut;
use paceline_filemap::FileMap;

use super::collected_rows::CollectedRows;
use super::segment::{
    INDEX_BYTES, KeyBuffer, KeyCode, KeyEncoder, KeyReader, SegmentHeader, SegmentSections,
    encode_segment, row_label, row_start, take_fields,
};
use crate::batch::prefetch;

/// Decoding vectors of keys reads at most this many bytes behind a row.
const READ_BEHIND: usize = 16;

/// Rows in a map. Everything is checked before a store is handed out.
#[derive(Debug)]
pub(crate) struct RowStore {
    map: FileMap,
    keys: KeyReader,
    segments: Box<[StoredSegment]>,
    /// For each block of rows, the segment of its first row; then the last segment.
    blocks: Box<[u32]>,
    /// A block has 2 to the power of this many rows.
    block_bits: u32,
    rows: usize,
    pub(crate) features: usize,
    /// The rows before this one are for training, the others for testing.
    pub(crate) train_rows: usize,
    /// Rows of the source that could not be read and were left out.
    pub(crate) skipped: u64,
    /// The number of entries of all rows.
    pub(crate) entries: u64,
    pub(crate) has_values: bool,
    pub(crate) has_weights: bool,
    /// One more than the greatest field; 0 if rows have no fields.
    pub(crate) fields: usize,
    /// How many of the last fields hold a single number each.
    pub(crate) number_fields: usize,
    /// The index of the first feature in the source: 0 or 1.
    pub(crate) first_index: u32,
    /// A bit for each label that occurs in the training set, and in the test set.
    pub(crate) labels: [[u64; 4]; 2],
}

/// A segment and its place in the map.
#[derive(Clone, Debug)]
struct StoredSegment {
    first_row: usize,
    rows: usize,
    /// The number of bits of keys that are not popular.
    key_bits: usize,
    /// The number of bytes of a field.
    field_bytes: usize,
    sections: SegmentSections,
}

/// A row's segment and its number there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowPlace {
    segment: u32,
    row: u32,
}

/// Collects the segments of a store.
pub(crate) struct RowStoreBuilder {
    code: KeyCode,
    segments: Vec<StoredSegment>,
    rows: usize,
    train_rows: usize,
    skipped: u64,
    entries: u64,
    has_values: bool,
    has_weights: bool,
    fields: usize,
    labels: [[u64; 4]; 2],
}

impl RowStoreBuilder {
    pub(crate) fn new(code: KeyCode) -> Self {
        RowStoreBuilder {
            code,
            segments: Vec::new(),
            rows: 0,
            train_rows: 0,
            skipped: 0,
            entries: 0,
            has_values: false,
            has_weights: false,
            fields: 0,
            labels: [[0; 4]; 2],
        }
    }

    /// Adds the segment that begins at this byte of the map. The caller has checked it.
    pub(crate) fn add(&mut self, at: usize, segment: &SegmentHeader) {
        let rows = segment.rows as usize;
        if rows > 0 {
            let sections = segment.sections().at(at);
            self.segments.push(StoredSegment {
                first_row: self.rows,
                rows,
                key_bits: segment.key_bits(),
                field_bytes: segment.field_bytes(),
                sections,
            });
        }
        self.rows += rows;
        self.train_rows += if segment.is_test { 0 } else { rows };
        self.skipped += segment.skipped;
        self.entries += segment.entries;
        self.has_values |= segment.has_values;
        self.has_weights |= segment.has_weights;
        self.fields = self.fields.max(segment.fields_needed as usize);
        let known = &mut self.labels[usize::from(segment.is_test)];
        known.iter_mut().zip(segment.labels).for_each(|(known, labels)| *known |= labels);
    }

    /// The rows of the segments in a map.
    pub(crate) fn build(self, map: FileMap, features: usize) -> RowStore {
        let RowStoreBuilder { segments, rows, .. } = &self;
        let mean_rows = (rows / segments.len().max(1)).max(1);
        let block_bits = mean_rows.ilog2();
        let segment_of = |row: usize| {
            segments.partition_point(|segment| segment.first_row <= row).saturating_sub(1) as u32
        };
        let blocks = (0..=(rows >> block_bits) + 1).map(|block| segment_of(block << block_bits));
        RowStore {
            map,
            blocks: blocks.collect(),
            block_bits,
            rows: self.rows,
            features,
            train_rows: self.train_rows,
            skipped: self.skipped,
            entries: self.entries,
            has_values: self.has_values,
            has_weights: self.has_weights,
            fields: self.fields,
            number_fields: 0,
            first_index: 0,
            labels: self.labels,
            segments: self.segments.into_boxed_slice(),
            keys: KeyReader::new(self.code, features),
        }
    }
}

impl RowStore {
    /// Encodes collected rows into an anonymous map. `parts` have some thousand rows each.
    pub(crate) fn in_memory(parts: &[CollectedRows], features: usize) -> io::Result<Self> {
        let none = CollectedRows::default();
        let sample = parts.first().unwrap_or(&none);
        let code = KeyCode::for_sample(sample.keys(), sample.ends());
        let mut builder = RowStoreBuilder::new(code.clone());
        let (encoder, mut bytes, mut segment) = (KeyEncoder::new(&code), Vec::new(), Vec::new());
        for rows in parts {
            let header = encode_segment(rows, &encoder, SegmentHeader::default(), &mut segment);
            builder.add(bytes.len(), &header);
            bytes.extend_from_slice(&segment);
        }
        let mut map = MmapMut::map_anon(bytes.len().max(1))?;
        map[..bytes.len()].copy_from_slice(&bytes);
        Ok(builder.build(map.make_read_only()?.into(), features))
    }

    /// The number of rows.
    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The labels of all rows, in their order.
    pub(crate) fn labels(&self) -> impl Iterator<Item = u8> {
        self.segments.iter().flat_map(|segment| {
            let index = &self.map[segment.sections.index.clone()];
            (0..segment.rows).filter_map(|row| row_label(index, row))
        })
    }

    /// Finds the row at a place.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub(crate) fn find(&self, place: usize) -> RowPlace {
        assert!(place < self.rows, "there is no row {place}");
        let mut at = self.blocks[place >> self.block_bits] as usize;
        while self.segments[at].first_row + self.segments[at].rows <= place {
            at += 1;
        }
        RowPlace { segment: at as u32, row: (place - self.segments[at].first_row) as u32 }
    }

    /// The segment of a row, and the row's number there.
    #[inline]
    fn at(&self, place: RowPlace) -> (&StoredSegment, usize) {
        (&self.segments[place.segment as usize], place.row as usize)
    }

    #[inline]
    pub(crate) fn label(&self, place: usize) -> u8 {
        self.label_at(self.find(place))
    }

    #[inline]
    fn label_at(&self, place: RowPlace) -> u8 {
        let (segment, row) = self.at(place);
        row_label(&self.map[segment.sections.index.clone()], row).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn weight(&self, place: usize) -> f32 {
        let (segment, row) = self.at(self.find(place));
        let weights: &[f32] = bytemuck::cast_slice(&self.map[segment.sections.weights.clone()]);
        weights.get(row).copied().unwrap_or(1.0)
    }

    /// Appends a row's keys to `keys`, and its values to `values` unless all are 1. Returns its
    /// label.
    #[inline]
    pub(crate) fn read(&self, place: RowPlace, keys: &mut KeyBuffer, values: &mut Vec<f32>) -> u8 {
        let (segment, row) = self.at(place);
        let start = row_start(&self.map[segment.sections.index.clone()], row);
        let rows = &self.map[segment.sections.rows.clone()];
        let row = start.and_then(|start| rows.get(start..)).unwrap_or_default();
        self.keys.decode(row, segment.key_bits, keys, values);
        self.label_at(place)
    }

    /// Appends the fields of a row's `count` keys to `fields`; nothing if rows have none.
    #[inline]
    pub(crate) fn read_fields(&self, place: RowPlace, count: usize, fields: &mut Vec<u16>) {
        if self.fields > 0 {
            let (segment, _) = self.at(place);
            let before = fields.len();
            take_fields(self.row_bytes(place), count, segment.field_bytes, fields);
            // Models index by field, so one of a damaged row must not be beyond them.
            let last = (self.fields - 1).min(u16::MAX.into()) as u16;
            fields[before..].iter_mut().for_each(|field| *field = (*field).min(last));
        }
    }

    /// The bytes of a row.
    #[inline]
    fn row_bytes(&self, place: RowPlace) -> &[u8] {
        self.bytes_from(place, 0)
    }

    /// The bytes of a row, and some behind them.
    #[inline]
    fn bytes_from(&self, place: RowPlace, behind: usize) -> &[u8] {
        let (segment, row) = self.at(place);
        let index = &self.map[segment.sections.index.clone()];
        let range = row_start(index, row).zip(row_start(index, row + 1));
        let rows = &self.map[segment.sections.rows.clone()];
        range.and_then(|(start, end)| rows.get(start..end + behind)).unwrap_or_default()
    }

    /// Prefetches a row's part of the index into the processor's cache.
    #[inline]
    pub(crate) fn prefetch_index(&self, place: RowPlace) {
        let (segment, row) = self.at(place);
        let at = segment.sections.index.start + INDEX_BYTES * row;
        // With the start of the next row, where this one ends.
        prefetch(&self.map[at..at + 2 * INDEX_BYTES - 1]);
    }

    /// Prefetches a row's keys and values. This reads the index, so it waits for memory unless that
    /// was prefetched before.
    #[inline]
    pub(crate) fn prefetch_row(&self, place: RowPlace) {
        prefetch(self.bytes_from(place, READ_BEHIND));
    }
}
