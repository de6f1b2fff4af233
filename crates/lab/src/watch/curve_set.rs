//! The curves of a task, by tag.

use std::collections::BTreeMap;

use super::series::Series;

/// Most curves of a task.
const MAX_CURVES: usize = 256;

/// The curves of a task, by tag.
#[derive(Debug, Default)]
pub(crate) struct CurveSet {
    series: BTreeMap<String, Series>,
}

impl CurveSet {
    /// The curve of this tag, created if need be; none if there are too many curves.
    pub(crate) fn entry(&mut self, tag: &str) -> Option<&mut Series> {
        if !self.series.contains_key(tag) {
            if self.series.len() >= MAX_CURVES {
                return None;
            }
            self.series.insert(tag.to_owned(), Series::default());
        }
        self.series.get_mut(tag)
    }

    pub(crate) fn get(&self, tag: &str) -> Option<&Series> {
        self.series.get(tag)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Series)> {
        self.series.iter().map(|(tag, series)| (tag.as_str(), series))
    }

    /// Drops the points of this step and later ones.
    pub(crate) fn truncate_from(&mut self, step: u64) {
        self.series.values_mut().for_each(|series| series.truncate_from(step));
    }
}
