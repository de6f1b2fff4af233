//! The quality of a model, counted over any number of batches.

use crate::kernels::score_of;
use crate::ranking::Ranking;

/// Counts over the examples seen so far. Sums are `f64`, so that their order hardly matters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Examples counted.
    pub examples: u64,
    /// Examples whose most likely class was the correct one.
    pub correct: u64,
    /// The sum of the losses.
    pub loss_sum: f64,
    /// Counts of a model of two classes only.
    two_class: Option<TwoClass>,
    /// The scores of all examples, if they are kept.
    scores: Option<Vec<f32>>,
}

/// The additional counts of a model of two classes. Class 1 is the positive one.
#[derive(Clone, Debug, Default, PartialEq)]
struct TwoClass {
    /// Examples classified as 1.
    predicted: u64,
    /// Examples of class 1.
    present: u64,
    /// Examples of class 1 classified as 1.
    found: u64,
    ranking: Ranking,
}

/// The averages of a [`Tally`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Examples counted.
    pub examples: u64,
    /// The mean loss; NaN without examples.
    pub loss: f64,
    /// The share of correct answers, from 0 to 1; NaN without examples.
    pub accuracy: f64,
    /// Whether the model has two classes, as the other fields require.
    pub is_two_class: bool,
    /// The share of class 1 among the examples classified as 1; `None` if there are none.
    pub precision: Option<f64>,
    /// The share of examples classified as 1 among those of class 1; `None` if there are none.
    pub recall: Option<f64>,
    /// The area under the ROC curve: the probability that an example of class 1 has a higher
    /// score than one of class 0. `None` if one of the classes has no examples.
    pub auc: Option<f64>,
}

impl Score {
    /// Why a model of two classes has no area under the ROC curve; `None` if it has one, or has
    /// other classes.
    pub fn auc_undefined(&self) -> Option<&'static str> {
        (self.is_two_class && self.auc.is_none()).then_some("the test set has one class")
    }
}

impl Tally {
    /// A tally that also keeps the scores of every example it counts, for predictions. They are
    /// exactly what [`Model::evaluate`](crate::Model::evaluate) judges.
    ///
    /// ```
    /// use paceline_model::{Batch, Model, Softmax, Tally};
    ///
    /// let mut tally = Tally::keeping_scores();
    /// let params = [2.0, 0.0, 0.0, 1.0];
    /// Softmax::new(1, 2).evaluate(&params, Batch::dense(&[3.0], &[0]), &mut tally);
    /// assert_eq!(tally.scores(), [6.0, 1.0]);
    /// ```
    pub fn keeping_scores() -> Self {
        Self { scores: Some(Vec::new()), ..Self::default() }
    }

    /// The scores it has kept, example after example: one for each class, or only one if the model
    /// has two classes and one score.
    pub fn scores(&self) -> &[f32] {
        self.scores.as_deref().unwrap_or_default()
    }

    /// Forgets everything, and keeps scores from now on if it has kept them so far.
    pub fn clear(&mut self) {
        let mut scores = self.scores.take();
        scores.iter_mut().for_each(Vec::clear);
        *self = Self { scores, ..Self::default() };
    }

    /// Forgets the scores it has kept, but none of the counts.
    pub fn forget_scores(&mut self) {
        self.scores.iter_mut().for_each(Vec::clear);
    }

    /// Keeps the scores of counted examples, if it keeps any.
    #[inline]
    pub(crate) fn keep(&mut self, scores: &[f32]) {
        if let Some(kept) = &mut self.scores {
            kept.extend_from_slice(scores);
        }
    }

    /// An empty tally that keeps scores if this one does.
    pub(crate) fn like(&self) -> Self {
        Self { scores: self.scores.as_ref().map(|_| Vec::new()), ..Self::default() }
    }

    /// Counts an example from its scores, one for each class, with the cross-entropy of their
    /// softmax as its loss. The first of equal highest scores counts.
    ///
    /// # Panics
    /// If `label` is not below the number of scores.
    pub fn count_scores(&mut self, scores: &[f32], label: u32) {
        self.keep(scores);
        let own = score_of(scores, label);
        let (mut best, mut top) = (0, f32::NEG_INFINITY);
        for (class, &score) in scores.iter().enumerate() {
            if score > top {
                (best, top) = (class, score);
            }
        }
        let sum: f64 = scores.iter().map(|&score| f64::from(score - top).exp()).sum();
        self.count(best == label as usize, (sum.ln() - f64::from(own - top)) as f32);
    }

    /// Counts a block of examples from their scores, one example after another, as
    /// [`count_scores`](Tally::count_scores) does.
    ///
    /// # Panics
    /// If the scores do not divide evenly among the labels, or a label is not below the number of
    /// classes.
    pub fn count_block(&mut self, scores: &[f32], labels: &[u32]) {
        let classes = scores.len() / labels.len().max(1);
        assert_eq!(scores.len(), classes * labels.len(), "scores");
        for (scores, &label) in scores.chunks_exact(classes.max(1)).zip(labels) {
            self.count_scores(scores, label);
        }
    }

    /// Counts an example with its loss and whether the model's answer is correct.
    pub fn count(&mut self, is_correct: bool, loss: f32) {
        self.examples += 1;
        self.correct += u64::from(is_correct);
        self.loss_sum += f64::from(loss);
    }

    /// Counts an example of a model of two classes, 0 and 1. A score above 0 means class 1.
    #[inline]
    pub fn count_two_class(&mut self, score: f32, label: u32, loss: f32) {
        let (predicted, present) = (score > 0.0, label != 0);
        self.keep(&[score]);
        self.examples += 1;
        self.correct += u64::from(predicted == present);
        self.loss_sum += f64::from(loss);
        let two_class = self.two_class.get_or_insert_default();
        two_class.predicted += u64::from(predicted);
        two_class.present += u64::from(present);
        two_class.found += u64::from(predicted && present);
        two_class.ranking.count(score, present);
    }

    /// Adds the counts of another tally, which must not be of two classes.
    pub(crate) fn add(&mut self, other: &Tally) {
        assert!(other.two_class.is_none(), "rankings of two classes are not added up");
        self.examples += other.examples;
        self.correct += other.correct;
        self.loss_sum += other.loss_sum;
        self.keep(other.scores());
    }

    /// The mean loss; NaN without examples.
    pub fn loss(&self) -> f64 {
        self.loss_sum / self.examples as f64
    }

    /// The share of correct answers, from 0 to 1; NaN without examples.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.examples as f64
    }

    /// The averages of all counts.
    pub fn score(&self) -> Score {
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let two_class = self.two_class.as_ref();
        Score {
            examples: self.examples,
            loss: self.loss(),
            accuracy: self.accuracy(),
            is_two_class: two_class.is_some(),
            precision: two_class.and_then(|two| share(two.found, two.predicted)),
            recall: two_class.and_then(|two| share(two.found, two.present)),
            auc: two_class.and_then(|two| two.ranking.auc()),
        }
    }
}

#[cfg(test)]
mod tests;
