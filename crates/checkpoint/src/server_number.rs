//! A server's number among the servers of its run.

use serde::{Deserialize, Serialize};

/// A server's number among the servers of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerNumber {
    /// The number, from 0.
    pub index: usize,
    /// How many servers there are.
    pub count: usize,
}
