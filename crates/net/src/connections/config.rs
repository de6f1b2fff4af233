//! How a worker or an evaluator reaches the servers of its run.

use std::time::Duration;

use paceline_exchange::ClientConfig;
use paceline_model::KeyPlaces;
use paceline_trust::Credentials;

/// How a worker or an evaluator reaches the servers of its run.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    /// The identity of this worker or evaluator, and the parameters that it expects.
    pub client: ClientConfig,
    /// The servers' addresses, `host:port`, in the order of their indices.
    pub servers: Vec<String>,
    /// The places of a sparse model's keys on the servers; `None` if each key is its own place.
    pub order: Option<KeyPlaces>,
    /// What this task shows to the servers and demands of them.
    pub credentials: Credentials,
    /// The time that [`ServerConnections::connect`](crate::ServerConnections::connect) waits for
    /// all servers and workers.
    pub start_timeout: Duration,
    /// The longest that one operation may wait.
    pub stall_timeout: Duration,
    /// The time that a lost server has to come back; `None` fails at the first lost connection.
    pub rejoin_timeout: Option<Duration>,
}

impl ConnectConfig {
    /// Connects without a secret. Waits 60 s for the start and 610 s for an answer: 10 s longer
    /// than a server waits for other workers, so that the worker learns the reason from the server.
    /// The first lost connection is an error.
    pub fn new(client: ClientConfig, servers: Vec<String>) -> Self {
        Self {
            client,
            servers,
            order: None,
            credentials: Credentials::default().trusting_loopback(),
            start_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(610),
            rejoin_timeout: None,
        }
    }
}
