//! Mutual TLS between tasks, without sockets.
//!
//! - `identity.rs`: a task's certificate, and whom it trusts;
//! - `outgoing.rs`: ciphertext that waits for its stream;
//! - `session.rs`: one connection's records, over any stream that does not block;
//! - `task_name.rs`: how certificates name tasks.

mod identity;
mod outgoing;
mod read_slices;
mod session;
mod task_name;

pub use identity::{TlsError, TlsIdentity};
pub use session::TlsSession;
pub(crate) use task_name::{dns_name, role_name};

#[cfg(test)]
pub(crate) mod tests;
