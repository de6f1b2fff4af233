//! A published finding, as a job file's `[[finding]]` states it.
//!
//! A finding is a sentence together with one check that decides whether it holds for the runs of
//! a sweep. [`finding_check`](crate::finding_check) runs the check.

use serde::{Deserialize, Serialize};

/// Job keys with the values that a cell's job gives them.
pub type CellSettings = Vec<(String, String)>;

/// A published finding to compare with the runs of a sweep.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Finding {
    /// The finding in a sentence.
    pub says: String,
    /// Selects the cells that the finding is about; empty selects all.
    pub when: CellSettings,
    /// Decides whether the finding holds.
    pub check: FindingCheck,
    /// Explanation shown if the finding does not hold here.
    pub why: String,
}

/// Decides whether a finding holds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingCheck {
    /// Worker 0 takes more steps than every other worker.
    #[default]
    FirstWorkerLeads,
    /// All workers take the same number of steps, within 2 %.
    EqualSteps,
    /// A figure grows, falls or stays flat as a numeric job key grows.
    Trend {
        /// The figure's name, as in `summary.json`.
        figure: String,
        /// The job key that orders the cells.
        over: String,
        /// The direction of the change.
        trend: Trend,
    },
    /// The ratio of a figure to the same figure of other cells lies within a range.
    Ratio {
        /// The figure's name, as in `summary.json`.
        figure: String,
        /// Selects the other cells, as `when` selects these.
        against: CellSettings,
        /// The smallest ratio that agrees with the finding.
        least: f64,
        /// The largest ratio that agrees with the finding.
        most: f64,
    },
    /// The verdict of the runs is of this kind, such as `network`.
    Verdict(String),
}

/// The direction in which a figure changes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trend {
    /// It rises by more than 10 %.
    Grows,
    /// It drops by more than 10 %.
    Falls,
    /// It changes by at most 10 %.
    Flat,
}

impl Trend {
    /// Returns the trend that a job file calls `name`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "grows" => Some(Trend::Grows),
            "falls" => Some(Trend::Falls),
            "flat" => Some(Trend::Flat),
            _ => None,
        }
    }
}
