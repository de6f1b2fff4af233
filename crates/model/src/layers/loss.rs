//! Softmax and cross-entropy: from an example's scores to its loss, and whether it is a hit.

use crate::{Batch, Tally};

/// The natural logarithm of the sum of exponentials, which never overflows.
fn log_sum_exp(row: &[f32]) -> f32 {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    top + row.iter().map(|score| (score - top).exp()).sum::<f32>().ln()
}

/// Turns a row of scores into `share * (probabilities - one-hot label)`, the gradient of
/// `share` times the cross-entropy, and returns the cross-entropy itself.
pub(crate) fn softmax_delta(row: &mut [f32], label: usize, share: f32) -> f32 {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let right = row[label] - top;
    let mut sum = 0.0;
    for score in row.iter_mut() {
        *score = (*score - top).exp();
        sum += *score;
    }
    let scale = share / sum;
    row.iter_mut().for_each(|score| *score *= scale);
    row[label] -= share;
    sum.ln() - right
}

/// Counts the losses and hits of a block's scores.
pub(crate) fn count(scores: &[f32], block: Batch<'_>, tally: &mut Tally) {
    let classes = scores.len() / block.len().max(1);
    for (row, &label) in scores.chunks_exact(classes.max(1)).zip(block.labels) {
        let label = label as usize;
        tally.loss_sum += f64::from(log_sum_exp(row) - row[label]);
        // Of equal scores the first counts, as with everybody's argmax.
        let (before, from) = row.split_at(label);
        let is_first = before.iter().all(|score| *score < row[label]);
        let is_top = from.iter().all(|score| *score <= row[label]);
        tally.correct += u64::from(is_first && is_top);
        tally.examples += 1;
    }
}
