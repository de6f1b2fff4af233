//! The addresses of tasks that the local launcher starts.

use std::io;
use std::net::TcpListener;

use crate::cluster::{Role, Task};
use crate::emulate::EmulatedHosts;

/// A task's address, and its listening socket if the launcher has bound it.
pub(crate) struct BoundAddress {
    pub(crate) address: String,
    pub(crate) listener: Option<TcpListener>,
}

impl BoundAddress {
    pub(crate) fn unbound(address: String) -> Self {
        Self { address, listener: None }
    }
}

/// Listening sockets for `count` tasks. On an emulated host, where every port is free, a task binds
/// its socket itself.
pub(crate) fn bind_tasks(
    hosts: Option<&EmulatedHosts>,
    role: Role,
    count: usize,
) -> io::Result<Vec<BoundAddress>> {
    let bound = (0..count).map(|index| {
        if let Some(hosts) = hosts {
            return Ok(BoundAddress::unbound(hosts.address(Task { role, index })));
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        Ok(BoundAddress { address, listener: Some(listener) })
    });
    bound.collect()
}
