//! The verdict itself.

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::shares::{Shares, VerdictKind, divide_time};
use super::text;
use crate::pace::{GradientTime, ranking};

/// What limits a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Verdict {
    /// In a word.
    pub kind: VerdictKind,
    /// In a sentence: the word, the evidence and what would help, if anything would.
    pub text: String,
    /// Why, in figures that the user can check. Empty in files of versions that did not have it.
    #[serde(default)]
    pub evidence: String,
    /// The shares of time that the verdict is based on.
    pub shares: Shares,
    /// What would help, the most promising first; empty if nothing is known to.
    pub advice: Vec<String>,
}

/// The shortest training that can be judged, in seconds.
const SHORTEST_S: f64 = 1.0;

/// Names what limits a run.
///
/// Training of less than a second is too short to judge, unless tests take most of a longer run.
///
/// ```
/// use paceline_observe::{Facts, VerdictKind, WorkerFacts, verdict};
///
/// let worker = WorkerFacts { input_s: 7.0, compute_s: 3.0, ..WorkerFacts::default() };
/// let facts = Facts { mode: "single".into(), workers: vec![worker], ..Facts::default() };
/// assert_eq!(verdict(&facts).kind, VerdictKind::Input);
/// ```
pub fn verdict(facts: &Facts) -> Verdict {
    let times = facts.workers.iter();
    let times = times.map(|worker| GradientTime::new(worker.task.clone(), worker.gradient_ms));
    let ranks = ranking(times.collect());
    let shares = divide_time(facts);
    let kind = match shares.kind() {
        VerdictKind::Evaluation if facts.training_s() + facts.final_test_s >= SHORTEST_S => {
            VerdictKind::Evaluation
        }
        _ if facts.training_s() < SHORTEST_S => VerdictKind::TooShort,
        kind => kind,
    };
    let advice = text::advice(kind, facts, ranks.first());
    let evidence = text::evidence(kind, &shares, facts, ranks.first());
    let text = text::sentence(kind, &evidence, &advice);
    Verdict { kind, text, evidence, shares, advice }
}
