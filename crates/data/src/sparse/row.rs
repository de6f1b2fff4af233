//! One row: on its way from a reader to the cache, and read back.
//!
//! Readers push entries in the order of the file. [`RowBuffer::finish`] turns them into a row that
//! all later code relies on: keys rise, the values of a repeated key are added up, every value is
//! finite and every key is below the limit.

use paceline_generate::ClickRow;

use super::key_order::KeyOrder;
use super::label_rule::LabelRule;
use super::limits::MAX_ROW_ENTRIES;
use super::row_fault::RowFault;

/// One row: its label, and the features that are not zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparseRow<'a> {
    /// 1 for a click, else 0; or the number of the row's class, at most 255.
    pub label: u32,
    /// What the row's loss is multiplied by in training; 1 unless the source says otherwise.
    pub weight: f32,
    /// The features that are not zero, in ascending order. Only in Criteo's rows may a key repeat:
    /// two columns may share a key, which then counts twice.
    pub keys: &'a [u32],
    /// The values of the features; empty if all are 1.
    pub values: &'a [f32],
    /// The field of each feature; empty if the rows have no fields, or none were asked for. A key
    /// may then repeat, in another field.
    pub fields: &'a [u16],
}

impl SparseRow<'_> {
    /// The value of the entry at `index`.
    ///
    /// # Panics
    /// If `index` is not below the number of entries.
    pub fn value(&self, index: usize) -> f32 {
        if self.values.is_empty() { 1.0 } else { self.values[index] }
    }
}

/// A generated row, without its ranks.
pub(crate) fn click_row(row: &ClickRow, with_fields: bool) -> SparseRow<'_> {
    let fields = if with_fields { &row.fields[..] } else { &[] };
    SparseRow { label: row.label, weight: 1.0, keys: &row.keys, values: &[], fields }
}

/// A row that was copied from its store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredRow {
    /// 1 for a click, else 0; or the number of the row's class.
    pub label: u32,
    /// The features that are not zero, in ascending order.
    pub keys: Vec<u32>,
    /// The values of the features; empty if all are 1.
    pub values: Vec<f32>,
    /// The field of each feature; empty if rows are stored without.
    pub fields: Vec<u16>,
}

impl StoredRow {
    /// The value of the entry at `index`.
    ///
    /// # Panics
    /// If `index` is not below the number of entries.
    pub fn value(&self, index: usize) -> f32 {
        if self.values.is_empty() { 1.0 } else { self.values[index] }
    }
}

/// A reusable buffer in which a reader assembles one row.
#[derive(Debug, Default)]
pub(crate) struct RowBuffer {
    label: u32,
    rule: LabelRule,
    /// The keys, in the order of the file.
    pub(crate) keys: Vec<u32>,
    /// A value for each key; none in rows that [`finish_ones`](Self::finish_ones) completes.
    pub(crate) values: Vec<f32>,
    /// A field for each key, if [`has_fields`](Self::has_fields).
    pub(crate) fields: Vec<u16>,
    has_fields: bool,
    /// The fields are below this number, if it is known.
    most_fields: Option<usize>,
    order: KeyOrder,
}

impl RowBuffer {
    /// Starts a new row.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.fields.clear();
        self.label = 0;
    }

    /// A buffer for rows with labels of this kind.
    pub(crate) fn new(rule: LabelRule) -> Self {
        RowBuffer { rule, ..RowBuffer::default() }
    }

    /// The same, for rows whose keys have fields if `has_fields`.
    pub(crate) fn with_fields(self, has_fields: bool) -> Self {
        RowBuffer { has_fields, ..self }
    }

    /// The same, for rows whose fields are below a number.
    pub(crate) fn with_most_fields(self, fields: usize) -> Self {
        RowBuffer { most_fields: Some(fields), ..self }
    }

    /// Adds the field of a key, whose entry begins at a byte of the line.
    #[inline]
    pub(crate) fn push_field(&mut self, field: u16, at: usize) -> Result<(), RowFault> {
        if let Some(fields) = self.most_fields.filter(|&fields| usize::from(field) >= fields) {
            return Err(RowFault::FieldOutOfRange { field, at, fields });
        }
        self.fields.push(field);
        Ok(())
    }

    /// Whether readers set the field of each key.
    #[inline]
    pub(crate) fn has_fields(&self) -> bool {
        self.has_fields
    }

    /// Whether rows have labels.
    pub(crate) fn has_label(&self) -> bool {
        self.rule != LabelRule::Absent
    }

    /// Sets the label: 0 or 1, or -1 or +1; or that of a class.
    #[inline]
    pub(crate) fn set_label(&mut self, label: i64) -> Result<(), RowFault> {
        self.label = match (self.rule, label) {
            (LabelRule::Binary, 1) => 1,
            (LabelRule::Binary, 0 | -1) => 0,
            (LabelRule::Binary, _) => return Err(RowFault::Label),
            (LabelRule::Absent, _) => 0,
            (LabelRule::Classes, _) => {
                let stored = label.saturating_sub(LabelRule::FIRST_CLASS);
                u8::try_from(stored).map_err(|_| RowFault::ClassLabel)?.into()
            }
        };
        Ok(())
    }

    /// Completes a row of ones: sorts the keys, and leaves repeated keys as they are.
    pub(crate) fn finish_ones(&mut self) -> SparseRow<'_> {
        debug_assert!(self.values.is_empty(), "a row of ones has no values");
        if self.has_fields {
            self.order.sort_ones(&mut self.keys, &mut self.fields);
        } else {
            self.keys.sort_unstable();
        }
        self.row(&[])
    }

    /// Completes a row: sorts the keys, adds up the values of repeated keys, and checks the limits.
    pub(crate) fn finish(&mut self, features: usize) -> Result<SparseRow<'_>, RowFault> {
        let (indices, values) = (self.keys.len(), self.values.len());
        if indices > MAX_ROW_ENTRIES {
            return Err(RowFault::TooManyEntries);
        }
        if indices != values {
            return Err(RowFault::Lengths { indices, values });
        }
        if self.has_fields {
            self.order.sort_fields(&mut self.keys, &mut self.values, &mut self.fields);
        } else {
            self.order.sort(&mut self.keys, &mut self.values);
        }
        if let Some(&greatest) = self.keys.last()
            && greatest as usize >= features
        {
            return Err(RowFault::KeyOutOfRange { key: greatest, features });
        }
        if self.values.iter().fold(true, |ones, &value| ones & (value == 1.0)) {
            return Ok(self.row(&[]));
        }
        if !self.values.iter().fold(true, |finite, value| finite & value.is_finite()) {
            return Err(RowFault::NotFinite);
        }
        Ok(self.row(&self.values))
    }

    fn row<'a>(&'a self, values: &'a [f32]) -> SparseRow<'a> {
        let RowBuffer { label, keys, fields, .. } = self;
        SparseRow { label: *label, weight: 1.0, keys, values, fields }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(entries: &[(u32, f32)]) -> Result<(Vec<u32>, Vec<f32>), String> {
        let mut buffer = RowBuffer::default();
        buffer.clear();
        for &(key, value) in entries {
            buffer.keys.push(key);
            buffer.values.push(value);
        }
        let row = buffer.finish(10).map_err(|fault| fault.to_string())?;
        Ok((row.keys.to_vec(), row.values.to_vec()))
    }

    #[test]
    fn keys_are_sorted_and_repeated_ones_summed() {
        let unsorted = [(5, 1.0), (2, 0.5), (5, 2.0), (0, 4.0)];
        assert_eq!(row(&unsorted).unwrap(), (vec![0, 2, 5], vec![4.0, 0.5, 3.0]));
        assert_eq!(row(&[(1, 1.0), (1, 1.0)]).unwrap(), (vec![1], vec![2.0]));
    }

    #[test]
    fn keys_are_sorted_with_their_fields_and_summed_only_within_one() {
        let mut buffer = RowBuffer::default().with_fields(true);
        buffer.clear();
        buffer.keys.extend([5, 2, 5, 5]);
        buffer.values.extend([1.0, 0.5, 2.0, 4.0]);
        buffer.fields.extend([1, 0, 3, 1]);
        let row = buffer.finish(10).unwrap();
        assert_eq!((row.keys, row.fields), (&[2, 5, 5][..], &[0, 1, 3][..]));
        assert_eq!(row.values, [0.5, 5.0, 2.0]);
        buffer.clear();
        buffer.keys.extend([7, 3, 7]);
        buffer.fields.extend([2, 1, 0]);
        let row = buffer.finish_ones();
        assert_eq!((row.keys, row.fields), (&[3, 7, 7][..], &[1, 0, 2][..]));
    }

    #[test]
    fn rows_of_ones_store_no_values() {
        assert_eq!(row(&[(3, 1.0), (9, 1.0)]).unwrap(), (vec![3, 9], vec![]));
        assert_eq!(row(&[(9, 1.0), (3, 1.0)]).unwrap(), (vec![3, 9], vec![]));
        assert_eq!(row(&[(9, 0.5), (9, 0.5)]).unwrap(), (vec![9], vec![]));
        assert_eq!(row(&[]).unwrap(), (vec![], vec![]));
    }

    #[test]
    fn a_key_out_of_range_and_an_infinite_sum_are_faults() {
        assert!(row(&[(10, 1.0), (3, 1.0)]).unwrap_err().contains("10"));
        assert!(row(&[(1, f32::MAX), (1, f32::MAX)]).is_err());
        assert!(row(&[(1, f32::NAN)]).is_err());
    }

    #[test]
    fn labels_are_0_and_1_or_minus_1_and_1() {
        let mut buffer = RowBuffer::default();
        for (label, expected) in [(0, 0), (1, 1), (-1, 0)] {
            buffer.clear();
            buffer.set_label(label).unwrap();
            assert_eq!(buffer.finish(1).unwrap().label, expected);
        }
        assert!(buffer.set_label(2).is_err());
    }
}
