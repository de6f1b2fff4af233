//! The values of a sparse model's keys that a worker has fetched from servers.

use paceline_exchange::{ClientConfig, PullPurpose, max_keys};
use paceline_model::AlignedBuffer;

use super::ServerConnections;
use crate::LinkError;
use crate::observer::LinkObserver;
use crate::outcome::LinkOutcome::{self, Done, Rewound};

/// The values that the link of a sparse model holds.
pub struct SparseValues {
    /// Keys on all servers together.
    pub keys: usize,
    /// Parameters per key.
    pub width: usize,
    /// The numbers at the end of the last key that are not parameters.
    pub padding: usize,
    /// Whether values travel while others are in use.
    pub overlaps: bool,
    /// The values of the batch to compute now.
    pub current: AlignedBuffer,
    /// The values of the next batch, if the link overlaps.
    pub next: AlignedBuffer,
    peeked: AlignedBuffer,
    /// Values of more keys than one request may have.
    joined: Vec<f32>,
    /// A push has not been answered yet.
    pub in_flight: bool,
}

impl SparseValues {
    /// What the link of this client holds, if its model is sparse.
    pub fn new(client: &ClientConfig, overlaps: bool) -> Option<Self> {
        client.is_sparse.then(|| Self {
            keys: client.total_params,
            width: client.width,
            padding: client.padding,
            overlaps,
            current: AlignedBuffer::default(),
            next: AlignedBuffer::default(),
            peeked: AlignedBuffer::default(),
            joined: Vec::new(),
            in_flight: false,
        })
    }

    /// The values of some keys, for a test: in as many requests as they need.
    pub fn peek(
        &mut self,
        connections: &mut ServerConnections,
        keys: &[u32],
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome<&[f32]>, LinkError> {
        let (purpose, most) = (PullPurpose::ReadOnly, max_keys(self.width));
        if keys.len() <= most {
            let peeked = connections.pull_keys(keys, purpose, &mut self.peeked, observer)?;
            return Ok(if peeked == Rewound { Rewound } else { Done(&self.peeked) });
        }
        self.joined.clear();
        for some in keys.chunks(most) {
            if connections.pull_keys(some, purpose, &mut self.peeked, observer)? == Rewound {
                return Ok(Rewound);
            }
            self.joined.extend_from_slice(&self.peeked);
        }
        Ok(Done(&self.joined))
    }

    /// Waits for the values that the last push requested, if it is not answered yet.
    pub fn complete(
        &mut self,
        connections: &mut ServerConnections,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        if self.in_flight {
            let place = if self.overlaps { &mut self.next } else { &mut self.current };
            let Done(()) = connections.wait_for_values(place, observer)? else {
                return Ok(Rewound);
            };
            self.in_flight = false;
        }
        Ok(Done(()))
    }
}
