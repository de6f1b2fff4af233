//! Push and pull for a sparse model: values are requested by key, and may arrive while others are
//! in use.
//!
//! [`ServerConnections::push_keys`] returns as soon as the sockets have taken everything;
//! [`ServerConnections::wait_for_values`] then waits for the values that it requested. A worker can
//! so compute one batch while the values of the next one travel.

use std::mem;

use paceline_exchange::{PullPurpose, max_keys};
use paceline_model::AlignedBuffer;

use super::server_connections::{ReturnWhen, ServerConnections};
use crate::error::LinkError;
use crate::observer::LinkObserver;
use crate::outcome::LinkOutcome;

impl ServerConnections {
    /// Pulls the values of `keys`, which must be in strictly ascending order, into `values`.
    pub fn pull_keys(
        &mut self,
        keys: &[u32],
        purpose: PullPurpose,
        values: &mut AlignedBuffer,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        self.check_count(keys)?;
        if self.has_rewound {
            return Ok(LinkOutcome::Rewound);
        }
        self.client.begin_pull_keys(keys, purpose);
        self.params.resize(keys.len() * self.client.width());
        let pulled = self.complete_whole(&[], ReturnWhen::Answered, observer)?;
        if pulled == LinkOutcome::Done(()) {
            mem::swap(values, &mut self.params);
        }
        Ok(pulled)
    }

    /// Pushes the gradient of the batch of plan step `step`, one number for each value of the keys
    /// that were pulled first, and requests the values of `next`. Returns when both are sent.
    pub fn push_keys(
        &mut self,
        step: u64,
        examples: u32,
        grad: &[f32],
        next: &[u32],
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        self.check_count(next)?;
        if self.has_rewound {
            return Ok(LinkOutcome::Rewound);
        }
        self.client.begin_push_keys(step, examples, next);
        observer.sending_gradient(step);
        self.params.resize(next.len() * self.client.width());
        // If the connection breaks, it must be sent again after this call has returned.
        let mut pushed = mem::take(&mut self.pushed);
        pushed.clear();
        pushed.extend_from_slice(grad);
        let sent = self.complete_whole(&pushed, ReturnWhen::Sent, observer);
        self.pushed = pushed;
        sent
    }

    /// Waits for the values that the last push requested, and swaps them with `values`.
    pub fn wait_for_values(
        &mut self,
        values: &mut AlignedBuffer,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        if self.has_rewound {
            return Ok(LinkOutcome::Rewound);
        }
        let pushed = mem::take(&mut self.pushed);
        let answered = self.complete_whole(&pushed, ReturnWhen::Answered, observer);
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
        let most = max_keys(self.client.width());
        if keys.len() > most && self.client.most_at_one_server(keys) > most {
            return Err(LinkError::TooManyKeys { most });
        }
        Ok(())
    }
}
