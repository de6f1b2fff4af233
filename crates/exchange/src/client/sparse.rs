//! A client of a sparse model: it names the keys that it wants, and owes a gradient of them.
//!
//! Keys are sorted and shards follow each other, so each server has a contiguous piece of the
//! keys, of their values and of their gradient. All ranges count in these compact slices, which
//! stay with the caller.

use super::{Client, Operation};
use crate::{MAX_KEYS, PeerRole};

/// What values are pulled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPurpose {
    /// The first batch of a worker, or the one to go on with after another than the expected
    /// one; whatever was asked for before is forgotten.
    Begin,
    /// A batch after those that were asked for already.
    Ahead,
    /// To look at them: no gradient will follow.
    ReadOnly,
}

impl Client {
    /// Begins to pull the values of these keys, which must rise strictly.
    ///
    /// # Panics
    /// If the last operation is not complete, or not all servers have welcomed this client, or
    /// a server is asked for more than [`MAX_KEYS`]; or for keys ahead when there are not those
    /// of exactly one batch before them.
    pub fn begin_pull_keys(&mut self, keys: &[u32], purpose: PullPurpose) {
        assert!(self.resume_step.is_some(), "not all servers have welcomed this client");
        let is_worker = self.config.role == PeerRole::Worker;
        let (resume, ahead) = (
            is_worker && purpose == PullPurpose::Begin,
            is_worker && purpose == PullPurpose::Ahead,
        );
        self.has_pulled |= resume;
        if resume {
            let forget = |link: &mut super::Link| {
                if let Some(asks) = &mut link.asks {
                    asks.owed.clear();
                }
            };
            self.links.iter_mut().for_each(forget);
        }
        let waiting = self.links[0].asks.as_ref().map_or(0, |asks| asks.owed.len());
        assert!(!ahead || waiting == 1, "keys ahead of {waiting} batches");
        self.ask(keys);
        self.begin(Operation::Pull { resume, ahead });
    }

    /// Begins to push the gradient of the keys that were asked for first: of which step of the
    /// plan, and over how many examples. The answer brings the values of `next`.
    ///
    /// # Panics
    /// As [`Client::begin_push`]; or if no keys were asked for.
    pub fn begin_push_keys(&mut self, step: u64, examples: u32, next: &[u32]) {
        self.ask(next);
        for asks in self.links.iter_mut().filter_map(|link| link.asks.as_mut()) {
            let Some(oldest) = asks.owed.pop_front() else {
                panic!("a gradient of keys that were not asked for")
            };
            asks.pushing = oldest;
        }
        self.begin_push(step, examples);
    }

    /// The step that a slot goes on with is another than it was told at first: a gradient that
    /// came too late is not made again.
    pub fn resume_at(&mut self, step: u64) {
        self.resume_step = Some(step);
    }

    /// How many of these keys the server with the most of them holds: what [`MAX_KEYS`] bounds.
    pub fn most_at_one_server(&self, keys: &[u32]) -> usize {
        let upto = |end: usize| keys.partition_point(|&key| (key as usize) < end);
        let counts = self.links.iter().map(|link| upto(link.shard.end) - upto(link.shard.start));
        counts.max().unwrap_or(0)
    }

    fn ask(&mut self, keys: &[u32]) {
        assert!(self.is_complete(), "one operation at a time");
        let mut from = 0;
        for link in &mut self.links {
            let to = from + keys[from..].partition_point(|&key| (key as usize) < link.shard.end);
            assert!(to - from <= MAX_KEYS, "{} keys of one server", to - from);
            link.ask(keys, from..to);
            from = to;
        }
        assert_eq!(from, keys.len(), "keys beyond the parameters");
    }
}
