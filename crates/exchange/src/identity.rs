//! What the tasks of a run must agree on, and how two of them compare it.

use std::sync::Arc;

use crate::{Hello, PeerRole, Refusal, RefuseCode, WireFormat};

/// The longest list of keys that travels; of a longer one, only the digest does.
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
    fn difference(&self, here: &str, other: &Self, there: &str) -> Option<String> {
        if self.keys.is_empty() || other.keys.is_empty() {
            return None;
        }
        let entries = |job: &'_ Self| -> Vec<(String, String)> {
            let pair = |line: &str| line.split_once(" = ").map(|(key, to)| (plain(key), plain(to)));
            job.keys.lines().filter_map(pair).collect()
        };
        let (ours, theirs) = (entries(self), entries(other));
        let find = |list: &[(String, String)], key: &str| {
            let found = list.iter().find(|(other, _)| other == key);
            found.map_or_else(|| "not set".to_owned(), |(_, value)| value.clone())
        };
        let keys = ours.iter().chain(&theirs).map(|(key, _)| key);
        keys.map(|key| (key, find(&ours, key), find(&theirs, key)))
            .find(|(_, ours, theirs)| ours != theirs)
            .map(|(key, ours, theirs)| format!("{key} is {ours} at {here} and {theirs} at {there}"))
    }
}

/// A key or a value as messages show it: short, and without characters that a terminal interprets.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_VALUE_CHARS).collect()
}

/// What a task compares with the `Hello` of another one.
pub(crate) struct RunIdentity<'a> {
    /// This task's name.
    pub(crate) name: &'a str,
    /// The names of the workers, by slot.
    pub(crate) names: &'a [String],
    pub(crate) token: &'a [u8],
    pub(crate) wire: WireFormat,
    pub(crate) job: &'a JobIdentity,
    pub(crate) layout_digest: &'a [u8; 32],
}

impl RunIdentity<'_> {
    /// Checks what every task of a run must agree on. The token comes first: a stranger learns
    /// nothing more.
    pub(crate) fn check(&self, hello: &Hello) -> Result<(), Refusal> {
        hello.check_token(self.token)?;
        let (here, there) = (self.name, hello.sender(self.names));
        if hello.wire != self.wire {
            let (theirs, ours) = (hello.wire.name(), self.wire.name());
            let text = format!(
                "it sends gradients as {theirs}, but this run as {ours}: cluster.wire differs"
            );
            return Err(Refusal::new(RefuseCode::WrongWire, text));
        }
        if hello.job.digest != self.job.digest {
            let difference = self.job.difference(here, &hello.job, &there);
            let text = difference.unwrap_or_else(|| "it works for another job".into());
            return Err(Refusal::new(RefuseCode::WrongJob, text));
        }
        if hello.layout_digest != *self.layout_digest {
            let text = format!(
                "the parameters of {there} are laid out differently from those of {here}, for the \
                 same job; is the data the same?"
            );
            return Err(Refusal::new(RefuseCode::WrongLayout, text));
        }
        Ok(())
    }
}

impl Hello {
    /// The name of the task that says it, given those of the workers by slot.
    pub(crate) fn sender(&self, workers: &[String]) -> String {
        if !self.process.name.is_empty() {
            return self.process.name.clone();
        }
        match (self.role, workers.get(self.slot as usize)) {
            (PeerRole::Evaluator, _) => format!("evaluator:{}", self.slot),
            (PeerRole::Newcomer, _) | (_, None) => "another task".into(),
            (_, Some(name)) => name.clone(),
        }
    }

    /// Checks the token, which even a newcomer must know.
    pub(crate) fn check_token(&self, token: &[u8]) -> Result<(), Refusal> {
        if equal_in_constant_time(&self.token, token) {
            return Ok(());
        }
        Err(Refusal::new(RefuseCode::WrongToken, "the token is not this run's"))
    }
}

/// Compares secrets in a time that does not reveal where they differ.
fn equal_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |sum, (l, r)| sum | (l ^ r));
    left.len() == right.len() && std::hint::black_box(differences) == 0
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
