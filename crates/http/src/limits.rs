//! Limits that keep a slow or hostile client from holding resources.

use std::time::Duration;

/// Limits of a server. The defaults suit a page with a handful of readers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Simultaneous connections. A further one replaces one of those that have sent no request that
    /// passed the guard, or else of those whose requests are all answered: the oldest from the
    /// address that has most of them. If every one is being answered, the server refuses it with
    /// status 503.
    pub connections: usize,
    /// Bytes of a request's head, without the empty line that ends it.
    pub head_bytes: usize,
    /// Time for a request's head to arrive, from its first byte.
    pub head_time: Duration,
    /// Time that a connection may stay silent before its first request and between two.
    pub idle_time: Duration,
    /// Time to send a complete response. In a streamed one, it holds for the head and for each
    /// write.
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
