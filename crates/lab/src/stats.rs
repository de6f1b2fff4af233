//! Mean and standard deviation of repeated measurements.

/// Mean and deviation of repeated measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Number of measurements.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation; none of a single measurement.
    pub deviation: Option<f64>,
}

impl Spread {
    /// Summarizes measurements; returns none if there are none.
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

    /// The deviation as a share of the mean; 0 of a single measurement.
    pub fn relative(&self) -> f64 {
        self.deviation.map_or(0.0, |deviation| (deviation / self.mean).abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let spread = Spread::of([2.0, 4.0, 6.0]).unwrap();
        assert_eq!((spread.count, spread.mean, spread.deviation), (3, 4.0, Some(2.0)));
        assert_eq!(spread.relative(), 0.5);
    }

    #[test]
    fn one_measurement_has_no_deviation_and_none_have_no_spread() {
        assert_eq!(Spread::of([3.0]).unwrap().deviation, None);
        assert_eq!(Spread::of([]), None);
    }
}
