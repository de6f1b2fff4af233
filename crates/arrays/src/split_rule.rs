//! What training and tests take of one file.

use std::sync::Arc;

use paceline_data::{DataError, Examples, HoldOut, SelectedExamples, TrainTest};

/// How a set without test examples is split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitRule {
    pub(crate) hold_out: Option<usize>,
    pub(crate) split: HoldOut,
    pub(crate) seed: u64,
}

/// Holds examples out for tests: as many as the rule says, by default a tenth.
pub(crate) fn hold_out<E: Examples>(
    examples: E,
    labels: &[u32],
    rule: SplitRule,
    origin: String,
) -> Result<TrainTest<SelectedExamples<E>>, DataError> {
    let all = labels.len();
    let count = rule.hold_out.unwrap_or_else(|| HoldOut::default_count(all));
    if count >= all {
        let what = format!(
            "{count} of {all} examples cannot be held out to test on; set data.hold_out to fewer"
        );
        return Err(DataError::Sparse { path: origin.into(), what });
    }
    let chosen = rule.split.choose(labels.iter().copied(), count, rule.seed);
    let examples = Arc::new(examples);
    let select = |which| SelectedExamples::of(Arc::clone(&examples), which);
    let (train, test) = (select(chosen.rest), select(chosen.test));
    Ok(TrainTest { origin, ..TrainTest::new(train, test) })
}
