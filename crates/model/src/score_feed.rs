//! The way of scores from a test to what makes more of them than averages.

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
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<(Vec<f32>, Vec<u32>)>>);

    impl ScoreObserver for Kept {
        fn scored(&self, scores: &[f32], labels: &[u32]) {
            self.0.lock().unwrap().push((scores.to_vec(), labels.to_vec()));
        }
    }

    #[test]
    fn an_observer_learns_each_score_once_and_the_averages_stay() {
        let kept = Arc::new(Kept::default());
        let feed = ScoreFeed::to(kept.clone());
        let (mut tally, mut plain) = (feed.tally(), ScoreFeed::default().tally());
        for scores in [[1.0, 2.0], [0.5, 0.0]] {
            tally.count_scores(&scores, 1);
            plain.count_scores(&scores, 1);
            feed.hand_over(&mut tally, &[1]);
            ScoreFeed::default().hand_over(&mut plain, &[1]);
        }
        let expected = [(vec![1.0, 2.0], vec![1]), (vec![0.5, 0.0], vec![1])];
        assert_eq!(*kept.0.lock().unwrap(), expected);
        assert_eq!(tally.score(), plain.score());
    }
}
