//! A link of a sparse model: values are asked for by key, and may come while others are in use.
//!
//! [`Link::push_keys`] returns as soon as everything is on its way; the values that it asks for
//! are there after [`Link::await_values`]. So a worker can compute one batch while the values of
//! the next travel.

use std::mem;

use paceline_exchange::{MAX_KEYS, PullPurpose};

use super::{Attendant, Link, LinkError, Until};

impl Link {
    /// Asks for the values of these keys, which must rise strictly, and waits for them.
    pub fn pull_keys(
        &mut self,
        keys: &[u32],
        purpose: PullPurpose,
        values: &mut Vec<f32>,
        attendant: &mut impl Attendant,
    ) -> Result<(), LinkError> {
        self.check_count(keys)?;
        self.client.begin_pull_keys(keys, purpose);
        self.params.resize(keys.len(), 0.0);
        self.complete(&[], Until::Answered, attendant)?;
        mem::swap(values, &mut self.params);
        Ok(())
    }

    /// Hands over the gradient of the keys that were asked for first, of the batch of plan step
    /// `step`, and asks for the values of `next`; returns when both are on their way.
    pub fn push_keys(
        &mut self,
        step: u64,
        examples: u32,
        grad: &[f32],
        next: &[u32],
        attendant: &mut impl Attendant,
    ) -> Result<(), LinkError> {
        self.check_count(next)?;
        self.client.begin_push_keys(step, examples, next);
        attendant.sends(step);
        self.params.resize(next.len(), 0.0);
        // It may have to be sent again when the caller has gone on.
        let mut pushed = mem::take(&mut self.pushed);
        pushed.clear();
        pushed.extend_from_slice(grad);
        let sent = self.complete(&pushed, Until::Sent, attendant);
        self.pushed = pushed;
        sent
    }

    /// Waits for the values that the last push asked for, and swaps them for `values`.
    pub fn await_values(
        &mut self,
        values: &mut Vec<f32>,
        attendant: &mut impl Attendant,
    ) -> Result<(), LinkError> {
        let pushed = mem::take(&mut self.pushed);
        let answered = self.complete(&pushed, Until::Answered, attendant);
        self.pushed = pushed;
        answered?;
        mem::swap(values, &mut self.params);
        Ok(())
    }

    /// Another step than the expected one is to be computed next: its values are asked for with
    /// [`PullPurpose::Begin`].
    pub fn go_on_with(&mut self, step: u64) {
        self.client.resume_at(step);
    }

    fn check_count(&self, keys: &[u32]) -> Result<(), LinkError> {
        match keys.len() > MAX_KEYS && self.client.most_at_one_server(keys) > MAX_KEYS {
            true => Err(LinkError::TooManyKeys { most: MAX_KEYS }),
            false => Ok(()),
        }
    }
}
