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
use crate::mesh::KeyedGradient;
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
        let places = self.place(keys)?;
        if self.has_rewound {
            return Ok(LinkOutcome::Rewound);
        }
        self.client.begin_pull_keys(places.as_deref().unwrap_or(keys), purpose);
        self.keep(places);
        self.params.resize(keys.len() * self.client.width());
        let pulled = self.complete_whole(&[], ReturnWhen::Answered, observer)?;
        if pulled == LinkOutcome::Done(()) {
            self.hand_over(values);
        }
        Ok(pulled)
    }

    /// Pushes the gradient of the batch of plan step `step`, whose keys were requested before, and
    /// requests the values of `next`. Returns when both are sent.
    pub fn push_keys(
        &mut self,
        step: u64,
        gradient: KeyedGradient<'_>,
        next: &[u32],
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        let places = self.place(next)?;
        if self.has_rewound {
            return Ok(LinkOutcome::Rewound);
        }
        let KeyedGradient { examples, keys, values } = gradient;
        self.client.begin_push_keys(step, examples, places.as_deref().unwrap_or(next));
        self.keep(places);
        observer.sending_gradient(step);
        self.params.resize(next.len() * self.client.width());
        // If the connection breaks, it must be sent again after this call has returned.
        let mut pushed = mem::take(&mut self.pushed);
        match &self.config.order {
            Some(order) => order.gather(keys, values, &mut pushed),
            None => {
                pushed.clear();
                pushed.extend_from_slice(values);
            }
        }
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
            self.hand_over(values);
        }
        Ok(answered)
    }

    /// The places of keys that are about to be requested; `None` if each key is its own place.
    fn place(&mut self, keys: &[u32]) -> Result<Option<Vec<u32>>, LinkError> {
        let Some(order) = &self.config.order else {
            self.check_count(keys)?;
            return Ok(None);
        };
        let mut places = mem::take(&mut self.places);
        order.place_keys(keys, &mut places);
        self.requested.clear();
        self.requested.extend_from_slice(keys);
        self.check_count(&places)?;
        Ok(Some(places))
    }

    /// Keeps the buffer of places for the next request.
    fn keep(&mut self, places: Option<Vec<u32>>) {
        if let Some(places) = places {
            self.places = places;
        }
    }

    /// Hands over the values that were requested, in the order of their keys.
    fn hand_over(&mut self, values: &mut AlignedBuffer) {
        let Some(order) = &self.config.order else {
            mem::swap(values, &mut self.params);
            return;
        };
        values.resize(self.params.len());
        order.scatter(&self.requested, &self.params, values);
    }

    /// Continues with a step other than the expected one. Its values must be pulled with
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
