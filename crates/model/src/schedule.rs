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
mod tests;
