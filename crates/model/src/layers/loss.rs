//! Losses and correct answers of a test, from scores.

use crate::kernels::{TOGETHER, exp_below_zero, score_of, subtract_highest};
use crate::tally::Tally;

/// Counts the losses and correct answers of some examples. The scores are overwritten.
pub(crate) fn count_examples(scores: &mut [f32], labels: &[u32], tally: &mut Tally) {
    tally.keep(scores);
    let classes = (scores.len() / labels.len().max(1)).max(1);
    for (row, &label) in scores.chunks_exact(classes).zip(labels) {
        let own = score_of(row, label);
        // The first of equal scores counts, as usual for argmax.
        let (before, from) = row.split_at(label as usize);
        let is_first = before.iter().all(|score| *score < own);
        let is_top = from.iter().all(|score| *score <= own);
        tally.correct += u64::from(is_first && is_top);
        tally.examples += 1;
    }
    subtract_highest(scores, labels, |right| tally.loss_sum -= f64::from(right));
    exp_below_zero(scores);
    for scores in scores.chunks(TOGETHER * classes) {
        let sums = scores.chunks_exact(classes).map(|row| row.iter().sum::<f32>());
        tally.loss_sum += f64::from(sums.product::<f32>().ln());
    }
}
