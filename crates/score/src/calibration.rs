//! Calibration: whether predicted probabilities are as frequent as they say.
//!
//! The predictions are divided into ten parts of equal size. Sorting them would need memory for
//! each; so they are counted in bins over the leading bits of their log odds, and the parts end
//! where bins do.

use serde::Serialize;

/// Leading bits of the log odds that determine a bin: sign, exponent and 7 bits of the fraction.
const BITS: u32 = 16;
/// Parts of equal size.
const PARTS: u64 = 10;

/// Predictions of about the same probability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CalibrationBin {
    /// Rows in it.
    pub examples: u64,
    /// The lowest predicted probability.
    pub lowest: f64,
    /// The highest predicted probability.
    pub highest: f64,
    /// The mean of the predicted probabilities.
    pub predicted: f64,
    /// The share of rows for which it came true.
    pub observed: f64,
}

/// The predictions of one bin.
#[derive(Clone, Copy, Debug)]
struct PredictionBin {
    examples: u64,
    hits: u64,
    sum: f64,
    lowest: f32,
    highest: f32,
}

const EMPTY: PredictionBin =
    PredictionBin { examples: 0, hits: 0, sum: 0.0, lowest: f32::INFINITY, highest: 0.0 };

impl PredictionBin {
    fn add(&mut self, other: &PredictionBin) {
        self.examples += other.examples;
        self.hits += other.hits;
        self.sum += other.sum;
        self.lowest = self.lowest.min(other.lowest);
        self.highest = self.highest.max(other.highest);
    }
}

/// Counts predictions by their probability.
pub(crate) struct CalibrationCounts {
    bins: Vec<PredictionBin>,
}

impl CalibrationCounts {
    pub(crate) fn new() -> Self {
        Self { bins: vec![EMPTY; 1 << BITS] }
    }

    /// Counts a prediction, and whether it came true.
    pub(crate) fn add(&mut self, chance: f32, is_hit: bool) {
        let one = PredictionBin {
            examples: 1,
            hits: is_hit.into(),
            sum: chance.into(),
            lowest: chance,
            highest: chance,
        };
        self.bins[bin(chance)].add(&one);
    }

    /// The predictions in parts of about equal size, the lowest first. Parts without predictions
    /// are left out.
    pub(crate) fn bins(&self) -> Vec<CalibrationBin> {
        let all: u64 = self.bins.iter().map(|bin| bin.examples).sum();
        let (mut parts, mut part, mut seen) = (Vec::new(), EMPTY, 0);
        // How many tenths of all predictions end the part.
        let mut tenths = 1;
        for bin in self.bins.iter().filter(|bin| bin.examples > 0) {
            part.add(bin);
            seen += bin.examples;
            if seen * PARTS >= tenths * all {
                parts.push(part);
                part = EMPTY;
                // A bin may have several tenths.
                tenths = seen * PARTS / all + 1;
            }
        }
        parts.extend((part.examples > 0).then_some(part));
        let shown = |part: &PredictionBin| {
            let examples = part.examples as f64;
            CalibrationBin {
                examples: part.examples,
                lowest: part.lowest.into(),
                highest: part.highest.into(),
                predicted: part.sum / examples,
                observed: part.hits as f64 / examples,
            }
        };
        parts.iter().map(shown).collect()
    }
}

/// The bin of a probability. A greater probability never has a smaller bin.
fn bin(chance: f32) -> usize {
    let chance = f64::from(chance);
    let odds = (chance / (1.0 - chance)).ln() as f32;
    let bits = (odds + 0.0).to_bits();
    // The bits of negative numbers are in reverse order, and they come first.
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    (ordered >> (u32::BITS - BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_parts_have_about_equal_sizes_and_the_true_shares() {
        let mut counts = CalibrationCounts::new();
        for index in 0..10_000u32 {
            let chance = (index as f32 + 0.5) / 10_000.0;
            // Comes true as often as predicted: within each hundred, the first rows.
            counts.add(chance, index * 37 % 100 < index / 100);
        }
        let bins = counts.bins();
        assert_eq!(bins.len(), 10);
        assert_eq!(bins.iter().map(|bin| bin.examples).sum::<u64>(), 10_000);
        for bin in &bins {
            assert!((900..1_100).contains(&bin.examples), "{bin:?}");
            assert!((bin.predicted - bin.observed).abs() < 0.02, "{bin:?}");
        }
        assert!(bins.windows(2).all(|pair| pair[0].highest <= pair[1].lowest));
    }

    #[test]
    fn equal_predictions_are_one_part_and_certain_ones_have_a_bin() {
        let mut counts = CalibrationCounts::new();
        (0..50).for_each(|index| counts.add(0.25, index % 5 == 0));
        let bins = counts.bins();
        assert_eq!(bins.len(), 1);
        assert_eq!((bins[0].examples, bins[0].predicted, bins[0].observed), (50, 0.25, 0.2));
        counts.add(0.0, false);
        counts.add(1.0, true);
        let bins = counts.bins();
        assert_eq!((bins[0].lowest, bins[bins.len() - 1].highest), (0.0, 1.0));
        assert!(CalibrationCounts::new().bins().is_empty());
    }
}
