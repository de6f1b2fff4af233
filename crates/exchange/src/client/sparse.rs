//! A client of a sparse model: it requests keys, and pushes a gradient of them later.
//!
//! Keys are sorted and shards are contiguous, so each server has a contiguous piece of the keys,
//! of their values and of their gradient, which has as many numbers for each key. All ranges count
//! in these compact slices, which stay with the caller.

use super::state::{Client, Operation};
use crate::{PeerRole, max_keys};

/// The purpose of a pull of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPurpose {
    /// The first batch of a worker, or the one to continue with after an unexpected one. Earlier
    /// requests are forgotten.
    Begin,
    /// A batch after those that were requested before.
    Ahead,
    /// Reading only: no gradient will follow.
    ReadOnly,
}

impl Client {
    /// Begins to pull the values of these keys, which must rise strictly.
    ///
    /// # Panics
    /// If the last operation is not complete, if not all servers have welcomed this client, if a
    /// server is asked for more than [`max_keys`], or if the pull is ahead of other than exactly
    /// one batch.
    pub fn begin_pull_keys(&mut self, keys: &[u32], purpose: PullPurpose) {
        assert!(self.resume_step.is_some(), "not all servers have welcomed this client");
        let is_worker = self.config.role == PeerRole::Worker;
        let resume = is_worker && purpose == PullPurpose::Begin;
        let ahead = is_worker && purpose == PullPurpose::Ahead;
        self.has_pulled |= resume;
        if resume {
            let requests = self.links.iter_mut().filter_map(|link| link.keys.as_mut());
            requests.for_each(|requests| requests.due.clear());
        }
        let due = self.links[0].keys.as_ref().map_or(0, |requests| requests.due.len());
        assert!(!ahead || due == 1, "keys ahead of {due} batches");
        let bytes = self.request(keys);
        self.key_bytes += if resume || ahead { bytes } else { 0 };
        self.begin(Operation::Pull { resume, ahead });
    }

    /// Begins to push the gradient of the keys that were requested first, for a step of the plan
    /// and as a mean over `examples` examples. The answer brings the values of `next`.
    ///
    /// # Panics
    /// As [`Client::begin_push`], or if no keys were requested.
    pub fn begin_push_keys(&mut self, step: u64, examples: u32, next: &[u32]) {
        self.key_bytes += self.request(next);
        for requests in self.links.iter_mut().filter_map(|link| link.keys.as_mut()) {
            let Some(oldest) = requests.due.pop_front() else {
                panic!("a gradient of keys that were not requested")
            };
            requests.pushing = oldest;
        }
        self.begin_push(step, examples);
    }

    /// Bytes of the keys that the batches of this client have requested so far, as they are sent.
    /// Keys that are only read do not count.
    pub fn key_bytes(&self) -> u64 {
        self.key_bytes
    }

    /// The numbers of each key.
    pub fn width(&self) -> usize {
        self.config.width
    }

    /// Changes the step that the slot continues with: a gradient that came too late is not made
    /// again.
    pub fn resume_at(&mut self, step: u64) {
        self.resume_step = Some(step);
    }

    /// The largest number of these keys that one server holds, which [`max_keys`] bounds.
    pub fn most_at_one_server(&self, keys: &[u32]) -> usize {
        let below = |end: usize| keys.partition_point(|&key| (key as usize) < end);
        let counts = self.links.iter().map(|link| below(link.shard.end) - below(link.shard.start));
        counts.max().unwrap_or(0)
    }

    /// Requests keys from their servers; the bytes that they take.
    fn request(&mut self, keys: &[u32]) -> u64 {
        assert!(self.is_complete(), "one operation at a time");
        let (mut from, most) = (0, max_keys(self.config.width));
        let mut bytes = 0;
        for link in &mut self.links {
            let to = from + keys[from..].partition_point(|&key| (key as usize) < link.shard.end);
            assert!(to - from <= most, "{} keys of one server", to - from);
            bytes += link.request_keys(keys, from..to);
            from = to;
        }
        assert_eq!(from, keys.len(), "keys beyond the parameters");
        bytes as u64
    }
}
