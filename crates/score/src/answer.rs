//! Turns scores into answers: probabilities, a class, the most likely classes, or the scores.

/// What is written for each row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerStyle {
    /// The probability of each class; for two classes, only that of the second.
    #[default]
    Probabilities,
    /// The most likely class.
    Class,
    /// The scores themselves.
    Scores,
    /// The most likely classes with their probabilities.
    Top(usize),
}

/// One value of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnswerValue {
    /// A class, by index.
    Class(usize),
    /// A probability or a score.
    Number(f32),
}

/// Turns the scores of rows into answers of one style.
#[derive(Clone, Debug)]
pub struct Answerer {
    style: AnswerStyle,
    names: Vec<String>,
    probabilities: Vec<f32>,
    order: Vec<usize>,
    values: Vec<AnswerValue>,
}

impl Answerer {
    /// Answers of a model with these classes. `Top` of more classes than there are means all.
    pub fn new(style: AnswerStyle, names: &[String]) -> Self {
        let style = match style {
            AnswerStyle::Top(most) => AnswerStyle::Top(most.clamp(1, names.len())),
            style => style,
        };
        let names = names.to_vec();
        Self { style, names, probabilities: vec![], order: vec![], values: vec![] }
    }

    /// The names of the classes.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The names of an answer's values. `outputs` is the number of scores of a row.
    pub fn columns(&self, outputs: usize) -> Vec<String> {
        let names = &self.names;
        match self.style {
            AnswerStyle::Probabilities if names.len() == 2 => vec![format!("p_{}", names[1])],
            AnswerStyle::Probabilities => names.iter().map(|name| format!("p_{name}")).collect(),
            AnswerStyle::Class => vec!["class".into()],
            AnswerStyle::Scores if outputs == 1 => vec!["score".into()],
            AnswerStyle::Scores => names.iter().map(|name| format!("score_{name}")).collect(),
            AnswerStyle::Top(most) => (1..=most)
                .flat_map(|rank| [format!("class_{rank}"), format!("probability_{rank}")])
                .collect(),
        }
    }

    /// The answer to a row with these scores.
    #[inline]
    pub fn answer(&mut self, scores: &[f32]) -> &[AnswerValue] {
        self.values.clear();
        match self.style {
            AnswerStyle::Class => self.values.push(AnswerValue::Class(best_class(scores))),
            AnswerStyle::Scores => {
                self.values.extend(scores.iter().map(|&score| AnswerValue::Number(score)));
            }
            AnswerStyle::Probabilities => {
                probabilities(scores, &mut self.probabilities);
                let shown = if self.names.len() == 2 { 1 } else { 0 };
                let shown = self.probabilities[shown..].iter();
                self.values.extend(shown.map(|&chance| AnswerValue::Number(chance)));
            }
            AnswerStyle::Top(most) => {
                probabilities(scores, &mut self.probabilities);
                self.order.clear();
                self.order.extend(0..self.probabilities.len());
                let chances = &self.probabilities;
                // A stable sort: the first of equal classes stays first.
                self.order.sort_by(|&a, &b| chances[b].total_cmp(&chances[a]));
                for &class in &self.order[..most] {
                    let chance = AnswerValue::Number(chances[class]);
                    self.values.extend([AnswerValue::Class(class), chance]);
                }
            }
        }
        &self.values
    }
}

/// The most likely class; the first of equal ones.
///
/// ```
/// use paceline_score::best_class;
///
/// assert_eq!(best_class(&[0.5, 2.0, 2.0]), 1);
/// assert_eq!((best_class(&[0.0]), best_class(&[0.1])), (0, 1));
/// ```
#[inline]
pub fn best_class(scores: &[f32]) -> usize {
    if let [score] = scores {
        return usize::from(*score > 0.0);
    }
    let (mut best, mut top) = (0, f32::NEG_INFINITY);
    for (class, &score) in scores.iter().enumerate() {
        if score > top {
            (best, top) = (class, score);
        }
    }
    best
}

/// The probability of each class. A single score is that of the second of two classes.
///
/// ```
/// use paceline_score::probabilities;
///
/// let mut chances = Vec::new();
/// probabilities(&[0.0], &mut chances);
/// assert_eq!(chances, [0.5, 0.5]);
/// probabilities(&[1.0, 1.0, 1.0, 1.0], &mut chances);
/// assert_eq!(chances, [0.25; 4]);
/// ```
#[inline]
pub fn probabilities(scores: &[f32], chances: &mut Vec<f32>) {
    chances.clear();
    if let [score] = scores {
        // No exponential of a positive number is taken, so nothing overflows.
        let small = (-score.abs()).exp();
        let likely = 1.0 / (1.0 + small);
        let [low, high] = [small * likely, likely];
        chances.extend(if *score >= 0.0 { [low, high] } else { [high, low] });
        return;
    }
    let top = scores.iter().fold(f32::NEG_INFINITY, |top, &score| top.max(score));
    let sum: f64 = scores.iter().map(|&score| f64::from(score - top).exp()).sum();
    chances.extend(scores.iter().map(|&score| (f64::from(score - top).exp() / sum) as f32));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(classes: usize) -> Vec<String> {
        (0..classes).map(|class| format!("c{class}")).collect()
    }

    #[test]
    fn two_classes_show_the_probability_of_the_second() {
        let mut answerer = Answerer::new(AnswerStyle::Probabilities, &names(2));
        assert_eq!(answerer.columns(1), ["p_c1"]);
        let AnswerValue::Number(chance) = answerer.answer(&[2.0])[0] else { panic!("a number") };
        assert!((chance - 0.880_797).abs() < 1e-6);
        assert_eq!(answerer.answer(&[-200.0]), [AnswerValue::Number(0.0)]);
        assert_eq!(answerer.answer(&[200.0]), [AnswerValue::Number(1.0)]);
        assert_eq!(answerer.answer(&[1.5, 1.5]), [AnswerValue::Number(0.5)]);
    }

    #[test]
    fn the_most_likely_classes_come_in_order() {
        let mut answerer = Answerer::new(AnswerStyle::Top(2), &names(3));
        let columns = ["class_1", "probability_1", "class_2", "probability_2"];
        assert_eq!(answerer.columns(3), columns);
        let answer = answerer.answer(&[0.0, 30.0, 30.0]);
        assert_eq!((answer[0], answer[2]), (AnswerValue::Class(1), AnswerValue::Class(2)));
        assert_eq!(Answerer::new(AnswerStyle::Top(9), &names(3)).columns(3).len(), 6);
    }

    #[test]
    fn scores_and_classes_are_given_as_they_are() {
        let mut answerer = Answerer::new(AnswerStyle::Scores, &names(2));
        assert_eq!(answerer.columns(1), ["score"]);
        assert_eq!(answerer.columns(2), ["score_c0", "score_c1"]);
        assert_eq!(answerer.answer(&[-1.25]), [AnswerValue::Number(-1.25)]);
        let mut answerer = Answerer::new(AnswerStyle::Class, &names(3));
        assert_eq!(answerer.answer(&[1.0, 3.0, 2.0]), [AnswerValue::Class(1)]);
    }
}
