//! Checks whether results on a test set mean anything.

use paceline_data::Examples;

use crate::workload::TrainingData;

/// The most labels that a warning lists.
const MAX_LISTED: usize = 10;

impl TrainingData {
    /// What makes results on the test set misleading: a single class, or labels that training never
    /// sees. Nothing is said of data whose labels are unknown until its examples are read.
    pub fn test_set_warnings(&self) -> Vec<String> {
        let counts = match self {
            TrainingData::Images(set) => Some([&set.train, &set.test].map(|images| {
                count_classes(images.labels().iter().map(|&label| usize::from(label)))
            })),
            TrainingData::Rows(set) => {
                Some([&set.train, &set.test].map(|rows| rows.class_counts()))
            }
            TrainingData::Examples(set) => {
                known_classes(&*set.train).zip(known_classes(&*set.test)).map(Into::into)
            }
        };
        let has_auc = matches!(self, TrainingData::Rows(_));
        let names = self.class_names();
        counts.map_or(Vec::new(), |[train, test]| warnings(&train, &test, names, has_auc))
    }

    /// The names of the classes, if they have names other than their numbers.
    fn class_names(&self) -> &[String] {
        match self {
            TrainingData::Images(_) => &[],
            TrainingData::Rows(set) => set.train.class_names(),
            TrainingData::Examples(set) => set.train.class_names(),
        }
    }
}

fn count_classes(labels: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut counts = Vec::new();
    for label in labels {
        if label >= counts.len() {
            counts.resize(label + 1, 0);
        }
        counts[label] += 1;
    }
    counts
}

fn known_classes(examples: &dyn Examples) -> Option<Vec<usize>> {
    let labels = (0..examples.len() as u32).map(|example| examples.class_of(example));
    let labels: Option<Vec<_>> = labels.map(|label| label.map(|label| label as usize)).collect();
    Some(count_classes(labels?.into_iter()))
}

/// Warnings for this number of training and test examples of each class.
fn warnings(train: &[usize], test: &[usize], names: &[String], has_auc: bool) -> Vec<String> {
    let label = |class: usize| names.get(class).cloned().unwrap_or_else(|| class.to_string());
    let only = |counts: &[usize]| {
        let mut present = (0..counts.len()).filter(|&class| counts[class] > 0);
        present.next().filter(|_| present.next().is_none())
    };
    let mut warnings = Vec::new();
    if let Some(class) = only(train) {
        warnings
            .push(format!("the training set has one class only: every label is {}", label(class)));
    }
    if let Some(class) = only(test) {
        let auc = if has_auc { ", and AUC is undefined" } else { "" };
        warnings.push(format!(
            "the test set has one class only: every label is {}, so accuracy says little{auc}",
            label(class)
        ));
    }
    let is_unseen = |class: &usize| test[*class] > 0 && train.get(*class).is_none_or(|&n| n == 0);
    let unseen: Vec<usize> = (0..test.len()).filter(is_unseen).collect();
    if !unseen.is_empty() {
        let examples: usize = unseen.iter().map(|&class| test[class]).sum();
        let all: usize = test.iter().sum();
        let listed: Vec<_> = unseen.iter().take(MAX_LISTED).map(|&class| label(class)).collect();
        let more = unseen.len() - listed.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        warnings.push(format!(
            "the test set has labels that training never sees: {}{more} ({examples} of {all} test \
             examples)",
            listed.join(", ")
        ));
    }
    warnings
}

#[cfg(test)]
mod tests;
