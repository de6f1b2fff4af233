//! Takes the values of keys out of a job, each checked against its kind.

use std::path::PathBuf;
use std::sync::Arc;

use super::check::JobChecker;
use super::key_spec::{ValueKind, share_in_words};
use super::link_rate::parse_rate;
use super::memory_size::parse_memory;
use super::problem::Problem;
use super::resolve::{is_address, is_name, is_path, is_storage};
use super::schema::find_key;
use super::value::JobValue;

impl JobChecker<'_> {
    pub(super) fn optional<T>(
        &mut self,
        path: &str,
        take: impl Fn(&mut Self, &str) -> T,
    ) -> Option<T> {
        self.job.entries.contains_key(path).then(|| take(self, path))
    }

    pub(super) fn whole(&mut self, path: &str) -> u64 {
        self.take(path, whole_of).unwrap_or(1)
    }

    /// A whole number, where the word that the key also accepts makes no sense.
    pub(super) fn whole_alone(&mut self, path: &str) -> u64 {
        let kind = match kind_of(path) {
            ValueKind::WholeOr { min, max, .. } => ValueKind::Whole { min, max },
            other => other,
        };
        self.take_as(path, kind, whole_of).unwrap_or(1)
    }

    pub(super) fn number(&mut self, path: &str) -> f64 {
        self.take(path, |value, kind| {
            let number = match value {
                JobValue::Number(number) => *number,
                JobValue::Whole(whole) => *whole as f64,
                _ => return None,
            };
            // Models compute in f32: a rate that becomes 0 or infinite there is not usable.
            let seen = f64::from(number as f32);
            let fits = match kind {
                ValueKind::Above(limit) => seen > limit,
                ValueKind::From(limit) => seen >= limit,
                ValueKind::Fraction => (0.0..1.0).contains(&seen),
                ValueKind::Share => seen > 0.0 && seen <= 1.0,
                ValueKind::ShareOrPath => seen > 0.0 && seen < 1.0,
                _ => false,
            };
            (fits && seen.is_finite()).then_some(number)
        })
        .unwrap_or(1.0)
    }

    /// A list of weights; empty if it is not set.
    pub(super) fn weights(&mut self, path: &str) -> Arc<[f32]> {
        self.take(path, |value, _| match value {
            JobValue::List(items) if !items.is_empty() => items.iter().map(weight_of).collect(),
            _ => None,
        })
        .unwrap_or_default()
    }

    pub(super) fn sizes(&mut self, path: &str) -> Vec<usize> {
        self.take(path, |value, kind| match (value, kind) {
            (JobValue::List(items), ValueKind::Sizes { max }) => {
                let size = |item: &JobValue| match item {
                    JobValue::Whole(size) if (1..=max as i64).contains(size) => {
                        Some(*size as usize)
                    }
                    _ => None,
                };
                items.iter().map(size).collect()
            }
            _ => None,
        })
        .unwrap_or_default()
    }

    pub(super) fn rate(&mut self, path: &str) -> u64 {
        self.take(path, |value, _| match value {
            JobValue::Text(text) => parse_rate(text),
            _ => None,
        })
        .unwrap_or(1)
    }

    pub(super) fn memory(&mut self, path: &str) -> u64 {
        self.take(path, |value, _| match value {
            JobValue::Text(text) => parse_memory(text),
            _ => None,
        })
        .unwrap_or(u64::MAX)
    }

    pub(super) fn flag(&mut self, path: &str) -> bool {
        self.take(path, |value, _| match value {
            JobValue::Flag(flag) => Some(*flag),
            _ => None,
        })
        .unwrap_or_default()
    }

    pub(super) fn text(&mut self, path: &str) -> String {
        self.take(path, |value, kind| match (value, kind) {
            (JobValue::Text(text), ValueKind::Word(words)) => {
                words.contains(&text.as_str()).then(|| text.clone())
            }
            (JobValue::Text(text), ValueKind::Name) => is_name(text).then(|| text.clone()),
            (JobValue::Text(text), ValueKind::Text) => (!text.is_empty()).then(|| text.clone()),
            (JobValue::Text(text), ValueKind::Storage) => is_storage(text).then(|| text.clone()),
            (JobValue::Text(text), ValueKind::Address) => is_address(text).then(|| text.clone()),
            _ => None,
        })
        .unwrap_or_default()
    }

    pub(super) fn path(&mut self, path: &str) -> PathBuf {
        self.take(path, |value, kind| match (value, kind) {
            (JobValue::Text(text), ValueKind::ShareOrPath) if share_in_words(text).is_some() => {
                None
            }
            (JobValue::Text(text), _) if is_path(text) => Some(PathBuf::from(text)),
            _ => None,
        })
        .unwrap_or_default()
    }

    /// The texts of a list. Numbers are their own text.
    pub(super) fn texts(&mut self, path: &str) -> Vec<String> {
        self.take(path, |value, _| match value {
            JobValue::List(items) => items.iter().map(text_of).collect(),
            _ => None,
        })
        .unwrap_or_default()
    }

    /// The texts of a list of lists.
    pub(super) fn text_lists(&mut self, path: &str) -> Vec<Vec<String>> {
        let list = |value: &JobValue| match value {
            JobValue::List(items) => items.iter().map(text_of).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        self.take(path, |value, _| match value {
            JobValue::List(items) => items.iter().map(list).collect(),
            _ => None,
        })
        .unwrap_or_default()
    }

    pub(super) fn character(&mut self, path: &str) -> char {
        self.take(path, |value, _| match value {
            JobValue::Text(text) => {
                let mut letters = text.chars();
                letters.next().filter(|_| letters.next().is_none())
            }
            _ => None,
        })
        .unwrap_or(' ')
    }

    fn take<T>(
        &mut self,
        path: &str,
        read: impl Fn(&JobValue, ValueKind) -> Option<T>,
    ) -> Option<T> {
        self.take_as(path, kind_of(path), read)
    }

    fn take_as<T>(
        &mut self,
        path: &str,
        kind: ValueKind,
        read: impl Fn(&JobValue, ValueKind) -> Option<T>,
    ) -> Option<T> {
        let entry = self.job.entries.get(path)?;
        let value = read(&entry.value, kind);
        if value.is_none() {
            let takes = kind.describe();
            let found = entry.value.describe();
            let hint = kind.hint(&entry.value);
            let message = format!("{path} must be {takes}, not {found}{hint}");
            self.problems.push(Problem { origin: entry.origin.clone(), message });
        }
        value
    }
}

/// The values that a key accepts.
fn kind_of(path: &str) -> ValueKind {
    find_key(path).unwrap_or_else(|| unreachable!("{path} is in the schema")).kind
}

/// A whole number within the limits of its kind.
fn whole_of(value: &JobValue, kind: ValueKind) -> Option<u64> {
    let (ValueKind::Whole { min, max } | ValueKind::WholeOr { min, max, .. }) = kind else {
        return None;
    };
    let JobValue::Whole(whole) = value else { return None };
    u64::try_from(*whole).ok().filter(|whole| (min..=max).contains(whole))
}

/// A weight: a finite number from 0 up.
fn weight_of(item: &JobValue) -> Option<f32> {
    let weight = match item {
        JobValue::Whole(whole) => *whole as f32,
        JobValue::Number(number) => *number as f32,
        _ => return None,
    };
    (weight.is_finite() && weight >= 0.0).then_some(weight)
}

/// The text of a list's item.
fn text_of(item: &JobValue) -> Option<String> {
    match item {
        JobValue::Text(text) => Some(text.clone()),
        JobValue::Whole(_) | JobValue::Number(_) | JobValue::Flag(_) => Some(item.to_string()),
        JobValue::List(_) => None,
    }
}
