//! Maps values to positions on an axis and chooses the ticks.

/// The range, mapping and ticks of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisScale {
    low: f64,
    high: f64,
    is_log: bool,
    /// Values that have a tick.
    pub(crate) ticks: Vec<f64>,
    /// Distance between ticks; 1 if the ticks are given values.
    pub(crate) step: f64,
}

impl AxisScale {
    /// Creates a linear axis whose ends are round ticks around `low` to `high`.
    pub(crate) fn linear(low: f64, high: f64) -> Self {
        // The axis of values that are not negative does not begin below 0.
        let below = if low >= 0.0 { (low - 0.5).max(0.0) } else { low - 0.5 };
        let (low, high) = if high > low { (low, high) } else { (below, low + 0.5) };
        let step = round_step((high - low) / 4.0);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        let count = ((high - low) / step).round() as i64;
        let ticks = (0..=count).map(|i| low + step * i as f64).collect();
        Self { low, high, is_log: false, ticks, step }
    }

    /// Creates a linear axis that ends exactly at `low` and `high`.
    pub(crate) fn tight(low: f64, high: f64) -> Self {
        let mut scale = Self::linear(low, high);
        if high > low {
            (scale.low, scale.high) = (low, high);
            scale.ticks.retain(|tick| (low..=high).contains(tick));
        }
        scale
    }

    /// Creates an axis with a tick at each of these positive values: logarithmic if there are more
    /// than two and they span more than a factor of 4, else linear.
    pub(crate) fn at(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (low, high) = match values.as_slice() {
            [] => (0.5, 1.5),
            [only] => (only * 0.5, only * 1.5),
            [first, .., last] => (*first, *last),
        };
        let is_log = low > 0.0 && high / low > 4.0 && values.len() > 2;
        let margin = 0.04;
        let (low, high) = if is_log {
            let span = (high / low).powf(margin);
            (low / span, high * span)
        } else {
            (low - margin * (high - low), high + margin * (high - low))
        };
        Self { low, high, is_log, ticks: values, step: 1.0 }
    }

    /// The position of a value, from 0 at the low end to 1 at the high end.
    pub(crate) fn position(&self, value: f64) -> f64 {
        if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= least * 0.999);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose_all_values() {
        for (low, high, first, last, step) in
            [(0.0, 9.3, 0.0, 10.0, 5.0), (0.31, 2.3, 0.0, 2.5, 0.5), (7.0, 7.0, 6.5, 7.5, 0.5)]
        {
            let scale = AxisScale::linear(low, high);
            let ends = (scale.ticks[0], *scale.ticks.last().unwrap());
            assert!((ends.0 - first).abs() < 1e-9 && (ends.1 - last).abs() < 1e-9, "{scale:?}");
            assert!((scale.step - step).abs() < 1e-9 && scale.position(high) <= 1.0, "{scale:?}");
        }
    }

    #[test]
    fn values_that_are_not_negative_have_no_negative_ticks() {
        for (low, high) in [(0.0, 0.0), (0.2, 0.2), (0.0, 3.0), (0.01, 0.9)] {
            assert!(AxisScale::linear(low, high).ticks[0] >= 0.0, "{low} {high}");
        }
    }

    #[test]
    fn values_far_apart_are_positioned_by_their_ratio() {
        let scale = AxisScale::at(vec![1.0, 10.0, 100.0]);
        assert!((scale.position(10.0) - 0.5).abs() < 1e-9);
        let even = AxisScale::at(vec![1.0, 2.0, 3.0]);
        assert!((even.position(2.0) - 0.5).abs() < 1e-9);
    }
}
