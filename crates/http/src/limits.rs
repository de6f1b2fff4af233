//! Limits that keep a slow or hostile client from holding resources.

use std::time::Duration;

/// Limits of a server. The defaults suit a page with a handful of readers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Simultaneous connections. A further one replaces the oldest without a request that passed
    /// the guard; if there is none, the server answers it with status 503.
    pub connections: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Time for a request's head to arrive, from its first byte.
    pub head_time: Duration,
    /// Time that a connection may stay silent between requests.
    pub idle_time: Duration,
    /// Time to send a complete response, or one write of a streamed response.
    pub write_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            head_bytes: 8 << 10,
            head_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(60),
            write_time: Duration::from_secs(30),
        }
    }
}
