//! The settings of a client.

use crate::{JobIdentity, PeerRole, ProcessName, WireFormat};

/// The settings of a client.
///
/// Start from [`ClientConfig::new`] and override the fields that differ:
///
/// ```
/// use paceline_exchange::{ClientConfig, PeerRole};
///
/// let config = ClientConfig { slot: 3, ..ClientConfig::new(PeerRole::Worker, 2, 10_000) };
/// assert_eq!((config.incarnation, config.is_sparse), (1, false));
/// ```
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// A worker or an evaluator.
    pub role: PeerRole,
    /// A worker's slot, or an evaluator's index.
    pub slot: u32,
    /// Numbers the processes that fill the slot one after the other; a later one has a higher
    /// number.
    pub incarnation: u64,
    /// Identifies the job: equal on all tasks of a run.
    pub job: JobIdentity,
    /// Identifies the layout of the parameters.
    pub layout_digest: [u8; 32],
    /// Servers in the run.
    pub servers: usize,
    /// Parameters on all servers together; for a sparse model, keys.
    pub total_params: usize,
    /// For a sparse model: the parameters of each key.
    pub width: usize,
    /// For a sparse model: the numbers at the end of the last key that are not parameters.
    pub padding: usize,
    /// Whether the model is sparse, so that parameters are requested by their keys.
    pub is_sparse: bool,
    /// How gradients and parameters travel; a sparse model's as `f32` only.
    pub wire: WireFormat,
    /// The process that this client belongs to.
    pub process: ProcessName,
}

impl ClientConfig {
    /// The first process in slot 0, with a dense model and on no roster.
    pub fn new(role: PeerRole, servers: usize, total_params: usize) -> Self {
        Self {
            role,
            slot: 0,
            incarnation: 1,
            job: JobIdentity::default(),
            layout_digest: [0; 32],
            servers,
            total_params,
            width: 1,
            padding: 0,
            is_sparse: false,
            wire: WireFormat::F32,
            process: ProcessName::default(),
        }
    }
}
