//! Passes the scores of a test to an observer that needs more than their averages.

use std::fmt;
use std::sync::Arc;

use crate::tally::Tally;

/// Learns what a test judges.
pub trait ScoreObserver: Send + Sync {
    /// The scores of some examples, example after example, and their classes. Called with all
    /// examples of the test, in order.
    fn scored(&self, scores: &[f32], labels: &[u32]);
}

/// Hands the scores of a test to an observer, if there is one.
#[derive(Clone, Default)]
pub struct ScoreFeed(Option<Arc<dyn ScoreObserver>>);

impl ScoreFeed {
    /// Hands scores to this observer.
    pub fn to(observer: Arc<dyn ScoreObserver>) -> Self {
        Self(Some(observer))
    }

    /// An empty tally, which keeps scores if there is an observer.
    pub fn tally(&self) -> Tally {
        if self.0.is_some() { Tally::keeping_scores() } else { Tally::default() }
    }

    /// Hands over the scores that the tally has kept, of examples with these classes.
    pub fn hand_over(&self, tally: &mut Tally, labels: &[u32]) {
        if let Some(observer) = &self.0 {
            observer.scored(tally.scores(), labels);
            tally.forget_scores();
        }
    }
}

impl fmt::Debug for ScoreFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScoreFeed").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests;
