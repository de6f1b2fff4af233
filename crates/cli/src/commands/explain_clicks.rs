//! What a model of generated clicks can reach, for `paceline explain`.

use paceline_data::SparseKind;
use paceline_data::sparse::{ClickBounds, FIRST_TEST_ROW};
use paceline_job::{DataKind, Plan};

/// The most rows that are judged: enough for the digits that are shown.
const MOST_ROWS: u64 = 200_000;

/// The loss and AUC of the true odds on the test rows; empty for other data.
pub(super) fn bounds(plan: &Plan) -> String {
    let DataKind::Rows(spec) = &plan.data.kind else { return String::new() };
    let rows = spec.test_examples.unwrap_or_default() as u64;
    if spec.kind != SparseKind::Clicks || rows == 0 {
        return String::new();
    }
    let bounds = spec.clicks().bounds(FIRST_TEST_ROW..FIRST_TEST_ROW + rows.min(MOST_ROWS));
    let ClickBounds { log_loss, auc, linear_log_loss, linear_auc } = bounds;
    let linear = if spec.interactions == 0.0 {
        String::new()
    } else {
        format!("; a linear model reaches at best {linear_log_loss:.4} and {linear_auc:.4}")
    };
    format!("# clicks: the true odds have a test loss of {log_loss:.4}, AUC {auc:.4}{linear}\n")
}
