//! A segment: some rows of a cache that were converted together.
//!
//! ```text
//! header (128 bytes) | index | weights | rows | padding
//! ```
//!
//! The index has 40 bits for each row: 32 for where it begins within the rows, and 8 for its label;
//! 32 bits at the end say where the rows end. Start and label lie together because shuffled rows
//! are read from anywhere, and every other place costs another wait for memory. Weights are floats
//! (absent if all are 1). If the rows have fields, each row ends with a byte for the field of each
//! key, or two bytes if a field of the segment is above 255. A segment begins at a multiple of 64
//! bytes and ends with at least 320 zeros. Its header says where in the source files its rows end,
//! so a conversion that was interrupted continues there.

use std::ops::Range;

use super::key_code::key_bits;
use super::key_encoder::KeyEncoder;
use super::key_reader::SLACK_BYTES;
use crate::sparse::collected_rows::CollectedRows;
use crate::sparse::limits::MAX_ROW_ENTRIES;

/// The length of a segment's header, in bytes.
const SEGMENT_HEADER_BYTES: usize = 128;

/// The length of a row's start, and of its part of the index: the start and the label.
const START_BYTES: usize = 4;
pub(crate) const INDEX_BYTES: usize = START_BYTES + 1;

/// The first bytes of every segment.
const MAGIC: u32 = u32::from_le_bytes(*b"SEGM");

/// Segments begin at multiples of this, in bytes.
pub(crate) const ALIGN: usize = 64;

/// The position of the checksum in the header; it covers everything else.
const CHECKSUM_AT: usize = 4;

/// A place in the source files of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourcePosition {
    /// The number of the file: training files first, then test files.
    pub(crate) file: u32,
    /// The next byte of the file's content (unpacked), or the next generated row.
    pub(crate) offset: u64,
    /// The number of lines or records before it.
    pub(crate) number: u64,
}

/// What a segment contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) rows: u32,
    /// The length of the encoded rows, in bytes.
    pub(crate) row_bytes: u32,
    pub(crate) entries: u64,
    /// Rows of the source that were left out.
    pub(crate) skipped: u64,
    /// One more than the greatest key; 0 without entries.
    pub(crate) features_needed: u64,
    pub(crate) has_values: bool,
    pub(crate) has_weights: bool,
    pub(crate) is_test: bool,
    /// One more than the greatest field; 0 if rows have no fields.
    pub(crate) fields_needed: u32,
    /// Where the rows end in the source files.
    pub(crate) end: SourcePosition,
    /// A bit for each label that occurs.
    pub(crate) labels: [u64; 4],
}

/// The bytes of a segment that each of its sections takes up.
#[derive(Clone, Debug)]
pub(crate) struct SegmentSections {
    pub(crate) index: Range<usize>,
    pub(crate) weights: Range<usize>,
    /// The rows, and the zeros after them.
    pub(crate) rows: Range<usize>,
}

impl SegmentSections {
    /// The same sections of a segment that begins at this byte.
    pub(crate) fn at(self, at: usize) -> Self {
        let shift = |range: Range<usize>| at + range.start..at + range.end;
        let SegmentSections { index, weights, rows } = self;
        SegmentSections { index: shift(index), weights: shift(weights), rows: shift(rows) }
    }
}

impl SegmentHeader {
    /// Where the sections are, if the segment begins at 0.
    pub(crate) fn sections(&self) -> SegmentSections {
        let rows = self.rows as usize;
        let index = SEGMENT_HEADER_BYTES..SEGMENT_HEADER_BYTES + INDEX_BYTES * rows + START_BYTES;
        let weights_at = index.end.next_multiple_of(4);
        let weights = weights_at..weights_at + if self.has_weights { 4 * rows } else { 0 };
        let end = weights.end + self.row_bytes as usize + SLACK_BYTES;
        let rows = weights.end..end.next_multiple_of(ALIGN);
        SegmentSections { index, weights, rows }
    }

    /// The number of bits of keys that are not popular.
    pub(crate) fn key_bits(&self) -> usize {
        key_bits(self.features_needed)
    }

    /// The number of bytes of a field; 0 if rows have no fields.
    pub(crate) fn field_bytes(&self) -> usize {
        match self.fields_needed {
            0 => 0,
            1..=256 => 1,
            _ => 2,
        }
    }

    /// The length of the segment, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.sections().rows.end
    }

    fn to_bytes(self) -> [u8; SEGMENT_HEADER_BYTES] {
        let flags = u32::from(self.has_values)
            | u32::from(self.has_weights) << 1
            | u32::from(self.is_test) << 2;
        let words = [MAGIC, 0, self.rows, self.row_bytes, flags, self.end.file];
        let numbers =
            [self.entries, self.skipped, self.features_needed, self.end.offset, self.end.number];
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..24].copy_from_slice(bytemuck::cast_slice(&words));
        bytes[24..64].copy_from_slice(bytemuck::cast_slice(&numbers));
        bytes[64..96].copy_from_slice(bytemuck::cast_slice(&self.labels));
        bytes[96..100].copy_from_slice(&self.fields_needed.to_le_bytes());
        bytes
    }

    /// Parses the header of the segment that `bytes` begins with. `None` if it is not one, or the
    /// segment is longer than the bytes. The rest is not checked.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let head = bytes.first_chunk::<SEGMENT_HEADER_BYTES>()?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let flags = word(16);
        let header = SegmentHeader {
            rows: word(8),
            row_bytes: word(12),
            entries: number(24),
            skipped: number(32),
            features_needed: number(40),
            has_values: flags & 1 != 0,
            has_weights: flags & 2 != 0,
            is_test: flags & 4 != 0,
            fields_needed: word(96),
            end: SourcePosition { file: word(20), offset: number(48), number: number(56) },
            labels: std::array::from_fn(|part| number(64 + 8 * part)),
        };
        (word(0) == MAGIC && flags < 8 && header.len() <= bytes.len()).then_some(header)
    }
}

/// Encodes rows as a segment, whose bytes replace the contents of `out`.
pub(crate) fn encode_segment(
    rows: &CollectedRows,
    encoder: &KeyEncoder,
    mut header: SegmentHeader,
    out: &mut Vec<u8>,
) -> SegmentHeader {
    let count = rows.len();
    header.rows = count as u32;
    header.entries = rows.keys().len() as u64;
    header.has_values = !rows.values().is_empty();
    header.has_weights = !rows.weights().is_empty();
    header.fields_needed = rows.fields().iter().max().map_or(0, |&field| u32::from(field) + 1);
    header.features_needed = rows.keys().iter().max().map_or(0, |&key| u64::from(key) + 1);
    let key_bits = header.key_bits();
    let SegmentSections { index, weights, rows: rows_at } = header.sections();
    out.clear();
    out.resize(rows_at.start, 0);
    for row in 0..count {
        let (keys, values) = rows.row(row);
        let start = (out.len() - rows_at.start) as u32;
        let at = index.start + INDEX_BYTES * row;
        out[at..at + START_BYTES].copy_from_slice(&start.to_le_bytes());
        out[at + START_BYTES] = rows.labels()[row];
        encoder.encode(keys, values, key_bits, out);
        put_fields(rows.row_fields(row), header.field_bytes(), out);
    }
    // A block of input is at most some tens of megabytes, so its rows are far below 4 GiB.
    header.row_bytes = (out.len() - rows_at.start) as u32;
    out[index.end - START_BYTES..index.end].copy_from_slice(&header.row_bytes.to_le_bytes());
    for &label in rows.labels() {
        header.labels[usize::from(label) / 64] |= 1 << (label % 64);
    }
    out[weights].copy_from_slice(bytemuck::cast_slice(rows.weights()));
    out.resize(header.len(), 0);
    out[..SEGMENT_HEADER_BYTES].copy_from_slice(&header.to_bytes());
    let checksum = checksum(out);
    out[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Appends the fields of a row.
fn put_fields(fields: &[u16], field_bytes: usize, out: &mut Vec<u8>) {
    match field_bytes {
        0 => {}
        1 => out.extend(fields.iter().map(|&field| field as u8)),
        _ => out.extend(fields.iter().flat_map(|field| field.to_le_bytes())),
    }
}

/// Appends `count` fields from the end of a row's bytes.
#[inline]
pub(crate) fn take_fields(row: &[u8], count: usize, field_bytes: usize, fields: &mut Vec<u16>) {
    let (start, after) = (row.len().saturating_sub(count * field_bytes), fields.len() + count);
    match field_bytes {
        // Only a segment whose rows are all empty has no fields where others do.
        0 => {}
        1 => fields.extend(row[start..].iter().map(|&field| u16::from(field))),
        _ => fields.extend(row[start..].as_chunks().0.iter().map(|&pair| u16::from_le_bytes(pair))),
    }
    // A row that is shorter than its fields is damaged; it still has one for each key.
    fields.resize(after, 0);
}

/// The checksum of a segment's bytes, without the checksum in them.
fn checksum(segment: &[u8]) -> u32 {
    let start = crc32c::crc32c(&segment[..CHECKSUM_AT]);
    crc32c::crc32c_append(start, &segment[CHECKSUM_AT + 4..])
}

/// Whether a segment has its checksum and its rows lie within it. `segment` has the length that
/// its header says.
pub(crate) fn is_sound(header: &SegmentHeader, segment: &[u8]) -> bool {
    if segment[CHECKSUM_AT..CHECKSUM_AT + 4] != checksum(segment).to_le_bytes() {
        return false;
    }
    let index = &segment[header.sections().index];
    let starts = || (0..=header.rows as usize).filter_map(|row| row_start(index, row));
    // The longest row has a head, kinds, keys of 32 bits, values and fields of two bytes.
    let longest = 8 + 11 * MAX_ROW_ENTRIES;
    starts().next() == Some(0)
        && starts().next_back() == Some(header.row_bytes as usize)
        && starts()
            .zip(starts().skip(1))
            .all(|(start, end)| end.checked_sub(start).is_some_and(|len| len <= longest))
}

/// Where a row begins within the rows of a segment with this index; after the last row, where they
/// end.
#[inline]
pub(crate) fn row_start(index: &[u8], row: usize) -> Option<usize> {
    let start = index.get(INDEX_BYTES * row..)?.first_chunk::<START_BYTES>()?;
    Some(u32::from_le_bytes(*start) as usize)
}

/// The label of a row of a segment with this index.
#[inline]
pub(crate) fn row_label(index: &[u8], row: usize) -> Option<u8> {
    index.get(INDEX_BYTES * row + START_BYTES).copied()
}

#[cfg(test)]
mod tests;
