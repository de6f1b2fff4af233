//! A server as a node of the simulated cluster.

use std::collections::BTreeMap;
use std::ops::Range;

use paceline_model::OptimizerState;

use super::checks::bits;
use super::plan::SimPlan;
use super::process::SimProcess;
use crate::tests::harness::{JOB, LAYOUT, ServerCopy};
use crate::{Generation, RosterConfig, Server, ServerConfig, Store};

pub(crate) struct ServerNode {
    pub(crate) server: Server,
    /// The vector that payloads are read into, as in a network host.
    pub(crate) buffer: Vec<f32>,
    /// For a sparse model: the parameters of each version that a client may have received.
    pub(crate) history: BTreeMap<u64, Vec<f32>>,
    pub(crate) ended: bool,
    /// Its process has died and has not been restarted.
    pub(crate) is_down: bool,
    pub(crate) life: u64,
    pub(crate) generation: Generation,
    /// The step of the last checkpoint taken in this generation.
    pub(crate) last_checkpoint: Option<u64>,
    /// Pushes in the checkpoint that it resumed from.
    pub(crate) restored_pushes: u64,
}

impl ServerNode {
    /// Checks that the values a process received are those of the table at that version.
    pub(crate) fn check_values(&self, version: u64, receiver: &SimProcess, range: Range<usize>) {
        let Store::Sparse(sparse) = self.server.store() else { unreachable!("it is sparse") };
        let (start, width) = (sparse.table().keys().start, sparse.table().width());
        let params = self.history.get(&version).expect("a version that was recorded");
        let keys = &receiver.batches.requested[range.start / width..range.end / width];
        let got = keys.iter().zip(receiver.params[range].chunks_exact(width));
        for (&key, values) in got {
            let mut expected = params[(key as usize - start) * width..].to_vec();
            // Behind the last parameter is padding.
            expected.resize(width, 0.0);
            assert_eq!(bits(values), bits(&expected), "key {key} of version {version}");
        }
    }
}

/// A server of a plan, with zeros or restored from a copy.
pub(crate) fn node(plan: &SimPlan, index: usize, from: Option<&ServerCopy>) -> ServerNode {
    let layout = plan.layout();
    let config = ServerConfig {
        index,
        servers: plan.servers,
        stop_steps: plan.stop_steps,
        on_loss: plan.on_loss,
        rejoin_ms: plan.rejoin_ms,
        stall_ms: 60_000,
        job: JOB.into(),
        layout_digest: LAYOUT,
        chunk_floats: plan.chunk_floats,
        wire: plan.wire,
        width: plan.width,
        roster: RosterConfig {
            processes: plan.roster_processes.unwrap_or(0),
            join_info: b"join info".to_vec(),
            reassigns_at_once: false,
        },
        ..ServerConfig::new(plan.mode, plan.workers, plan.total_params)
    };
    let shard = config.shard();
    let store = if plan.is_sparse {
        let table = plan.table(shard.clone());
        from.into_iter().for_each(|copy| copy.fill(&table));
        Store::sparse(table)
    } else {
        let optimizer = OptimizerState::new(plan.optimizer.clone(), &layout, shard.clone());
        let params = from.map_or(vec![0.0; shard.len()], |copy| copy.params.clone());
        Store::dense(params, optimizer)
    };
    let mut server = Server::new(config, store);
    if let Some(copy) = from {
        server.resume(&copy.resume_state());
        copy.restore_known(&mut server);
    }
    ServerNode {
        server,
        buffer: Vec::new(),
        history: BTreeMap::new(),
        ended: false,
        is_down: false,
        life: 0,
        generation: Generation::default(),
        last_checkpoint: None,
        restored_pushes: from.map_or(0, ServerCopy::pushes),
    }
}
