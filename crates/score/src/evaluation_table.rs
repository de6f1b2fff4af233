//! The figures of an evaluation as tables of text.

use paceline_terminal::{aligned, fitted, grouped, output_width, shown_name, wrap_output};

use crate::calibration::CalibrationBin;
use crate::evaluation::{ClassFigures, Evaluation, TwoClassFigures};

/// The most classes of a confusion matrix that is shown.
const MOST_CLASSES: usize = 20;

/// The tables of an evaluation, as wide as the terminal allows.
pub fn evaluation_tables(figures: &Evaluation) -> String {
    let mut figures = figures.clone();
    let per_class = figures.per_class.iter_mut().map(|class| &mut class.class);
    figures.classes.iter_mut().chain(per_class).for_each(|name| *name = shown_name(name));
    tables_of(&figures)
}

fn tables_of(figures: &Evaluation) -> String {
    let width = output_width();
    let mut text = String::new();
    if let Some(two_class) = &figures.two_class {
        text.push_str(&threshold_line(two_class, &figures.classes[1]));
    }
    if !figures.per_class.is_empty() {
        text.push_str(&format!("\n{}", fitted(&class_rows(&figures.per_class), &[], width)));
    }
    if figures.classes.len() <= MOST_CLASSES {
        text.push_str(&format!("\n{}", confusion_table(figures, width)));
    } else {
        text.push_str("\n(--json shows the confusion matrix, which is too large for a table)\n");
    }
    let shown = if figures.two_class.is_some() { &figures.classes[1] } else { "answer" };
    text.push_str(&format!("\n{}", fitted(&calibration_rows(figures, shown), &[], width)));
    text
}

fn threshold_line(figures: &TwoClassFigures, positive: &str) -> String {
    let share =
        |share: Option<f64>| share.map_or("undefined".into(), |share| format!("{share:.4}"));
    let line = format!(
        "class {positive} above {}: precision {}, recall {}, accuracy {:.2} %",
        figures.threshold,
        share(figures.precision),
        share(figures.recall),
        100.0 * figures.accuracy_at_threshold
    );
    wrap_output(&line, "  ") + "\n"
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

/// The confusion matrix. Where it is too wide otherwise, a line above it says what columns are.
fn confusion_table(figures: &Evaluation, width: Option<usize>) -> String {
    let rows = confusion_rows(figures, "as ");
    let is_wide = |text: &str| text.lines().any(|line| Some(line.chars().count()) > width);
    if width.is_none() || !is_wide(&aligned(&rows)) {
        return aligned(&rows);
    }
    let narrow = aligned(&confusion_rows(figures, ""));
    if is_wide(&narrow) {
        return fitted(&rows, &[], width);
    }
    format!("columns: what the model answers\n{narrow}")
}

fn confusion_rows(figures: &Evaluation, before_class: &str) -> Vec<Vec<String>> {
    let mut titles = vec!["actual".to_owned()];
    titles.extend(figures.classes.iter().map(|class| format!("{before_class}{class}")));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_move_no_cursor_and_end_no_line() {
        let classes: Vec<String> = ["a\x1b[31m", "b\n", "c\u{202e}"].map(String::from).to_vec();
        let per_class = classes.iter().map(|class| ClassFigures {
            class: class.clone(),
            examples: 1,
            precision: None,
            recall: None,
        });
        let text = evaluation_tables(&Evaluation {
            data: String::new(),
            examples: 3,
            skipped: 0,
            log_loss: 0.0,
            accuracy: 1.0,
            two_class: None,
            per_class: per_class.collect(),
            confusion: vec![vec![1; 3]; 3],
            calibration: Vec::new(),
            classes,
        });
        assert!(text.contains("as a\\u{1b}[31m") && text.contains("as c\\u{202e}"), "{text}");
        assert!(
            !text.contains(['\x1b', '\u{202e}']) && text.matches("b\\n").count() == 3,
            "{text}"
        );
    }
}
