//! Generated clicks: rows like those of Criteo's logs, in any number, without a download.
//!
//! A row has 39 fields: 13 with 50 values each, as bucketed counts have, and 26 with 10 to 10
//! million values. In each field, the popularity of the values falls as rank^-1.1, so a few values
//! are in nearly every row and most are in very few. ClickField and rank are hashed into the
//! features. Three features in ten have a hidden weight, roughly normal with deviation 0.6. The
//! label is random; its log-odds are the sum of the row's weights, shifted so that about one row in
//! four is a click.
//!
//! Row `i` depends on (features, seed, i) alone, so rows can be generated anywhere in any order.
//! The weights depend on the keys alone: other seeds give other rows with the same weights. Only
//! plain IEEE arithmetic is used, so every machine draws the same bits.

use super::criteo::COUNTS;
use super::row::SparseRow;
use crate::random::{Random, mix};

/// The number of fields, and so of keys, of a row.
pub const FIELDS: usize = super::criteo::FIELDS;

/// The smallest number of features; a row needs [`FIELDS`] different keys.
pub const MIN_FEATURES: usize = 64;

/// The index of the first test row; training rows are below it.
pub const FIRST_TEST_ROW: u64 = 1 << 40;

/// Changes whenever equal parameters give other rows.
pub(crate) const VERSION: u32 = 1;

/// The number of rows from which the shift of the odds is computed.
const PROBE_ROWS: u64 = 4096;
const PROBE_SEED: u64 = 0x636c_6963_6b73; // "clicks"

/// A key that keeps the random streams of weights and labels apart from that of rows.
const WEIGHTS: u64 = 0x7765_6967_6874; // "weight"

/// Generates click rows.
///
/// ```
/// use paceline_data::SparseRows;
/// use paceline_data::sparse::{ClickRow, Clicks};
///
/// let clicks = Clicks::new(1_000, 7);
/// let rows = SparseRows::from_rows(1_000, (0..100).map(|index| {
///     let mut row = ClickRow::default();
///     clicks.draw(index, &mut row);
///     (row.keys, [], row.label)
/// }))?;
/// assert_eq!((rows.len(), rows.row(0).keys.len()), (100, 39));
/// # Ok::<(), paceline_data::DataError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Clicks {
    features: u32,
    seed: u64,
    fields: [ClickField; FIELDS],
    shift: f64,
}

#[derive(Clone, Copy, Debug)]
struct ClickField {
    /// The number of values.
    values: u32,
    /// `values^-0.1 - 1`.
    span: f64,
}

/// One generated row.
#[derive(Clone, Debug)]
pub struct ClickRow {
    /// 1 for a click, else 0.
    pub label: u32,
    /// The rank of each field's value, from 0 for the most popular.
    pub ranks: [u32; FIELDS],
    /// The row's features: ascending, without repetition.
    pub keys: [u32; FIELDS],
}

impl Default for ClickRow {
    fn default() -> Self {
        ClickRow { label: 0, ranks: [0; FIELDS], keys: [0; FIELDS] }
    }
}

impl ClickRow {
    /// The row without its ranks.
    pub fn row(&self) -> SparseRow<'_> {
        SparseRow { label: self.label, weight: 1.0, keys: &self.keys, values: &[] }
    }
}

impl Clicks {
    /// A generator of rows with keys below `features`.
    ///
    /// # Panics
    /// If `features` is below [`MIN_FEATURES`] or above 2^32 - 1.
    pub fn new(features: usize, seed: u64) -> Self {
        assert!(features >= MIN_FEATURES, "too few features for a row");
        let Ok(features) = u32::try_from(features) else { panic!("too many features") };
        // With few features, rare values are left out: nearly all of them would collide.
        let most = (f64::from(features) * 0.3).max(10.0);
        let mut values = 10.0;
        let fields = std::array::from_fn(|field| {
            if field < COUNTS {
                return ClickField::new(most.min(50.0));
            }
            let this = ClickField::new(most.min(values));
            values *= 1.737_800_828_749_375_5; // 10^(6/25): 26 fields from 10 to 10^7
            this
        });
        let mut clicks = Clicks { features, seed: PROBE_SEED, fields, shift: 0.0 };
        clicks.shift = clicks.find_shift();
        Clicks { seed, ..clicks }
    }

    /// Draws row `index` into `row`.
    pub fn draw(&self, index: u64, row: &mut ClickRow) {
        let score = self.score(index, row) + self.shift;
        let mut coin = Random::keyed(&[self.seed, index, WEIGHTS]);
        row.label = u32::from(unit(&mut coin) < logistic(score));
    }

    /// Draws a row's features, and returns the sum of their weights.
    fn score(&self, index: u64, row: &mut ClickRow) -> f64 {
        let mut random = Random::keyed(&[self.seed, index]);
        for (number, field) in self.fields.iter().enumerate() {
            let rank = field.rank(unit(&mut random));
            let hash = mix((number as u64 + 1) << 40 | u64::from(rank));
            row.ranks[number] = rank;
            row.keys[number] = (((hash >> 32) * u64::from(self.features)) >> 32) as u32;
        }
        let fields = row.keys;
        row.keys.sort_unstable();
        if row.keys.is_sorted_by(|a, b| a < b) {
            return row.keys.iter().map(|&key| weight(key)).sum();
        }
        // Two fields have the same key: the later one takes the next free key.
        row.keys = fields;
        for field in 1..FIELDS {
            while row.keys[..field].contains(&row.keys[field]) {
                row.keys[field] = (row.keys[field] + 1) % self.features;
            }
        }
        row.keys.sort_unstable();
        row.keys.iter().map(|&key| weight(key)).sum()
    }

    /// Finds, by bisection, the shift of the scores that makes a quarter of the rows clicks.
    fn find_shift(&self) -> f64 {
        let mut row = ClickRow::default();
        let scores: Vec<f64> = (0..PROBE_ROWS).map(|index| self.score(index, &mut row)).collect();
        let (mut low, mut high) = (-64.0, 64.0);
        for _ in 0..24 {
            let middle = (low + high) / 2.0;
            let clicks: f64 = scores.iter().map(|score| logistic(score + middle)).sum();
            if clicks < 0.25 * PROBE_ROWS as f64 { low = middle } else { high = middle }
        }
        high
    }
}

impl ClickField {
    fn new(values: f64) -> Self {
        let values = values as u32;
        ClickField { values, span: 1.0 / tenth_root(values.into()) - 1.0 }
    }

    /// The rank at the quantile `u`, from 0 to 1: the inverse of the distribution rank^-1.1 is a
    /// tenth power.
    fn rank(&self, u: f64) -> u32 {
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

/// The hidden weight of a feature.
fn weight(key: u32) -> f64 {
    let mut random = Random::keyed(&[WEIGHTS, key.into()]);
    if random.range(10) < 3 { 0.6 * f64::from(random.normal()) } else { 0.0 }
}

/// A uniform number in `0.0..1.0`, a multiple of 2^-53.
fn unit(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// The logistic function, with e^x as (1 + x/2^20)^(2^20): accurate enough, and the same bits
/// everywhere, which `exp` does not guarantee.
fn logistic(score: f64) -> f64 {
    let mut power = 1.0 - score.clamp(-40.0, 40.0) / 1_048_576.0;
    for _ in 0..20 {
        power *= power;
    }
    1.0 / (1.0 + power)
}

#[cfg(test)]
#[path = "clicks_tests.rs"]
mod tests;
