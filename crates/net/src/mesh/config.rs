//! What a worker of a mesh needs to know, and what it contributes to a step.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use paceline_trust::Credentials;

/// The addresses of all workers, and the limits of waits for them.
#[derive(Clone, Debug)]
pub struct MeshConfig {
    /// The workers' addresses, `host:port`, in the order of their slots.
    pub addresses: Vec<String>,
    /// What this worker shows to the others and demands of them.
    pub credentials: Credentials,
    /// The time that [`Mesh::connect`](crate::Mesh::connect) waits for all workers.
    pub start_timeout: Duration,
    /// The longest that a step may wait for other workers.
    pub stall_timeout: Duration,
    /// The time that a lost worker has to come back, if the run recovers from losses.
    pub rejoin_timeout: Duration,
    /// A shorter time for worker 0, if nothing starts it again.
    pub coordinator_timeout: Option<Duration>,
    /// Whether this worker takes the place of a lost one at another address: it connects to all
    /// others, since they cannot connect to it.
    pub dials_all: bool,
    /// Receives the workers that are lost.
    pub losses: Option<LossReport>,
}

/// Receives the slots of workers that are lost and do not come back, several times a second.
#[derive(Clone)]
pub struct LossReport(pub Arc<dyn Fn(usize) + Send + Sync>);

impl fmt::Debug for LossReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LossReport")
    }
}

impl MeshConfig {
    /// No secret. Waits 60 s for the start, 600 s for a step and 60 s for a lost worker.
    pub fn new(addresses: Vec<String>) -> Self {
        Self {
            addresses,
            credentials: Credentials::default().trusting_loopback(),
            start_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(600),
            rejoin_timeout: Duration::from_secs(60),
            coordinator_timeout: None,
            dials_all: false,
            losses: None,
        }
    }
}

/// What a worker of a sparse model contributes to a step.
#[derive(Clone, Copy, Debug)]
pub struct KeyedGradient<'a> {
    /// The number of examples that the gradient is the mean over; its weight in the sum.
    pub examples: u32,
    /// The keys that its batch touches, which rise.
    pub keys: &'a [u32],
    /// The gradient, as many numbers for each key as the table has.
    pub values: &'a [f32],
}

/// What a worker contributes to a step.
#[derive(Clone, Copy, Debug)]
pub struct LocalGradient<'a> {
    /// The number of examples that the gradient is the mean over; its weight in the sum.
    pub examples: u32,
    /// The gradient, as long as the parameters.
    pub values: &'a [f32],
}
