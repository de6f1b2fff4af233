//! From values to places on an axis, and where its ticks are.

/// An axis: which values it shows and how.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisScale {
    low: f64,
    high: f64,
    is_log: bool,
    /// Values with a tick.
    pub(crate) ticks: Vec<f64>,
    /// What lies between two ticks; of a logarithmic axis 1.
    pub(crate) step: f64,
}

impl AxisScale {
    /// An even axis with round ticks, for values from `low` to `high`.
    pub(crate) fn linear(low: f64, high: f64) -> Self {
        let (low, high) = if high > low { (low, high) } else { (low - 0.5, low + 0.5) };
        let step = round_step((high - low) / 4.0);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        let count = ((high - low) / step).round() as i64;
        let ticks = (0..=count).map(|i| low + step * i as f64).collect();
        Self { low, high, is_log: false, ticks, step }
    }

    /// An even axis that ends where the values do.
    pub(crate) fn tight(low: f64, high: f64) -> Self {
        let mut scale = Self::linear(low, high);
        if high > low {
            (scale.low, scale.high) = (low, high);
            scale.ticks.retain(|tick| (low..=high).contains(tick));
        }
        scale
    }

    /// An axis with a tick at each of these values, which are above 0: even if they lie close
    /// together, logarithmic if not.
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
        let (low, high) = match is_log {
            true => {
                let span = (high / low).powf(margin);
                (low / span, high * span)
            }
            false => (low - margin * (high - low), high + margin * (high - low)),
        };
        Self { low, high, is_log, ticks: values, step: 1.0 }
    }

    /// Where a value lies, from 0 to 1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match self.is_log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        }
    }
}

/// The next of 1, 2 and 5, times a power of ten, that is not below this.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= least * 0.999);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        for (low, high, first, last, step) in
            [(0.0, 9.3, 0.0, 10.0, 5.0), (0.31, 2.3, 0.0, 2.5, 0.5), (7.0, 7.0, 6.5, 7.5, 0.5)]
        {
            let scale = AxisScale::linear(low, high);
            let ends = (scale.ticks[0], *scale.ticks.last().unwrap());
            assert!((ends.0 - first).abs() < 1e-9 && (ends.1 - last).abs() < 1e-9, "{scale:?}");
            assert!((scale.step - step).abs() < 1e-9 && scale.place(high) <= 1.0, "{scale:?}");
        }
    }

    #[test]
    fn values_far_apart_are_placed_by_their_ratio() {
        let scale = AxisScale::at(vec![1.0, 10.0, 100.0]);
        assert!((scale.place(10.0) - 0.5).abs() < 1e-9);
        let even = AxisScale::at(vec![1.0, 2.0, 3.0]);
        assert!((even.place(2.0) - 0.5).abs() < 1e-9);
    }
}
