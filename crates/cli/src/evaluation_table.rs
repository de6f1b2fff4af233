//! The figures of an evaluation as tables of text.

use paceline_score::{CalibrationBin, ClassFigures, Evaluation, TwoClassFigures};

use paceline_terminal::{fitted, grouped, output_width};

/// Matrices of more classes are not shown.
const MOST_CLASSES: usize = 20;

/// The tables of an evaluation.
pub(crate) fn evaluation_tables(figures: &Evaluation) -> String {
    let width = output_width();
    let mut text = String::new();
    if let Some(two_class) = &figures.two_class {
        text.push_str(&threshold_line(two_class, &figures.classes[1]));
    }
    if !figures.per_class.is_empty() {
        text.push_str(&format!("\n{}", fitted(&class_rows(&figures.per_class), &[], width)));
    }
    if figures.classes.len() <= MOST_CLASSES {
        text.push_str(&format!("\n{}", fitted(&confusion_rows(figures), &[], width)));
    } else {
        text.push_str("\n(--json shows the confusion matrix of that many classes)\n");
    }
    let shown = if figures.two_class.is_some() { &figures.classes[1] } else { "answer" };
    text.push_str(&format!("\n{}", fitted(&calibration_rows(figures, shown), &[], width)));
    text
}

fn threshold_line(figures: &TwoClassFigures, positive: &str) -> String {
    let share =
        |share: Option<f64>| share.map_or("undefined".into(), |share| format!("{share:.4}"));
    format!(
        "class {positive} above {}: precision {}, recall {}, accuracy {:.2} %\n",
        figures.threshold,
        share(figures.precision),
        share(figures.recall),
        100.0 * figures.accuracy_at_threshold
    )
}

fn class_rows(classes: &[ClassFigures]) -> Vec<Vec<String>> {
    let share = |share: Option<f64>| share.map_or("-".into(), |share| format!("{share:.4}"));
    let mut rows = vec![["class", "examples", "precision", "recall"].map(String::from).to_vec()];
    rows.extend(classes.iter().map(|figures| {
        let ClassFigures { class, examples, precision, recall } = figures;
        vec![class.clone(), grouped(*examples), share(*precision), share(*recall)]
    }));
    rows
}

fn confusion_rows(figures: &Evaluation) -> Vec<Vec<String>> {
    let mut titles = vec!["actual".to_owned()];
    titles.extend(figures.classes.iter().map(|class| format!("as {class}")));
    let mut rows = vec![titles];
    for (class, counts) in figures.classes.iter().zip(&figures.confusion) {
        let counts = counts.iter().map(|&count| grouped(count));
        rows.push([class.clone()].into_iter().chain(counts).collect());
    }
    rows
}

fn calibration_rows(figures: &Evaluation, what: &str) -> Vec<Vec<String>> {
    let titles = [
        format!("probability of {what}"),
        "examples".into(),
        "predicted".into(),
        "observed".into(),
    ];
    let mut rows = vec![titles.to_vec()];
    rows.extend(figures.calibration.iter().map(|bin| {
        let CalibrationBin { examples, lowest, highest, predicted, observed } = bin;
        vec![
            format!("{lowest:.4} to {highest:.4}"),
            grouped(*examples),
            format!("{predicted:.4}"),
            format!("{observed:.4}"),
        ]
    }));
    rows
}
