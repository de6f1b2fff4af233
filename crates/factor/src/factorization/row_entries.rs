//! Where the numbers of a row's keys are.

use paceline_model::Row;

/// The entries that a row's keys refer to, with the row's values.
#[derive(Clone, Copy, Debug)]
pub struct RowEntries<'a> {
    /// Entries of equal width, one after another: those of all keys of a batch, or a copy of the
    /// row's own.
    pub params: &'a [f32],
    /// The index of each key's entry among them. An index may occur more than once.
    pub places: &'a [u32],
    /// The value of each key; empty if all of them are 1.
    pub values: &'a [f32],
}

impl<'a> RowEntries<'a> {
    /// The sum of the linear weights, each times its value, in the order of
    /// [`Row::dot`](crate::Row::dot).
    #[inline(always)]
    pub(super) fn linear(&self, width: usize) -> f32 {
        self.row().dot_with(|place| self.params[place as usize * width])
    }

    /// Adds the gradient of `delta` times the linear part to the first number of each entry.
    #[inline(always)]
    pub(super) fn add_linear(&self, width: usize, delta: f32, grad: &mut [f32]) {
        self.row().for_each_scaled(delta, |place, slope| grad[place as usize * width] += slope);
    }

    /// The value of a key, by its index in the row.
    #[inline(always)]
    pub(super) fn value(&self, at: usize) -> f32 {
        if self.values.is_empty() { 1.0 } else { self.values[at] }
    }

    /// `B` parameters from an index on.
    #[inline(always)]
    pub(super) fn at<const B: usize>(&self, from: usize) -> &'a [f32; B] {
        match self.params[from..].first_chunk() {
            Some(part) => part,
            None => panic!("an entry ends beyond the {} parameters", self.params.len()),
        }
    }

    #[inline(always)]
    fn row(&self) -> Row<'a> {
        debug_assert!(self.values.is_empty() || self.values.len() == self.places.len());
        Row { label: 0, weight: 1.0, keys: self.places, values: self.values, fields: &[] }
    }
}

/// `B` numbers from an index on, to be changed.
#[inline(always)]
pub(super) fn part_mut<const B: usize>(numbers: &mut [f32], from: usize) -> &mut [f32; B] {
    let len = numbers.len();
    match numbers[from..].first_chunk_mut() {
        Some(part) => part,
        None => panic!("an entry ends beyond the {len} numbers of the gradient"),
    }
}
