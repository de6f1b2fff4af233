//! Which field a key is in.

use crate::error::DataError;

/// The most fields of a row.
const MOST_FIELDS: usize = 1 << 16;

/// The fields of keys that lie together: a field begins at a key and ends before the next one
/// begins. Fields of single numbers come after all others.
///
/// ```
/// use paceline_data::sparse::FieldMap;
///
/// // Keys 0 to 2, then the number of key 3, then keys from 4 on.
/// let map = FieldMap::new([(0, false), (3, true), (4, false)]);
/// assert_eq!((map.len(), map.numbers()), (3, 1));
/// assert_eq!([0, 2, 3, 4, 9].map(|key| map.field_of(key)), [0, 0, 2, 1, 1]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldMap {
    /// The first key of each range, ascending.
    starts: Vec<u32>,
    /// The field of each range.
    fields: Vec<u16>,
    /// The number of fields that hold a single number.
    numbers: usize,
}

impl FieldMap {
    /// The fields that begin at these keys, in ascending order, and whether a field is that of a
    /// single number.
    pub fn new(ranges: impl IntoIterator<Item = (u32, bool)>) -> Self {
        let (starts, are_numbers): (Vec<u32>, Vec<bool>) = ranges.into_iter().unzip();
        let numbers = are_numbers.iter().filter(|is_number| **is_number).count();
        let (mut vector, mut number) = (0, starts.len() - numbers);
        let next = |is_number: bool| {
            let place = if is_number { &mut number } else { &mut vector };
            *place += 1;
            (*place - 1) as u16
        };
        Self { starts, fields: are_numbers.into_iter().map(next).collect(), numbers }
    }

    /// The same, if a row can have that many fields.
    pub(super) fn checked(self) -> Result<Self, DataError> {
        if self.len() <= MOST_FIELDS {
            return Ok(self);
        }
        let remedy = if self.numbers > 0 { "; set model.numbers = \"vectors\"" } else { "" };
        let what = format!("{} fields; there may be at most {MOST_FIELDS}{remedy}", self.len());
        Err(DataError::SparseSpec { kind: "table", what })
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// How many of the last fields hold a single number each.
    pub fn numbers(&self) -> usize {
        self.numbers
    }

    /// The field of a key. A key before the first field counts as part of it.
    ///
    /// # Panics
    /// If there are no fields.
    pub fn field_of(&self, key: u32) -> u16 {
        self.fields[self.starts.partition_point(|&start| start <= key).max(1) - 1]
    }

    /// Replaces `fields` with those of rising keys.
    ///
    /// # Panics
    /// If there are keys but no fields.
    pub fn fields_of(&self, keys: &[u32], fields: &mut Vec<u16>) {
        let mut range = 0;
        fields.clear();
        fields.extend(keys.iter().map(|&key| {
            while self.starts.get(range + 1).is_some_and(|&start| start <= key) {
                range += 1;
            }
            self.fields[range]
        }));
    }
}
