//! Clusters as `TF_CONFIG` describes them.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

/// Free ports of this machine. They are below the range from which the system assigns ports to
/// outgoing connections, so none is taken before the test uses it.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let from = 12_000 + (std::process::id() % 150) as u16 * 100;
    [(); N].map(|()| {
        let mut ports = std::iter::repeat_with(|| from + NEXT.fetch_add(1, Ordering::Relaxed));
        ports.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).unwrap()
    })
}

/// A cluster of `workers` workers, and of servers that listen on these ports.
pub(crate) fn cluster_of(workers: usize, servers: &[u16]) -> Value {
    let servers: Vec<_> = servers.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    json!({"worker": vec!["127.0.0.1:0"; workers], "ps": servers})
}

/// The secret of runs whose tasks a test starts one by one.
pub(crate) const SECRET: &str = "a secret of the tests";

/// `TF_CONFIG` for one task.
pub(crate) fn tf_config(cluster: &Value, role: &str, index: impl Into<Value>) -> String {
    json!({"cluster": cluster, "task": {"type": role, "index": index.into()}}).to_string()
}
