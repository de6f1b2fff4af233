use super::*;

#[test]
fn scores_count_as_the_cross_entropy_of_their_softmax() {
    let mut tally = Tally::default();
    tally.count_scores(&[1.0, 1.0], 0);
    tally.count_scores(&[1.0, 1.0], 1);
    tally.count_scores(&[-1e30, 1e30], 1);
    assert_eq!((tally.examples, tally.correct), (3, 2));
    assert!((tally.loss_sum - 4f64.ln()).abs() < 1e-6);
}

#[test]
fn two_classes_give_precision_recall_and_area() {
    let mut tally = Tally::default();
    for (score, label) in [(1.0, 1), (2.0, 0), (0.5, 1), (-1.0, 1), (-0.5, 0), (0.0, 0)] {
        tally.count_two_class(score, label, 0.5);
    }
    let score = tally.score();
    assert_eq!((score.examples, score.loss), (6, 0.5));
    assert_eq!(score.accuracy, 4.0 / 6.0);
    assert_eq!(score.precision, Some(2.0 / 3.0));
    assert_eq!(score.recall, Some(2.0 / 3.0));
    assert_eq!(score.auc, Some(4.0 / 9.0));
}

#[test]
fn averages_over_no_examples_are_none() {
    let plain = Tally { examples: 2, correct: 1, ..Tally::default() }.score();
    assert_eq!((plain.precision, plain.recall, plain.auc), (None, None, None));
    assert!(!plain.is_two_class);
    let mut tally = Tally::default();
    tally.count_two_class(-1.0, 0, 0.1);
    let score = tally.score();
    assert_eq!((score.precision, score.recall, score.auc), (None, None, None));
    assert!(score.is_two_class && score.accuracy == 1.0);
}

#[test]
fn kept_scores_are_those_of_all_counted_examples_until_it_is_cleared() {
    let mut tally = Tally::keeping_scores();
    tally.count_scores(&[1.0, 2.0], 0);
    tally.count_block(&[3.0, 4.0, 5.0, 6.0], &[1, 0]);
    assert_eq!(tally.scores(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    tally.clear();
    assert_eq!((tally.examples, tally.scores()), (0, &[][..]));
    tally.count_two_class(0.5, 1, 0.1);
    assert_eq!(tally.scores(), [0.5]);
    let mut plain = Tally::default();
    plain.count_scores(&[1.0, 2.0], 0);
    assert!(plain.scores().is_empty());
}
