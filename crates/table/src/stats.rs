//! What is learnt from a column of the training rows.
//!
//! Each block of text has statistics of its own, which are added up in the order of the file. So
//! the result does not depend on the number of threads.

use paceline_data::random::mix;

use crate::word_table::WordTable;

/// The number of values from which quantiles are taken.
const QUANTILE_VALUES: usize = 1 << 14;
/// The most different values that are counted.
pub(crate) const MOST_COUNTED: usize = 1 << 20;

/// Counts, mean and squared deviations of numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    pub(crate) count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// The moments of numbers by their sums relative to a number near their mean.
    fn of_sums(count: f64, near: f64, sum: f64, squares: f64) -> Self {
        if count == 0.0 {
            return Self::default();
        }
        Self { count, mean: near + sum / count, squares: squares - sum * sum / count }
    }

    fn merge(&mut self, other: Self) {
        if other.count == 0.0 {
            return;
        }
        let count = self.count + other.count;
        let apart = other.mean - self.mean;
        self.squares += other.squares + apart * apart * self.count * other.count / count;
        self.mean += apart * other.count / count;
        self.count = count;
    }

    /// Mean and standard deviation; the deviation of equal numbers is 1.
    pub(crate) fn scale(&self) -> (f32, f32) {
        let deviation = (self.squares.max(0.0) / self.count.max(1.0)).sqrt() as f32;
        let mean = self.mean as f32;
        let is_spread = deviation > 1e-6 * mean.abs() && deviation > f32::MIN_POSITIVE;
        (mean, if is_spread { deviation } else { 1.0 })
    }
}

/// Statistics of one column.
#[derive(Clone, Debug, Default)]
pub(crate) enum ColumnStats {
    /// Nothing is needed.
    #[default]
    None,
    /// For the scale of a number: the first number, and sums relative to it.
    Moments { total: Moments, count: f64, near: f64, sum: f64, squares: f64 },
    /// For quantiles: values drawn at random, each with its draw.
    Values(Vec<(u64, f32)>),
    /// For a vocabulary or classes: how often each value occurs.
    Counts(WordTable),
}

impl ColumnStats {
    pub(crate) fn moments() -> Self {
        Self::Moments { total: Moments::default(), count: 0.0, near: 0.0, sum: 0.0, squares: 0.0 }
    }

    /// Empty statistics of the same kind.
    pub(crate) fn like(&self) -> Self {
        match self {
            Self::None => Self::None,
            Self::Moments { .. } => Self::moments(),
            Self::Values(_) => Self::Values(Vec::new()),
            Self::Counts(_) => Self::Counts(WordTable::default()),
        }
    }

    /// Adds a number; `draw` is its random choice.
    #[inline]
    pub(crate) fn add_number(&mut self, number: f32, draw: u64) {
        match self {
            Self::Moments { count, near, sum, squares, .. } => {
                if *count == 0.0 {
                    *near = f64::from(number);
                }
                let apart = f64::from(number) - *near;
                *count += 1.0;
                *sum += apart;
                *squares += apart * apart;
            }
            Self::Values(values) => values.push((mix(draw), number)),
            Self::None | Self::Counts(_) => {}
        }
    }

    /// Adds a value.
    #[inline]
    pub(crate) fn add_value(&mut self, value: &[u8]) {
        // One more shows that there are too many.
        if let Self::Counts(counts) = self {
            counts.add(value, 1, MOST_COUNTED + 1);
        }
    }

    /// Adds the statistics of the next block, which become empty.
    pub(crate) fn merge(&mut self, next: &mut Self) {
        match (self, next) {
            (Self::Moments { total, .. }, Self::Moments { count, near, sum, squares, .. }) => {
                total.merge(Moments::of_sums(*count, *near, *sum, *squares));
                (*count, *sum, *squares) = (0.0, 0.0, 0.0);
            }
            (Self::Values(all), Self::Values(next)) => {
                all.append(next);
                if all.len() > 2 * QUANTILE_VALUES {
                    keep_first_draws(all);
                }
            }
            (Self::Counts(all), Self::Counts(next)) => all.merge(next, MOST_COUNTED + 1),
            _ => {}
        }
    }

    /// The bounds of this many buckets with about equal numbers of values; fewer if values repeat.
    pub(crate) fn bounds(&mut self, buckets: usize) -> Vec<f32> {
        let Self::Values(values) = self else { return Vec::new() };
        keep_first_draws(values);
        let mut sorted: Vec<f32> = values.iter().map(|&(_, value)| value).collect();
        sorted.sort_by(f32::total_cmp);
        let Some(&least) = sorted.first() else { return Vec::new() };
        let mut bounds: Vec<f32> =
            (1..buckets).map(|bucket| sorted[bucket * sorted.len() / buckets]).collect();
        bounds.dedup();
        bounds.retain(|&bound| bound > least);
        bounds
    }
}

/// Keeps the values with the lowest draws: a random sample of all values, whatever their order.
fn keep_first_draws(values: &mut Vec<(u64, f32)>) {
    if values.len() > QUANTILE_VALUES {
        let by_draw = |a: &(u64, f32), b: &(u64, f32)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
        values.select_nth_unstable_by(QUANTILE_VALUES, by_draw);
        values.truncate(QUANTILE_VALUES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_of_blocks_are_those_of_all_numbers() {
        let numbers: Vec<f32> = (0..1000).map(|i| 1e6 + (i * i % 97) as f32).collect();
        let mut all = ColumnStats::moments();
        for block in numbers.chunks(170) {
            let mut part = all.like();
            block.iter().for_each(|&number| part.add_number(number, 0));
            all.merge(&mut part);
        }
        let ColumnStats::Moments { total, .. } = all else { unreachable!() };
        let count = numbers.len() as f64;
        let mean = numbers.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
        let squares = numbers.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>();
        let (found_mean, deviation) = total.scale();
        assert_eq!(found_mean, mean as f32);
        assert!((f64::from(deviation) - (squares / count).sqrt()).abs() < 1e-4, "{deviation}");
    }

    #[test]
    fn the_deviation_of_equal_numbers_is_1() {
        let mut all = ColumnStats::moments();
        let mut part = all.like();
        (0..10).for_each(|_| part.add_number(0.1, 0));
        all.merge(&mut part);
        let ColumnStats::Moments { total, .. } = all else { unreachable!() };
        assert_eq!(total.scale(), (0.1, 1.0));
    }

    #[test]
    fn quantiles_divide_the_values_evenly_and_repeated_values_share_a_bucket() {
        let mut all = ColumnStats::Values(Vec::new());
        for block in 0..40u64 {
            let mut part = all.like();
            (0..1000).for_each(|i| part.add_number((block * 1000 + i) as f32, block * 1000 + i));
            all.merge(&mut part);
        }
        let bounds = all.bounds(4);
        let near = |bound: f32, exact: f32| (bound - exact).abs() < 600.0;
        let exact = [10_000.0, 20_000.0, 30_000.0];
        assert!(bounds.iter().zip(exact).all(|(&b, exact)| near(b, exact)), "{bounds:?}");

        let mut zeros = ColumnStats::Values((0..100).map(|i| (i, 0.0)).collect());
        assert!(zeros.bounds(10).is_empty());
    }
}
