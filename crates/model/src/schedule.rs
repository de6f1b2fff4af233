//! Learning rates over the global steps of a run.

/// A learning rate as a function of the global step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// The same rate at every step.
    Constant {
        /// The rate.
        rate: f64,
    },
    /// Falls smoothly: it is multiplied by `factor` over each `every` steps.
    Exponential {
        /// The rate at step 0.
        rate: f64,
        /// The factor over `every` steps.
        factor: f64,
        /// The number of steps.
        every: u64,
    },
    /// Falls in `stairs` equal stairs of `every` steps each, until it is `fall` times smaller than
    /// at the start; then it stays constant.
    Staircase {
        /// The rate at step 0.
        rate: f64,
        /// The total fall: how many times smaller the rate is after the last stair.
        fall: f64,
        /// The number of stairs.
        stairs: u32,
        /// The number of steps of a stair.
        every: u64,
    },
    /// Falls from `rate` to `end` over `over` steps along `(1 - step/over)^power`; then it stays
    /// constant.
    Polynomial {
        /// The rate at step 0.
        rate: f64,
        /// The rate from step `over` on.
        end: f64,
        /// The number of steps to reach `end`.
        over: u64,
        /// 1 is a straight line.
        power: f64,
    },
    /// Falls from `rate` to `end` over `over` steps along half a period of a cosine; then it stays
    /// constant.
    Cosine {
        /// The rate at step 0.
        rate: f64,
        /// The rate from step `over` on.
        end: f64,
        /// The number of steps to reach `end`.
        over: u64,
    },
}

/// A constant rate.
impl From<f64> for Schedule {
    fn from(rate: f64) -> Self {
        Schedule::Constant { rate }
    }
}

impl Schedule {
    /// The rate at a global step.
    pub fn at(&self, step: u64) -> f32 {
        self.exact(step) as f32
    }

    /// The rate at a global step of a run whose first `warm_up` steps are slower: the rate rises
    /// in equal steps to the rate of step 0 of the schedule, which begins after them.
    pub(crate) fn after_warm_up(&self, warm_up: u64, step: u64) -> f32 {
        if step >= warm_up {
            return self.at(step - warm_up);
        }
        let share = (step + 1) as f64 / (warm_up as f64 + 1.0);
        (self.exact(0) * share) as f32
    }

    fn exact(&self, step: u64) -> f64 {
        match *self {
            Schedule::Constant { rate } => rate,
            Schedule::Exponential { rate, factor, every } => {
                rate * factor.powf(step as f64 / every as f64)
            }
            Schedule::Staircase { rate, fall, stairs, every } => {
                let stair = (step / every).min(u64::from(stairs));
                rate * fall.powf(-(stair as f64) / f64::from(stairs))
            }
            Schedule::Polynomial { rate, end, over, power } => {
                let left = 1.0 - (step.min(over) as f64 / over as f64);
                end + (rate - end) * left.powf(power)
            }
            Schedule::Cosine { rate, end, over } => {
                let done = step.min(over) as f64 / over as f64;
                end + (rate - end) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schedule: Schedule, expected: &[(u64, f32)]) {
        for &(step, rate) in expected {
            let got = schedule.at(step);
            assert!((got - rate).abs() <= 1e-6 * rate, "{schedule:?} at {step}: {got}, not {rate}");
        }
    }

    #[test]
    fn each_kind_follows_its_formula() {
        check(Schedule::Constant { rate: 0.5 }, &[(0, 0.5), (1_000_000, 0.5)]);
        check(
            Schedule::Exponential { rate: 1.0, factor: 0.25, every: 10 },
            &[(0, 1.0), (5, 0.5), (10, 0.25), (20, 0.0625)],
        );
        check(
            Schedule::Polynomial { rate: 1.0, end: 0.2, over: 100, power: 2.0 },
            &[(0, 1.0), (50, 0.4), (100, 0.2), (500, 0.2)],
        );
        check(
            Schedule::Cosine { rate: 1.0, end: 0.2, over: 60 },
            &[(0, 1.0), (20, 0.8), (30, 0.6), (40, 0.4), (60, 0.2), (500, 0.2)],
        );
    }

    #[test]
    fn a_schedule_begins_after_its_warm_up() {
        let falling = Schedule::Cosine { rate: 0.8, end: 0.0, over: 20 };
        let rates = [0, 1, 2, 3, 13].map(|step| falling.after_warm_up(3, step));
        assert_eq!(rates[..4], [0.2, 0.4, 0.6, 0.8]);
        assert!((rates[4] - 0.4).abs() < 1e-6);
        assert_eq!(falling.after_warm_up(0, 0), falling.at(0));
    }

    #[test]
    fn the_staircase_of_report_r0_falls_250_fold_in_four_stairs() {
        let weights = Schedule::Staircase { rate: 0.001, fall: 250.0, stairs: 4, every: 100 };
        check(weights, &[(0, 0.001), (99, 0.001), (400, 0.000_004), (9_999, 0.000_004)]);
        let biases = Schedule::Staircase { rate: 0.002, fall: 10.0, stairs: 2, every: 100 };
        check(biases, &[(99, 0.002), (100, 0.002 / 10f32.sqrt()), (200, 0.000_2)]);
    }
}
