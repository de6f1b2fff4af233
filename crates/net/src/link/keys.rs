//! A link of a sparse model: values are asked for by key, and may come while others are in use.
//!
//! [`ServerConnections::push_keys`] returns as soon as everything is on its way; the values that it asks for
//! are there after [`ServerConnections::wait_for_values`]. So a worker can compute one batch while the values of
//! the next travel.

use std::mem;

use paceline_exchange::{MAX_KEYS, PullPurpose};

use super::{ServerConnections, Until};
use crate::error::LinkError;
use crate::observer::LinkObserver;
use crate::outcome::LinkOutcome;

impl ServerConnections {
    /// Asks for the values of these keys, which must rise strictly, and waits for them.
    pub fn pull_keys(
        &mut self,
        keys: &[u32],
        purpose: PullPurpose,
        values: &mut Vec<f32>,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        self.check_count(keys)?;
        self.client.begin_pull_keys(keys, purpose);
        self.params.resize(keys.len(), 0.0);
        let pulled = self.complete(&[], Until::Answered, observer)?;
        if pulled == LinkOutcome::Done(()) {
            mem::swap(values, &mut self.params);
        }
        Ok(pulled)
    }

    /// Hands over the gradient of the keys that were asked for first, of the batch of plan step
    /// `step`, and asks for the values of `next`; returns when both are on their way.
    pub fn push_keys(
        &mut self,
        step: u64,
        examples: u32,
        grad: &[f32],
        next: &[u32],
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        self.check_count(next)?;
        self.client.begin_push_keys(step, examples, next);
        observer.sending_gradient(step);
        self.params.resize(next.len(), 0.0);
        // It may have to be sent again when the caller has gone on.
        let mut pushed = mem::take(&mut self.pushed);
        pushed.clear();
        pushed.extend_from_slice(grad);
        let sent = self.complete(&pushed, Until::Sent, observer);
        self.pushed = pushed;
        sent
    }

    /// Waits for the values that the last push asked for, and swaps them for `values`.
    pub fn wait_for_values(
        &mut self,
        values: &mut Vec<f32>,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        let pushed = mem::take(&mut self.pushed);
        let answered = self.complete(&pushed, Until::Answered, observer);
        self.pushed = pushed;
        let answered = answered?;
        if answered == LinkOutcome::Done(()) {
            mem::swap(values, &mut self.params);
        }
        Ok(answered)
    }

    /// Continues with another step than the expected one. Its values must be pulled with
    /// [`PullPurpose::Begin`].
    pub fn resume_at(&mut self, step: u64) {
        self.client.resume_at(step);
    }

    fn check_count(&self, keys: &[u32]) -> Result<(), LinkError> {
        match keys.len() > MAX_KEYS && self.client.most_at_one_server(keys) > MAX_KEYS {
            true => Err(LinkError::TooManyKeys { most: MAX_KEYS }),
            false => Ok(()),
        }
    }
}
