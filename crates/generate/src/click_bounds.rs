//! How well a model of generated clicks can do at all.
//!
//! The generator knows the odds of every row. No model does better than they do, apart from chance,
//! and no linear model better than the linear part of the scores, rescaled.

use std::ops::Range;

use crate::clicks::{ClickRow, Clicks};

/// The loss and the ranking of the generator's own scores, on rows that it drew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClickBounds {
    /// The mean log loss of the true scores.
    pub log_loss: f64,
    /// The area under their ROC curve.
    pub auc: f64,
    /// The mean log loss of the linear part of the scores, with the best scale and intercept.
    pub linear_log_loss: f64,
    /// The area under the ROC curve of the linear part.
    pub linear_auc: f64,
}

/// A row's scores and its label.
struct JudgedRow {
    score: f64,
    linear: f64,
    label: f64,
}

impl Clicks {
    /// What the generator's own scores reach on some rows.
    ///
    /// # Panics
    /// If there are no rows.
    pub fn bounds(&self, rows: Range<u64>) -> ClickBounds {
        assert!(!rows.is_empty(), "no rows to judge");
        let mut row = ClickRow::default();
        let mut judged = |index| {
            self.draw(index, &mut row);
            JudgedRow { score: row.score, linear: row.linear_score, label: row.label.into() }
        };
        let mut rows: Vec<JudgedRow> = rows.map(&mut judged).collect();
        let line = fit_line(&rows);
        ClickBounds {
            log_loss: mean_loss(&rows, |row| row.score),
            linear_log_loss: mean_loss(&rows, |row| line[0] * row.linear + line[1]),
            auc: auc(&mut rows, |row| row.score),
            linear_auc: auc(&mut rows, |row| row.linear),
        }
    }
}

fn mean_loss(rows: &[JudgedRow], score: impl Fn(&JudgedRow) -> f64) -> f64 {
    let loss = |row: &JudgedRow| {
        let score = score(row);
        score.max(0.0) - row.label * score + (-score.abs()).exp().ln_1p()
    };
    rows.iter().map(loss).sum::<f64>() / rows.len() as f64
}

/// The scale and the intercept of the linear scores that have the least loss, by Newton's method.
fn fit_line(rows: &[JudgedRow]) -> [f64; 2] {
    let mut line = [1.0, 0.0];
    for _ in 0..16 {
        let (mut grad, mut curve) = ([0.0; 2], [0.0; 3]);
        for row in rows {
            let chance = 1.0 / (1.0 + (-(line[0] * row.linear + line[1])).exp());
            let (slope, weight) = (chance - row.label, chance * (1.0 - chance));
            grad[0] += slope * row.linear;
            grad[1] += slope;
            curve[0] += weight * row.linear * row.linear;
            curve[1] += weight * row.linear;
            curve[2] += weight;
        }
        let determinant = curve[0] * curve[2] - curve[1] * curve[1];
        // A handful of rows may leave the line undetermined.
        if determinant <= 1e-9 * curve[0] * curve[2] {
            break;
        }
        line[0] -= (curve[2] * grad[0] - curve[1] * grad[1]) / determinant;
        line[1] -= (curve[0] * grad[1] - curve[1] * grad[0]) / determinant;
    }
    line
}

/// The share of pairs of a click and another row in which the click has the higher score; equal
/// scores count as half.
fn auc(rows: &mut [JudgedRow], score: impl Fn(&JudgedRow) -> f64) -> f64 {
    rows.sort_by(|a, b| score(a).total_cmp(&score(b)));
    let (mut below, mut won) = (0.0, 0.0);
    for tied in rows.chunk_by(|a, b| score(a) == score(b)) {
        let clicks: f64 = tied.iter().map(|row| row.label).sum();
        let others = tied.len() as f64 - clicks;
        won += clicks * (below + others / 2.0);
        below += others;
    }
    won / (below * (rows.len() as f64 - below))
}
