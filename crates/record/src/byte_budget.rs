//! How many bytes a kind of record may take over time: many at first, then fewer and fewer.
//!
//! A run may last seconds or weeks, and its length is not known when it starts. So the budget grows
//! with the logarithm of the time: the beginning is recorded densely, and later records lie further
//! apart, in proportion to the time that has passed. A small constant rate keeps the curves of a
//! long run alive. Of what is not spent, no more than a burst remains: a run that is quiet for
//! hours and then makes records quickly stays within the limit of each hour.

/// The size of a budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BudgetSize {
    /// Bytes that may be written at once after a quiet time.
    pub(crate) burst: f64,
    /// The part of the burst that may be written at the start. The rest follows evenly within the
    /// first minute: a run of some seconds is recorded as densely at its end as in its middle.
    pub(crate) opening: f64,
    /// Bytes that are added whenever the time since the start, plus `settle_s`, grows by e.
    pub(crate) growth: f64,
    /// For this many seconds bytes are added at a nearly constant rate.
    pub(crate) settle_s: f64,
    /// Bytes that are added in every second.
    pub(crate) per_second: f64,
}

impl BudgetSize {
    /// Bytes that are added in this time from the start.
    fn added(&self, seconds: f64) -> f64 {
        let seconds = seconds.max(0.0);
        self.growth * (seconds / self.settle_s).ln_1p() + self.per_second * seconds
    }

    /// The most that may be unspent at this time from the start.
    fn most_left(&self, seconds: f64) -> f64 {
        self.opening + (self.burst - self.opening) * (seconds / OPENING_S).clamp(0.0, 1.0)
    }
}

/// The time until a whole burst may be written, in seconds.
const OPENING_S: f64 = 60.0;

/// Train losses: about 2,000 of them densely, 10,000 within a minute, then a point each second,
/// each minute after a week.
pub(crate) const LOSSES: BudgetSize =
    BudgetSize { burst: 600e3, opening: 120e3, growth: 400e3, settle_s: 1_200.0, per_second: 3.0 };
/// Tests.
pub(crate) const TESTS: BudgetSize =
    BudgetSize { burst: 400e3, opening: 400e3, growth: 400e3, settle_s: 1_200.0, per_second: 6.0 };
/// Resource samples in event files, and the curves that get their points with them.
pub(crate) const SAMPLES: BudgetSize =
    BudgetSize { burst: 1e6, opening: 1e6, growth: 1e6, settle_s: 1_200.0, per_second: 30.0 };
/// Lines of a resource table: some hours of them densely.
pub(crate) const TABLE: BudgetSize =
    BudgetSize { burst: 2e6, opening: 2e6, growth: 1e6, settle_s: 14_400.0, per_second: 5.0 };
/// Histograms and norms, which only a job that asks for them has.
pub(crate) const TENSORS: BudgetSize =
    BudgetSize { burst: 20e6, opening: 20e6, growth: 10e6, settle_s: 3_600.0, per_second: 100.0 };

/// Counts the bytes of a kind of record.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    size: BudgetSize,
    spent: f64,
}

impl ByteBudget {
    /// A budget of which nothing is spent.
    pub(crate) fn new(size: BudgetSize) -> Self {
        Self { size, spent: 0.0 }
    }

    /// Whether a record of this length may be written at this time after the start, in seconds.
    pub(crate) fn allows(&mut self, seconds: f64, bytes: u64) -> bool {
        let added = self.size.added(seconds);
        // What is left beyond a burst is lost.
        self.spent = self.spent.max(added);
        self.spent + bytes as f64 <= self.size.most_left(seconds) + added
    }

    /// Counts this many bytes as written.
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
        let most = |size: BudgetSize| size.burst + size.added(to) - size.added(from);
        [LOSSES, TESTS, SAMPLES].map(most).iter().sum()
    }

    #[test]
    fn no_hour_of_events_exceeds_5_mb() {
        for tenth in 0..1_680 {
            let from = f64::from(tenth) * HOUR / 10.0;
            let most = most_events(from, from + HOUR);
            assert!(most <= 5e6, "from {from} s: {most}");
        }
        assert!(most_events(0.0, 168.0 * HOUR) < 60e6);
    }

    #[test]
    fn what_a_quiet_time_leaves_is_no_more_than_a_burst() {
        let mut budget = ByteBudget::new(LOSSES);
        let mut written = 0;
        // A record each minute for ten hours, then as many as the budget allows for one hour.
        for second in 0..36_000 {
            if second % 60 == 0 && budget.allows(f64::from(second), 200) {
                budget.spend(200);
            }
        }
        for tenth in 360_000..396_000 {
            while budget.allows(f64::from(tenth) / 10.0, 200) {
                budget.spend(200);
                written += 200;
            }
        }
        let added = LOSSES.added(39_600.0) - LOSSES.added(36_000.0);
        assert!(f64::from(written) <= LOSSES.burst + added, "{written}");
        assert!(f64::from(written) >= LOSSES.burst, "{written}");
    }

    #[test]
    fn a_budget_is_spent_and_grows_again() {
        let mut budget = ByteBudget::new(LOSSES);
        let mut written = 0;
        while budget.allows(0.0, 58) {
            budget.spend(58);
            written += 1;
        }
        assert!((2_000..2_200).contains(&written), "{written}");
        assert!(!budget.allows(0.01, 174) && budget.allows(0.1, 174));
        while budget.allows(OPENING_S, 58) {
            budget.spend(58);
            written += 1;
        }
        assert!((10_000..11_000).contains(&written), "{written}");
        assert!(!budget.allows(OPENING_S + 0.1, 174) && budget.allows(OPENING_S + 1.0, 174));
    }
}
