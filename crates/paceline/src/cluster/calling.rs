//! What a task needs to call a server: where the servers are, who it is itself, and the run's secret.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use paceline_exchange::{ClientConfig, PeerRole};
use paceline_model::Layout;
use paceline_net::ConnectConfig;
use sha2::{Digest, Sha256};

use super::Cluster;
use crate::Failure;
use crate::job::{Mode, Plan, RawJob};

/// The environment variable by which the launcher gives its tasks the run's secret.
pub(crate) const TOKEN_VARIABLE: &str = "PACELINE_TOKEN";
/// A worker gives up a little after the servers do, so that it hears the reason from them.
const LATER: std::time::Duration = std::time::Duration::from_secs(10);

/// How a task of this cluster reaches the servers.
pub(crate) fn link_config(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    role: PeerRole,
    layout: &Layout,
) -> Result<ConnectConfig, Failure> {
    let servers = server_addresses(plan, cluster)?;
    Ok(ConnectConfig {
        client: ClientConfig {
            slot: cluster.slot().unwrap_or(cluster.task.index) as u32,
            incarnation: incarnation(),
            job_digest: job.digest(),
            layout_digest: layout_digest(layout),
            token: token(plan)?,
            is_sparse: plan.model.is_sparse(),
            ..ClientConfig::new(role, servers.len(), layout.len())
        },
        servers,
        start_timeout: plan.cluster.start_timeout,
        stall_timeout: plan.cluster.stall_timeout + LATER,
        rejoin_timeout: plan.cluster.waits_for_servers.then_some(plan.cluster.rejoin_timeout),
    })
}

/// Where the servers are, of which there must be one.
pub(crate) fn server_addresses(plan: &Plan, cluster: &Cluster) -> Result<Vec<String>, Failure> {
    let servers = cluster.servers()?;
    if plan.cluster.mode == Mode::Mirrored {
        return Err(Failure::Usage(format!(
            "cluster.mode = \"mirrored\" has no servers that {} could ask",
            cluster.task
        )));
    }
    if servers.is_empty() {
        return Err(Failure::Usage(format!(
            "cluster.mode = \"{}\" needs a server, but TF_CONFIG lists no ps",
            plan.cluster.mode.name()
        )));
    }
    Ok(servers)
}

/// A number that is higher for every later process: the time of its start.
pub(super) fn incarnation() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// What identifies a layout.
pub(crate) fn layout_digest(layout: &Layout) -> [u8; 32] {
    let mut hash = Sha256::new();
    for tensor in layout.tensors() {
        hash.update(format!("{} {:?} {:?}\n", tensor.name, tensor.shape, tensor.group));
    }
    hash.finalize().into()
}

/// The secret that all tasks of the run share; empty if there is none.
pub(crate) fn token(plan: &Plan) -> Result<Vec<u8>, Failure> {
    if let Some(token) = std::env::var_os(TOKEN_VARIABLE) {
        return Ok(token.into_encoded_bytes());
    }
    let Some(path) = &plan.cluster.token_file else { return Ok(Vec::new()) };
    read_token("cluster.token_file", path).map(String::into_bytes)
}

/// The secret in a file, which a key or an option names.
pub(crate) fn read_token(option: &str, path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("{option} {}: {error}", path.display())))?;
    let token = text.trim();
    if !(1..=paceline_exchange::MAX_TOKEN_BYTES).contains(&token.len()) {
        return Err(Failure::Usage(format!(
            "{option} {} must hold 1 to {} characters",
            path.display(),
            paceline_exchange::MAX_TOKEN_BYTES
        )));
    }
    Ok(token.to_owned())
}
