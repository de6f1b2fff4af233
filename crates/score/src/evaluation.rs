//! Evaluation: how good a model is on labelled rows.

use std::cell::Cell;

use paceline_model::{LogisticLoss, Score, ScoreLoss, Tally};
use serde::Serialize;

use crate::answer::{best_class, probabilities};
use crate::calibration::{CalibrationBin, CalibrationCounts};
use crate::error::ScoreError;
use crate::predict::{BadRows, PredictObserver};
use crate::scored_rows::{NO_LABEL, ScoredRows};
use crate::scoring::{HowToScore, ScoreInput, score};
use crate::trained_model::TrainedModel;

/// How an evaluation is made.
#[derive(Clone, Debug)]
pub struct EvaluateOptions {
    /// The probability above which a row of two classes counts as one of the second.
    pub threshold: f64,
    /// What happens to rows that cannot be scored; [`BadRows::Mark`] is as [`BadRows::Skip`].
    pub bad_rows: BadRows,
    /// Threads; as many as cores if `None`.
    pub threads: Option<usize>,
}

impl Default for EvaluateOptions {
    fn default() -> Self {
        Self { threshold: 0.5, bad_rows: BadRows::Fail, threads: None }
    }
}

/// How good a model is on labelled rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Where the rows come from.
    pub data: String,
    /// Rows counted.
    pub examples: u64,
    /// Rows that could not be scored and were skipped.
    pub skipped: u64,
    /// The mean of the negative logarithm of the true class's probability.
    pub log_loss: f64,
    /// The share of rows whose most likely class is the true one.
    pub accuracy: f64,
    /// Figures of models with two classes.
    #[serde(flatten)]
    pub two_class: Option<TwoClassFigures>,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// Figures of each class, if there are more than two.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per_class: Vec<ClassFigures>,
    /// Rows by their true class and, within it, by the most likely one; with two classes, the
    /// threshold decides.
    pub confusion: Vec<Vec<u64>>,
    /// The predictions in ten parts of equal size, the lowest first.
    pub calibration: Vec<CalibrationBin>,
}

/// Figures of a model with two classes. The second class is the positive one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TwoClassFigures {
    /// The area under the ROC curve; `None` if a class has no rows.
    pub auc: Option<f64>,
    /// The probability above which a row counts as positive.
    pub threshold: f64,
    /// The share of positive rows among those counted as positive; `None` if there are none.
    pub precision: Option<f64>,
    /// The share of rows counted as positive among the positive ones; `None` if there are none.
    pub recall: Option<f64>,
    /// The share of rows whose class by the threshold is the true one.
    pub accuracy_at_threshold: f64,
}

/// Figures of one class among several.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassFigures {
    /// The class.
    pub class: String,
    /// Rows of the class.
    pub examples: u64,
    /// The share of the class among the rows that are taken for it; `None` if there are none.
    pub precision: Option<f64>,
    /// The share of its rows that are taken for it; `None` if there are none.
    pub recall: Option<f64>,
}

impl Evaluation {
    /// The figures that a test during training has, too.
    pub fn score(&self) -> Score {
        let two_class = self.two_class.as_ref();
        Score {
            examples: self.examples,
            loss: self.log_loss,
            accuracy: self.accuracy,
            is_two_class: two_class.is_some(),
            precision: two_class.and_then(|figures| figures.precision),
            recall: two_class.and_then(|figures| figures.recall),
            auc: two_class.and_then(|figures| figures.auc),
        }
    }
}

/// Evaluates a model on the labelled rows of an input.
///
/// # Errors
/// If the input cannot be read, does not fit the model or has no row, a row is bad and must not be
/// skipped (such as one without a label that the model knows), or `observer` asks to stop.
pub fn evaluate(
    model: &TrainedModel,
    input: &ScoreInput,
    options: &EvaluateOptions,
    observer: PredictObserver<'_>,
) -> Result<Evaluation, ScoreError> {
    let mut counts = EvaluationCounts::new(model.class_names(), options);
    if let ScoreInput::Examples(input) = input {
        counts.skipped = input.skipped;
    }
    let done = Cell::new(0);
    let mut take = |scored: ScoredRows, _| {
        counts.add(&scored, options)?;
        done.set(counts.tally.examples + counts.skipped);
        Ok(())
    };
    let how = HowToScore { threads: options.threads, needs_labels: true };
    score(model, input, how, &|| observer(done.get()), Ok, &mut take)?;
    counts.finish(&input.origin())
}

/// Makes an evaluation of scores that were computed elsewhere.
pub struct EvaluationBuilder {
    counts: EvaluationCounts,
    /// The number of classes according to the scores, if it differs.
    other_classes: Option<usize>,
}

impl EvaluationBuilder {
    /// An evaluation of a model with these classes; `threshold` is that of [`EvaluateOptions`].
    pub fn new(classes: &[String], threshold: f64) -> Self {
        let options = EvaluateOptions { threshold, ..EvaluateOptions::default() };
        Self { counts: EvaluationCounts::new(classes, &options), other_classes: None }
    }

    /// Adds the scores of some examples, example after example, and their classes.
    ///
    /// # Panics
    /// If a class is not below the number of classes.
    pub fn add(&mut self, scores: &[f32], labels: &[u32]) {
        let outputs = scores.len() / labels.len().max(1);
        let classes = if outputs == 1 { 2 } else { outputs };
        if classes != self.counts.names.len() {
            self.other_classes = Some(classes);
            return;
        }
        for (scores, &label) in scores.chunks_exact(outputs).zip(labels) {
            self.counts.count(scores, label);
        }
    }

    /// The evaluation of what was added. `data` says where it is from, and `skipped` how many
    /// examples could not be read.
    ///
    /// # Errors
    /// If nothing was added, or the scores have another number of classes.
    pub fn finish(mut self, data: &str, skipped: u64) -> Result<Evaluation, ScoreError> {
        if let Some(classes) = self.other_classes {
            let names = self.counts.names.len();
            let what = format!("{data}: {names} classes have names, but there are {classes}");
            return Err(ScoreError::Refused(what));
        }
        self.counts.skipped = skipped;
        self.counts.finish(data)
    }
}

/// The counts of an evaluation, in the order of the rows.
struct EvaluationCounts {
    names: Vec<String>,
    tally: Tally,
    /// The score above which a row of two classes counts as positive.
    score_threshold: f64,
    threshold: f64,
    confusion: Vec<Vec<u64>>,
    calibration: CalibrationCounts,
    skipped: u64,
    chances: Vec<f32>,
}

impl EvaluationCounts {
    fn new(names: &[String], options: &EvaluateOptions) -> Self {
        let threshold = options.threshold;
        Self {
            names: names.to_vec(),
            tally: Tally::default(),
            // Exactly 0 for one half, as a test during training compares the score with 0.
            score_threshold: (threshold / (1.0 - threshold)).ln(),
            threshold,
            confusion: vec![vec![0; names.len()]; names.len()],
            calibration: CalibrationCounts::new(),
            skipped: 0,
            chances: Vec::new(),
        }
    }

    fn add(&mut self, scored: &ScoredRows, options: &EvaluateOptions) -> Result<(), ScoreError> {
        if let Some(bad) = scored.bad.first()
            && options.bad_rows == BadRows::Fail
        {
            return Err(ScoreError::Refused(scored.place(bad)));
        }
        self.skipped += scored.bad.len() as u64;
        for (index, (scores, &label)) in scored.rows().zip(&scored.labels).enumerate() {
            if label as usize >= self.names.len() {
                if options.bad_rows != BadRows::Fail {
                    self.skipped += 1;
                    continue;
                }
                return Err(ScoreError::Refused(self.wrong_label(scored, index, label)));
            }
            self.count(scores, label);
        }
        Ok(())
    }

    fn wrong_label(&self, scored: &ScoredRows, index: usize, label: u32) -> String {
        let what = if label == NO_LABEL {
            "it has no label that the model knows, and an evaluation needs one".to_owned()
        } else {
            format!("its label {label} is unknown: the model has {} classes", self.names.len())
        };
        let place = format!("{}, {} {}", scored.source, scored.unit, scored.numbers[index]);
        let texts = scored.ids.len() / scored.numbers.len().max(1);
        match scored.ids.get(index * texts) {
            Some(name) if texts > 0 => format!("{place} ({name}): {what}"),
            _ => format!("{place}: {what}"),
        }
    }

    fn count(&mut self, scores: &[f32], label: u32) {
        probabilities(scores, &mut self.chances);
        let taken_for = match *scores {
            [score] => {
                let loss = LogisticLoss.loss(score, label).loss;
                self.tally.count_two_class(score, label, loss);
                self.count_positive(score, label)
            }
            [first, second] => {
                let loss = LogisticLoss.loss(second - first, label).loss;
                self.tally.count_two_class(second - first, label, loss);
                self.count_positive(second - first, label)
            }
            _ => {
                self.tally.count_scores(scores, label);
                let best = best_class(scores);
                self.calibration.add(self.chances[best], best == label as usize);
                best
            }
        };
        self.confusion[label as usize][taken_for] += 1;
    }

    fn count_positive(&mut self, score: f32, label: u32) -> usize {
        self.calibration.add(self.chances[1], label == 1);
        usize::from(f64::from(score) > self.score_threshold)
    }

    fn finish(self, data: &str) -> Result<Evaluation, ScoreError> {
        let score = self.tally.score();
        if score.examples == 0 {
            let bad = match self.skipped {
                0 => String::new(),
                skipped => format!(" ({skipped} bad)"),
            };
            let why = format!("{data}: there are no rows to evaluate on{bad}");
            return Err(ScoreError::Refused(why));
        }
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let confusion = &self.confusion;
        let taken_for = |class: usize| confusion.iter().map(|row| row[class]).sum::<u64>();
        let classes = self.names.iter().enumerate().map(|(class, name)| {
            let (hits, own) = (confusion[class][class], confusion[class].iter().sum());
            let (precision, recall) = (share(hits, taken_for(class)), share(hits, own));
            ClassFigures { class: name.clone(), examples: own, precision, recall }
        });
        let mut per_class: Vec<_> = classes.collect();
        let two_class = (per_class.len() == 2).then(|| TwoClassFigures {
            auc: score.auc,
            threshold: self.threshold,
            precision: per_class[1].precision,
            recall: per_class[1].recall,
            accuracy_at_threshold: (confusion[0][0] + confusion[1][1]) as f64
                / score.examples as f64,
        });
        if two_class.is_some() {
            per_class.clear();
        }
        Ok(Evaluation {
            data: data.to_owned(),
            examples: score.examples,
            skipped: self.skipped,
            log_loss: score.loss,
            accuracy: score.accuracy,
            two_class,
            per_class,
            calibration: self.calibration.bins(),
            confusion: self.confusion,
            classes: self.names,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate_scores(
        classes: usize,
        threshold: f64,
        rows: &[(&[f32], u32)],
    ) -> Result<Evaluation, ScoreError> {
        let names: Vec<String> = (0..classes).map(|class| class.to_string()).collect();
        let options = EvaluateOptions { threshold, ..EvaluateOptions::default() };
        let mut counts = EvaluationCounts::new(&names, &options);
        let scored = ScoredRows {
            source: "rows".into(),
            unit: "line",
            outputs: rows.first().map_or(1, |row| row.0.len()),
            scores: rows.iter().flat_map(|row| row.0.to_vec()).collect(),
            numbers: (1..=rows.len() as u64).collect(),
            labels: rows.iter().map(|row| row.1).collect(),
            ..ScoredRows::default()
        };
        counts.add(&scored, &options)?;
        counts.finish("rows")
    }

    #[test]
    fn two_classes_are_judged_at_the_threshold() {
        let rows: [(&[f32], u32); 4] = [(&[2.0], 1), (&[0.5], 0), (&[-0.5], 1), (&[-3.0], 0)];
        let at_half = evaluate_scores(2, 0.5, &rows).unwrap();
        let figures = at_half.two_class.clone().unwrap();
        assert_eq!((at_half.examples, at_half.accuracy), (4, 0.5));
        assert_eq!(at_half.confusion, [[1, 1], [1, 1]]);
        assert_eq!((figures.precision, figures.recall), (Some(0.5), Some(0.5)));
        assert_eq!(figures.auc, Some(0.75));
        let low = evaluate_scores(2, 0.3, &rows).unwrap();
        assert_eq!(low.confusion, [[1, 1], [0, 2]]);
        let figures = low.two_class.unwrap();
        assert_eq!((figures.recall, figures.accuracy_at_threshold), (Some(1.0), 0.75));
        assert_eq!(low.accuracy, 0.5, "the most likely class, whatever the threshold");
        let expected = [2.0f64, -0.5].map(|score| (1.0 + (-score).exp()).ln());
        let others = [0.5f64, -3.0].map(|score| (1.0 + score.exp()).ln());
        let mean = expected.iter().chain(&others).sum::<f64>() / 4.0;
        assert!((at_half.log_loss - mean).abs() < 1e-6);
    }

    #[test]
    fn two_scores_are_judged_as_their_difference() {
        let one = evaluate_scores(2, 0.5, &[(&[1.5], 1), (&[-1.0], 1)]).unwrap();
        let two = evaluate_scores(2, 0.5, &[(&[1.0, 2.5], 1), (&[0.5, -0.5], 1)]).unwrap();
        assert_eq!((one.log_loss, one.accuracy), (two.log_loss, two.accuracy));
        assert_eq!((one.confusion, one.two_class), (two.confusion, two.two_class));
    }

    #[test]
    fn scores_that_were_computed_elsewhere_give_the_same_evaluation() {
        let expected = evaluate_scores(2, 0.3, &[(&[1.5], 1), (&[-1.0], 0), (&[-2.0], 1)]).unwrap();
        let mut built = EvaluationBuilder::new(&["0".into(), "1".into()], 0.3);
        built.add(&[1.5], &[1]);
        built.add(&[-1.0, -2.0], &[0, 1]);
        assert_eq!(built.finish("rows", 0).unwrap(), expected);
    }

    #[test]
    fn several_classes_have_figures_each() {
        let rows: [(&[f32], u32); 3] = [(&[1., 0., 0.], 0), (&[1., 0., 0.], 1), (&[0., 0., 9.], 2)];
        let figures = evaluate_scores(3, 0.5, &rows).unwrap();
        assert_eq!(figures.confusion, [[1, 0, 0], [1, 0, 0], [0, 0, 1]]);
        assert_eq!(figures.per_class[0].precision, Some(0.5));
        assert_eq!(
            (figures.per_class[1].precision, figures.per_class[1].recall),
            (None, Some(0.0))
        );
        assert_eq!(figures.two_class, None);
    }

    #[test]
    fn a_missing_or_unknown_label_is_an_error_with_its_line() {
        let error = evaluate_scores(2, 0.5, &[(&[1.0], 1), (&[1.0], NO_LABEL)]).unwrap_err();
        assert!(error.to_string().starts_with("rows, line 2: it has no label"), "{error}");
        let error = evaluate_scores(2, 0.5, &[(&[1.0], 7)]).unwrap_err();
        assert!(error.to_string().contains("line 1: its label 7 is unknown"), "{error}");
        let error = evaluate_scores(2, 0.5, &[]).unwrap_err();
        assert!(error.to_string().contains("no rows"), "{error}");
    }
}
