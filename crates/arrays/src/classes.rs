//! The classes of examples whose labels are whole numbers.

use std::path::Path;

use paceline_data::DataError;

use crate::file_array::fault;

/// The most classes.
const MAX_CLASSES: i64 = 1 << 20;

/// Turns labels into classes: numbers from 0 on are classes already, and if the labels are -1 and
/// +1, -1 is class 0. `unit` names what a label belongs to, in errors.
pub(crate) fn classes_of(labels: &[i64], name: &Path, unit: &str) -> Result<Vec<u32>, DataError> {
    let is_signed = labels.contains(&-1) && labels.iter().all(|&label| label == -1 || label == 1);
    if is_signed {
        return Ok(labels.iter().map(|&label| u32::from(label > 0)).collect());
    }
    let class = |(index, &label): (usize, &i64)| {
        if (0..MAX_CLASSES).contains(&label) {
            return Ok(label as u32);
        }
        let what = format!(
            "the label of {unit} {index} (from 0) is {label}; classes are numbered from 0 to \
             {}, or are -1 and +1",
            MAX_CLASSES - 1
        );
        Err(fault(name, what))
    };
    labels.iter().enumerate().map(class).collect()
}

/// The number of classes of a training set.
pub(crate) fn count_classes(train: &[u32]) -> usize {
    train.iter().max().map_or(0, |&greatest| greatest as usize + 1)
}

/// Checks that every label of a test set is a class of the training set.
pub(crate) fn check_test_labels(
    test: &[u32],
    classes: usize,
    name: &Path,
) -> Result<(), DataError> {
    match test.iter().find(|&&label| label as usize >= classes) {
        Some(label) => {
            let greatest = classes.saturating_sub(1);
            let what = format!(
                "the test set has class {label}, but the classes of the training set end with \
                 {greatest}"
            );
            Err(fault(name, what))
        }
        None => Ok(()),
    }
}
