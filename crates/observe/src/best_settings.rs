//! Which test is the best so far, and how long ago that was.
//!
//! Patience is a function of the sequence of tests alone: each test carries the state after it, so
//! a run that returns to a checkpoint, or is resumed from one, decides as it would have done
//! otherwise.

use paceline_model::Score;

/// What tests are compared by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TestMetric {
    /// The mean loss: lower is better.
    #[default]
    Loss,
    /// The share of correct answers: higher is better.
    Accuracy,
    /// The area under the ROC curve of a model of two classes: higher is better.
    Auc,
}

impl TestMetric {
    /// Its name in job files and summaries.
    pub fn name(self) -> &'static str {
        match self {
            TestMetric::Loss => "loss",
            TestMetric::Accuracy => "accuracy",
            TestMetric::Auc => "auc",
        }
    }

    /// Its value in a test.
    ///
    /// # Errors
    /// If the test has no such value: why, in words.
    pub fn of(self, score: &Score) -> Result<f64, String> {
        match self {
            TestMetric::Loss => Ok(score.loss),
            TestMetric::Accuracy => Ok(score.accuracy),
            TestMetric::Auc => score.auc.ok_or_else(|| {
                let why = score.auc_undefined().unwrap_or("the model is not one of two classes");
                format!("tests cannot be compared by auc: {why}")
            }),
        }
    }

    /// How much better a value is than another; negative if it is worse.
    pub fn gain(self, value: f64, than: f64) -> f64 {
        match self {
            TestMetric::Loss => than - value,
            TestMetric::Accuracy | TestMetric::Auc => value - than,
        }
    }
}

/// Which test is the best one, and what follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BestSettings {
    /// What tests are compared by.
    pub metric: TestMetric,
    /// The least gain that counts for stopping early.
    pub min_gain: f64,
    /// Whether the parameters of the best test are kept.
    pub keep: bool,
}

/// How long ago the best test was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Patience {
    /// The best value so far.
    best: Option<f64>,
    /// Tests since then.
    pub since: u64,
}

impl Patience {
    /// The state after one more test.
    ///
    /// # Errors
    /// As [`TestMetric::of`].
    pub fn after(self, score: &Score, settings: &BestSettings) -> Result<Self, String> {
        let BestSettings { metric, min_gain, .. } = *settings;
        let value = metric.of(score)?;
        let is_better = match self.best {
            None => !value.is_nan(),
            Some(best) => metric.gain(value, best) > min_gain,
        };
        Ok(if is_better {
            Self { best: Some(value), since: 0 }
        } else {
            Self { since: self.since + 1, ..self }
        })
    }
}

#[cfg(test)]
mod tests;
