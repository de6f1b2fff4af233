//! Which job a task works for, and in which key two jobs differ.

use std::sync::Arc;

/// The longest list of keys that travels; for a longer one, only the digest travels.
pub(crate) const MAX_JOB_BYTES: usize = 48 * 1024;
/// A longer value of a key is cut in messages.
const MAX_VALUE_CHARS: usize = 200;

/// Identifies a job: equal on all tasks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobIdentity {
    /// The digest of all that tasks must agree on. Tasks of different digests refuse each other.
    pub digest: [u8; 32],
    /// What the digest is of, one `key = value` a line, so that a refusal can name the first key
    /// that differs. May be empty.
    pub keys: Arc<str>,
}

impl From<[u8; 32]> for JobIdentity {
    fn from(digest: [u8; 32]) -> Self {
        Self { digest, keys: Arc::default() }
    }
}

impl JobIdentity {
    /// The keys as they travel.
    pub(crate) fn sent_keys(&self) -> &str {
        if self.keys.len() <= MAX_JOB_BYTES { &self.keys } else { "" }
    }

    /// The first key in which this job, of the task `here`, differs from the `other`, of the task
    /// `there`, with both values. `None` if the keys are equal or not known.
    pub(crate) fn difference(&self, here: &str, other: &Self, there: &str) -> Option<String> {
        if self.keys.is_empty() || other.keys.is_empty() {
            return None;
        }
        let ours = TaskKeys { task: here, lines: self.keys.lines() };
        first_difference(ours, TaskKeys { task: there, lines: other.keys.lines() })
    }
}

/// The keys of a task's job.
pub struct TaskKeys<'a, L> {
    /// What a message calls the task.
    pub task: &'a str,
    /// Lines of the form `key = value`.
    pub lines: L,
}

/// The first key in which the jobs of two tasks differ, with both values. `None` if the jobs are
/// equal.
pub fn first_difference<'a, 'b>(
    ours: TaskKeys<'_, impl Iterator<Item = &'a str>>,
    theirs: TaskKeys<'_, impl Iterator<Item = &'b str>>,
) -> Option<String> {
    let (here, there) = (ours.task, theirs.task);
    let pair = |line: &str| line.split_once(" = ").map(|(key, to)| (plain(key), plain(to)));
    let ours: Vec<(String, String)> = ours.lines.filter_map(pair).collect();
    let theirs: Vec<(String, String)> = theirs.lines.filter_map(pair).collect();
    let find = |list: &[(String, String)], key: &str| {
        let found = list.iter().find(|(other, _)| other == key);
        found.map_or_else(|| "not set".to_owned(), |(_, value)| value.clone())
    };
    let keys = ours.iter().chain(&theirs).map(|(key, _)| key);
    keys.map(|key| (key, find(&ours, key), find(&theirs, key)))
        .find(|(_, ours, theirs)| ours != theirs)
        .map(|(key, ours, theirs)| format!("{key} is {ours} at {here} and {theirs} at {there}"))
}

/// A key or a value as messages show it: short, and without characters that a terminal interprets.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_VALUE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_that_differs_is_named_with_both_values() {
        let job = |keys: &str| JobIdentity { digest: [1; 32], keys: keys.into() };
        let ours = job("train.batch = 60\ntrain.stop.steps = 5");
        let difference = |other: &str| ours.difference("ps:0", &job(other), "worker:1");
        let expect = |text: &str| Some(text.to_owned());
        assert_eq!(
            difference("train.batch = 10\ntrain.stop.steps = 6"),
            expect("train.batch is 60 at ps:0 and 10 at worker:1")
        );
        assert_eq!(
            difference("train.batch = 60\ntrain.stop.seconds = 5\ntrain.stop.steps = 5"),
            expect("train.stop.seconds is not set at ps:0 and 5 at worker:1")
        );
        assert_eq!(
            difference("train.batch = 60"),
            expect("train.stop.steps is 5 at ps:0 and not set at worker:1")
        );
        let hostile = difference("train.batch = \u{1b}[2J6\u{7}1").unwrap();
        assert!(!hostile.chars().any(char::is_control), "{hostile:?}");
        assert_eq!(difference(""), None);
        assert_eq!(ours.difference("ps:0", &ours, "worker:1"), None);
    }
}
