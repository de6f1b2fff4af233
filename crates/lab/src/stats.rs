//! Means and spreads of repeated measurements.

/// What several measurements of one thing say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many there were.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, as of a sample; none of a single one.
    pub deviation: Option<f64>,
}

impl Spread {
    /// Of these measurements; none if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let deviation = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        Some(Self { count, mean, deviation })
    }

    /// The deviation as a share of the mean; 0 if it is not known.
    pub fn relative(&self) -> f64 {
        self.deviation.map_or(0.0, |deviation| (deviation / self.mean).abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_that_of_a_sample() {
        let spread = Spread::of([2.0, 4.0, 6.0]).unwrap();
        assert_eq!((spread.count, spread.mean, spread.deviation), (3, 4.0, Some(2.0)));
        assert_eq!(spread.relative(), 0.5);
    }

    #[test]
    fn one_measurement_has_no_spread_and_none_has_nothing() {
        assert_eq!(Spread::of([3.0]).unwrap().deviation, None);
        assert_eq!(Spread::of([]), None);
    }
}
