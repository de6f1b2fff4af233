//! The fields of generated clicks: how many values each has, and how popular they are.

/// The number of fields with counts, which come first.
pub const COUNT_FIELDS: usize = 13;

/// The number of fields, and so of keys, of a row.
pub const CLICK_FIELDS: usize = 39;

/// A field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClickField {
    /// The number of values.
    pub(crate) values: u32,
    /// `values^-0.1 - 1`.
    span: f64,
}

impl ClickField {
    pub(crate) fn new(values: f64) -> Self {
        let values = values as u32;
        ClickField { values, span: 1.0 / tenth_root(values.into()) - 1.0 }
    }

    /// The share of the rows that have the value of this rank, from 0.
    pub(crate) fn share(&self, rank: u32) -> f64 {
        // The rarest value is that of a single point of the distribution.
        if rank + 1 >= self.values {
            return 0.0;
        }
        let root = |rank: u32| 1.0 / tenth_root(rank.into());
        (root(rank + 2) - root(rank + 1)) / self.span
    }

    /// The rank at the quantile `u`, from 0 to 1: the inverse of the distribution rank^-1.1 is a
    /// tenth power.
    pub(crate) fn rank(&self, u: f64) -> u32 {
        let x = u * self.span + 1.0;
        let x2 = x * x;
        let x4 = x2 * x2;
        let rank = 1.0 / (x4 * x4 * x2);
        (rank as u32).clamp(1, self.values) - 1
    }
}

/// The tenth root of a number from 1 to 10^10, by Newton's method from above.
fn tenth_root(number: f64) -> f64 {
    let mut root: f64 = 10.0;
    for _ in 0..64 {
        let mut power = 1.0;
        for _ in 0..9 {
            power *= root;
        }
        root -= (power * root - number) / (10.0 * power);
    }
    root
}
