//! The keys of a row that have vectors, apart from its numbers.

use paceline_model::Row;

/// Memory for the parts of one row.
#[derive(Clone, Debug, Default)]
pub(crate) struct SplitRow {
    keys: Vec<u32>,
    values: Vec<f32>,
    fields: Vec<u16>,
    numbers: Vec<RowNumber>,
}

/// A number of a row that a perceptron takes as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowNumber {
    pub(crate) key: u32,
    /// The place among the numbers.
    pub(crate) at: usize,
    pub(crate) value: f32,
}

impl SplitRow {
    /// Splits a row into the keys whose field is below `fields`, and the others as numbers.
    #[inline(always)]
    pub(crate) fn split<'a>(
        &'a mut self,
        row: Row<'a>,
        fields: usize,
    ) -> (Row<'a>, &'a [RowNumber]) {
        assert_eq!(row.keys.len(), row.fields.len(), "fields of the row");
        self.keys.clear();
        self.values.clear();
        self.fields.clear();
        self.numbers.clear();
        for (place, (&key, &field)) in row.keys.iter().zip(row.fields).enumerate() {
            let value = row.values.get(place).copied();
            match usize::from(field).checked_sub(fields) {
                Some(at) => {
                    self.numbers.push(RowNumber { key, at, value: value.unwrap_or(1.0) });
                }
                None => {
                    self.keys.push(key);
                    self.fields.push(field);
                    self.values.extend(value);
                }
            }
        }
        let (keys, values, fields) = (&self.keys[..], &self.values[..], &self.fields[..]);
        (Row { keys, values, fields, ..row }, &self.numbers)
    }
}
