//! How many bytes a kind of record may take over time: many at first, then fewer and fewer.
//!
//! A run may last seconds or weeks, and its length is not known when it starts. So the budget grows
//! with the logarithm of the time: the beginning is recorded densely, and later records lie further
//! apart, in proportion to the time that has passed. A small constant rate keeps the curves of a
//! long run alive.

/// The size of a budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BudgetSize {
    /// Bytes that may be written at once.
    pub(crate) burst: f64,
    /// Bytes that are added whenever the time since the start, plus `settle_s`, grows by e.
    pub(crate) growth: f64,
    /// For this many seconds bytes are added at a nearly constant rate.
    pub(crate) settle_s: f64,
    /// Bytes that are added in every second.
    pub(crate) per_second: f64,
}

/// Train losses: about 10,000 of them densely, then a point each second, each minute after a week.
pub(crate) const LOSSES: BudgetSize =
    BudgetSize { burst: 600e3, growth: 400e3, settle_s: 1_200.0, per_second: 3.0 };
/// Tests.
pub(crate) const TESTS: BudgetSize =
    BudgetSize { burst: 400e3, growth: 400e3, settle_s: 1_200.0, per_second: 6.0 };
/// Resource samples in event files, and the curves that get their points with them.
pub(crate) const SAMPLES: BudgetSize =
    BudgetSize { burst: 1e6, growth: 1e6, settle_s: 1_200.0, per_second: 30.0 };
/// Lines of a resource table: some hours of them densely.
pub(crate) const TABLE: BudgetSize =
    BudgetSize { burst: 2e6, growth: 1e6, settle_s: 14_400.0, per_second: 5.0 };
/// Histograms and norms, which only a job that asks for them has.
pub(crate) const TENSORS: BudgetSize =
    BudgetSize { burst: 20e6, growth: 10e6, settle_s: 3_600.0, per_second: 100.0 };

/// Counts the bytes of a kind of record.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    size: BudgetSize,
    spent: f64,
}

impl ByteBudget {
    /// A budget that nothing was spent of.
    pub(crate) fn new(size: BudgetSize) -> Self {
        Self { size, spent: 0.0 }
    }

    /// Whether a record of this length may be written at this time after the start, in seconds.
    pub(crate) fn allows(&self, seconds: f64, bytes: u64) -> bool {
        let BudgetSize { burst, growth, settle_s, per_second } = self.size;
        let seconds = seconds.max(0.0);
        let earned = burst + growth * (seconds / settle_s).ln_1p() + per_second * seconds;
        self.spent + bytes as f64 <= earned
    }

    /// This many bytes were written.
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.spent += bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: f64 = 3_600.0;

    /// The most that all kinds of a default run's events take between two times.
    fn most_events(from: f64, to: f64) -> f64 {
        let most = |size: BudgetSize| {
            let earned = |t: f64| {
                size.burst + size.growth * (t / size.settle_s).ln_1p() + size.per_second * t
            };
            // What was not spent before can be spent now, but no more than a burst remains if the
            // records kept coming.
            earned(to) - if from == 0.0 { 0.0 } else { earned(from) }
        };
        [LOSSES, TESTS, SAMPLES].map(most).iter().sum()
    }

    #[test]
    fn no_hour_of_events_exceeds_5_mb() {
        for hour in 0..168 {
            let (from, to) = (f64::from(hour) * HOUR, f64::from(hour + 1) * HOUR);
            assert!(most_events(from, to) <= 5e6, "hour {hour}: {}", most_events(from, to));
        }
        assert!(most_events(0.0, 168.0 * HOUR) < 60e6);
    }

    #[test]
    fn a_budget_is_spent_and_grows_again() {
        let mut budget = ByteBudget::new(LOSSES);
        let mut written = 0;
        while budget.allows(0.0, 58) {
            budget.spend(58);
            written += 1;
        }
        assert!((10_000..11_000).contains(&written), "{written}");
        assert!(!budget.allows(0.1, 174) && budget.allows(1.0, 174));
    }
}
