//! Generated clicks: rows like those of Criteo's logs, in any number, without a download.
//!
//! A row has 39 fields: 13 with 50 values each, as bucketed counts have, and 26 with 10 to 10
//! million values. In each field, the popularity of the values falls as rank^-1.1, so a few values
//! are in nearly every row and most are in very few. Field and rank are hashed into the
//! features. Three features in ten have a hidden weight, roughly normal with deviation 0.6. The
//! label is random; its log-odds are the sum of the row's weights, shifted so that about one row in
//! four is a click. Pairs of values may add to them, with a share of the scores' variance that the
//! caller sets (`pair_effects.rs`).
//!
//! Row `i` depends on (features, seed, i) alone, so rows can be generated anywhere in any order.
//! The weights depend on the keys alone: other seeds give other rows with the same weights. Only
//! plain IEEE arithmetic is used, so every machine draws the same bits.

use crate::click_field::{CLICK_FIELDS, COUNT_FIELDS, ClickField};
use crate::pair_effects::PairEffects;
use crate::random::{Random, mix};

/// The smallest number of features; a row needs [`CLICK_FIELDS`] different keys.
pub const MIN_FEATURES: usize = 64;

/// The index of the first test row; training rows are below it.
pub const FIRST_TEST_ROW: u64 = 1 << 40;

/// Changes whenever equal parameters give other rows.
pub const CLICKS_VERSION: u32 = 1;

/// The number of rows from which the shift of the odds is computed.
const PROBE_ROWS: u64 = 4096;
const PROBE_SEED: u64 = 0x636c_6963_6b73; // "clicks"

/// A key that keeps the random streams of weights and labels apart from that of rows.
const WEIGHTS: u64 = 0x7765_6967_6874; // "weight"

/// Generates click rows.
///
/// ```
/// use paceline_generate::{ClickRow, Clicks};
///
/// let clicks = Clicks::new(1_000, 7);
/// let mut row = ClickRow::default();
/// let clicked = (0..1_000).filter(|&index| {
///     clicks.draw(index, &mut row);
///     row.label == 1
/// });
/// assert!((200..300).contains(&clicked.count()));
/// ```
#[derive(Clone, Debug)]
pub struct Clicks {
    features: u32,
    seed: u64,
    fields: [ClickField; CLICK_FIELDS],
    pairs: Option<PairEffects>,
    shift: f64,
}

/// One generated row.
#[derive(Clone, Debug)]
pub struct ClickRow {
    /// 1 for a click, else 0.
    pub label: u32,
    /// The rank of each field's value, from 0 for the most popular.
    pub ranks: [u32; CLICK_FIELDS],
    /// The row's features: ascending, without repetition.
    pub keys: [u32; CLICK_FIELDS],
    /// The field of each key.
    pub fields: [u16; CLICK_FIELDS],
    /// The log-odds of a click, from which the label was drawn.
    pub score: f64,
    /// The part of the score that is a sum over single keys: all of it without interactions.
    pub linear_score: f64,
}

impl Default for ClickRow {
    fn default() -> Self {
        ClickRow {
            label: 0,
            ranks: [0; CLICK_FIELDS],
            keys: [0; CLICK_FIELDS],
            fields: [0; CLICK_FIELDS],
            score: 0.0,
            linear_score: 0.0,
        }
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
            if field < COUNT_FIELDS {
                return ClickField::new(most.min(50.0));
            }
            let this = ClickField::new(most.min(values));
            values *= 1.737_800_828_749_375_5; // 10^(6/25): 26 fields from 10 to 10^7
            this
        });
        let mut clicks = Clicks { features, seed, fields, pairs: None, shift: 0.0 };
        clicks.shift = find_shift(&clicks.probe());
        clicks
    }

    /// The same generator with pairs of values that add to the scores: `share` of their variance is
    /// that of the pairs. The rows' features do not change, and with a share of 0 nothing does.
    ///
    /// ```
    /// use paceline_generate::{ClickRow, Clicks};
    ///
    /// let clicks = Clicks::new(1_000_000, 7).with_interactions(0.3);
    /// let mut row = ClickRow::default();
    /// clicks.draw(0, &mut row);
    /// assert!(row.score != row.linear_score);
    /// ```
    ///
    /// # Panics
    /// If the share is not from 0 up to, but not including, 1.
    #[must_use]
    pub fn with_interactions(mut self, share: f64) -> Self {
        assert!((0.0..1.0).contains(&share), "a share of {share} of the variance");
        self.pairs = None;
        let mut scores = self.probe();
        if share > 0.0 {
            let variance = share / (1.0 - share) * variance(&scores);
            self.pairs = Some(PairEffects::new(&self.fields, variance));
            scores = self.probe();
        }
        self.shift = find_shift(&scores);
        self
    }

    /// Draws row `index` into `row`.
    pub fn draw(&self, index: u64, row: &mut ClickRow) {
        self.draw_scores(index, row);
        row.score += self.shift;
        row.linear_score += self.shift;
        let mut coin = Random::keyed(&[self.seed, index, WEIGHTS]);
        row.label = u32::from(unit(&mut coin) < logistic(row.score));
    }

    /// The scores of some rows before they are shifted.
    fn probe(&self) -> Vec<f64> {
        let probe = Clicks { seed: PROBE_SEED, ..self.clone() };
        let mut row = ClickRow::default();
        let score = |index| {
            probe.draw_scores(index, &mut row);
            row.score
        };
        (0..PROBE_ROWS).map(score).collect()
    }

    /// Draws a row's features, and what they add to its score.
    fn draw_scores(&self, index: u64, row: &mut ClickRow) {
        let mut random = Random::keyed(&[self.seed, index]);
        for (number, field) in self.fields.iter().enumerate() {
            let rank = field.rank(unit(&mut random));
            let hash = mix((number as u64 + 1) << 40 | u64::from(rank));
            row.ranks[number] = rank;
            row.keys[number] = (((hash >> 32) * u64::from(self.features)) >> 32) as u32;
        }
        row.order_keys(self.features);
        row.linear_score = row.keys.iter().map(|&key| weight(key)).sum();
        row.score = row.linear_score;
        if let Some(pairs) = &self.pairs {
            row.score += pairs.score(&row.ranks);
        }
    }
}

impl ClickRow {
    /// Sorts the keys, which lie in the order of their fields.
    fn order_keys(&mut self, features: u32) {
        let mut order = self.key_order();
        if !order.is_sorted_by(|a, b| a >> 32 < b >> 32) {
            // Two fields have the same key: the later one takes the next free key.
            for field in 1..CLICK_FIELDS {
                while self.keys[..field].contains(&self.keys[field]) {
                    self.keys[field] = (self.keys[field] + 1) % features;
                }
            }
            order = self.key_order();
        }
        for (at, entry) in order.into_iter().enumerate() {
            (self.keys[at], self.fields[at]) = ((entry >> 32) as u32, entry as u16);
        }
    }

    /// The keys in ascending order, each in the high half with its field in the low one.
    fn key_order(&self) -> [u64; CLICK_FIELDS] {
        let mut order =
            std::array::from_fn(|field| u64::from(self.keys[field]) << 32 | field as u64);
        order.sort_unstable();
        order
    }
}

/// The variance of some numbers.
fn variance(numbers: &[f64]) -> f64 {
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let squares: f64 = numbers.iter().map(|number| (number - mean) * (number - mean)).sum();
    squares / numbers.len() as f64
}

/// Finds, by bisection, the shift of the scores that makes a quarter of the rows clicks.
fn find_shift(scores: &[f64]) -> f64 {
    let (mut low, mut high) = (-64.0, 64.0);
    for _ in 0..24 {
        let middle = (low + high) / 2.0;
        let clicks: f64 = scores.iter().map(|score| logistic(score + middle)).sum();
        if clicks < 0.25 * PROBE_ROWS as f64 { low = middle } else { high = middle }
    }
    high
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
