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
