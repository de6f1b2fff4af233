//! Softmax and cross-entropy: losses and correct answers from scores.

use crate::exp::exp_below_zero;

/// Examples whose sums of exponentials are multiplied before one logarithm is taken. A sum is at
/// least 1 and at most the number of classes, so the product does not overflow.
pub const TOGETHER: usize = 4;

/// Subtracts the highest score of each row from its scores, so that no exponential overflows, and
/// calls `right` with the reduced score of the row's label.
///
/// # Panics
/// If a label is not below the number of classes.
pub fn subtract_highest(scores: &mut [f32], labels: &[u32], mut right: impl FnMut(f32)) {
    let classes = scores.len() / labels.len().max(1);
    for (row, &label) in scores.chunks_exact_mut(classes.max(1)).zip(labels) {
        let higher = |top: f32, &score: &f32| if score > top { score } else { top };
        let top = row.iter().fold(f32::NEG_INFINITY, higher);
        row.iter_mut().for_each(|score| *score -= top);
        right(score_of(row, label));
    }
}

/// Softmax and cross-entropy of some examples, whose scores are rows of one value for each class.
///
/// Replaces the scores with the gradient of `share` times the summed cross-entropies, which is
/// `share * (probabilities - one-hot label)`, and returns that sum without the share.
///
/// ```
/// use paceline_kernels::softmax_cross_entropy;
///
/// let mut scores = [0.0, 0.0, 1.0, 1.0];
/// let loss = softmax_cross_entropy(&mut scores, &[0, 1], 0.5);
/// assert!((loss - 2.0 * 2f32.ln()).abs() < 1e-6);
/// assert_eq!(scores, [-0.25, 0.25, 0.25, -0.25]);
/// ```
///
/// # Panics
/// If a label is not below the number of classes.
pub fn softmax_cross_entropy(scores: &mut [f32], labels: &[u32], share: f32) -> f32 {
    let mut loss = 0.0;
    subtract_highest(scores, labels, |right| loss -= right);
    exp_below_zero(scores);
    let classes = (scores.len() / labels.len().max(1)).max(1);
    let blocks = scores.chunks_mut(TOGETHER * classes).zip(labels.chunks(TOGETHER));
    for (scores, labels) in blocks {
        let mut product = 1.0;
        for (row, &label) in scores.chunks_exact_mut(classes).zip(labels) {
            let sum = row.iter().sum::<f32>();
            product *= sum;
            let scale = share / sum;
            row.iter_mut().for_each(|score| *score *= scale);
            row[label as usize] -= share;
        }
        loss += product.ln();
    }
    loss
}

/// As [`softmax_cross_entropy`], with a weight for each example, by which its loss and gradient
/// are multiplied. Without weights every weight is 1.
///
/// ```
/// use paceline_kernels::weighted_cross_entropy;
///
/// let mut scores = [0.0, 0.0, 1.0, 1.0];
/// let loss = weighted_cross_entropy(&mut scores, &[0, 1], &[2.0, 0.0], 0.5);
/// assert!((loss - 2.0 * 2f32.ln()).abs() < 1e-6);
/// assert_eq!(scores, [-0.5, 0.5, 0.0, 0.0]);
/// ```
///
/// # Panics
/// If a label is not below the number of classes, or the number of weights is neither zero nor
/// that of the labels.
pub fn weighted_cross_entropy(
    scores: &mut [f32],
    labels: &[u32],
    weights: &[f32],
    share: f32,
) -> f32 {
    if weights.is_empty() {
        return softmax_cross_entropy(scores, labels, share);
    }
    assert_eq!(labels.len(), weights.len(), "weights of the examples");
    let (mut loss, mut of_example) = (0.0, weights.iter());
    subtract_highest(scores, labels, |right| {
        loss -= of_example.next().unwrap_or(&1.0) * right;
    });
    exp_below_zero(scores);
    let classes = (scores.len() / labels.len().max(1)).max(1);
    let rows = scores.chunks_exact_mut(classes).zip(labels);
    for ((row, &label), &weight) in rows.zip(weights) {
        let sum = row.iter().sum::<f32>();
        let scale = share * weight / sum;
        row.iter_mut().for_each(|score| *score *= scale);
        row[label as usize] -= share * weight;
        loss += weight * sum.ln();
    }
    loss
}

/// The score of an example's class.
///
/// # Panics
/// If the label is not below the number of scores.
#[inline]
pub fn score_of(scores: &[f32], label: u32) -> f32 {
    scores.get(label as usize).copied().unwrap_or_else(|| no_such_class(label, scores.len()))
}

#[cold]
fn no_such_class(label: u32, classes: usize) -> ! {
    panic!("label {label}, but there are scores for {classes} classes")
}
