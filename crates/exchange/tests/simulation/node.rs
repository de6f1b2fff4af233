//! A server as a node of the world: its machine, and what it did during a call.

use std::collections::BTreeMap;
use std::ops::Range;

use paceline_exchange::{
    ConnId, FrameBody, Generation, Header, Host, Level, ResumeState, RosterConfig, Server,
    ServerConfig, ServerPhase, Stats, Store, shard_ranges, worker_names,
};
use paceline_model::{OptimizerState, Table};

use crate::lives::Copy;
use crate::plan::Plan;
use crate::process::{JOB, LAYOUT, Process, TOKEN};

pub(crate) struct Node {
    pub(crate) server: Server,
    /// The vector that payloads are read into, as a network host has one.
    pub(crate) buffer: Vec<f32>,
    /// Of a sparse model: the parameters of each version that somebody may have got.
    pub(crate) history: BTreeMap<u64, Vec<f32>>,
    pub(crate) ended: bool,
    /// Its process has died, and is not back yet.
    pub(crate) is_down: bool,
    /// Which process it is.
    pub(crate) life: u64,
    pub(crate) generation: Generation,
    /// Pushes that were in the checkpoint that it began with.
    pub(crate) begun_with: u64,
}

impl Node {
    pub(crate) fn params(&self) -> Vec<f32> {
        match self.server.store() {
            Store::Dense(_) => self.server.store().params().to_vec(),
            Store::Sparse(sparse) => {
                let range = sparse.table().range();
                let mut params = vec![f32::NAN; range.len()];
                sparse.table().read_range(range, &mut params);
                params
            }
        }
    }

    /// The values that a process got are those that the table had at that version.
    pub(crate) fn check_values(&self, version: u64, receiver: &Process, range: Range<usize>) {
        let Store::Sparse(sparse) = self.server.store() else { unreachable!("it is sparse") };
        let start = sparse.table().range().start;
        let params = self.history.get(&version).expect("a version that there was");
        let got = receiver.batches.asked[range.clone()].iter().zip(&receiver.params[range]);
        for (&key, value) in got {
            let expected = params[key as usize - start];
            assert_eq!(value.to_bits(), expected.to_bits(), "key {key} of version {version}");
        }
    }
}

/// What a server did during a call.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) sent: Vec<(ConnId, Header, Vec<u8>)>,
    pub(crate) closed: Vec<ConnId>,
    pub(crate) notes: Vec<String>,
    /// The checkpoints that were taken, by their steps.
    pub(crate) taken: Vec<(u64, Copy)>,
}

impl Host for Outbox {
    fn send(&mut self, to: ConnId, header: Header, body: FrameBody<'_>) {
        let header = Header::decode(&header.encode()).expect("servers write sound headers");
        assert_eq!(header.len as usize, body.bytes().len());
        self.sent.push((to, header, body.bytes().to_vec()));
    }
    fn close(&mut self, conn: ConnId, _reason: &str) {
        self.closed.push(conn);
    }
    fn note(&mut self, _level: Level, text: &str) {
        self.notes.push(text.to_owned());
    }
    fn report(&mut self, _stats: &Stats) -> Vec<u8> {
        vec![1; 100_000]
    }
    fn checkpoint(&mut self, step: u64, server: &Server) -> bool {
        self.taken.push((step, Copy::of(server)));
        true
    }
    fn phase(&mut self, _phase: ServerPhase) {}
}

/// A server of a plan with its shard of zeros, or as it was when a copy was taken.
pub(crate) fn node(plan: &Plan, index: usize, from: Option<&Copy>) -> Node {
    let shard = shard_ranges(plan.total_params, plan.servers)[index].clone();
    let layout = plan.layout();
    let config = ServerConfig {
        index,
        servers: plan.servers,
        workers: plan.workers,
        names: worker_names(plan.workers),
        mode: plan.mode,
        stop_steps: plan.stop_steps,
        on_loss: plan.on_loss,
        rejoin_ms: plan.rejoin_ms,
        stall_ms: 60_000,
        token: TOKEN.to_vec(),
        job_digest: JOB,
        layout_digest: LAYOUT,
        total_params: plan.total_params,
        chunk_floats: plan.chunk_floats,
        roster: RosterConfig { processes: plan.crews.unwrap_or(0), join_info: b"terms".to_vec() },
    };
    let store = match plan.is_sparse {
        true => {
            let table = Table::new(plan.optimizer.clone(), &layout, shard.clone());
            from.into_iter().for_each(|copy| copy.fill(&table));
            Store::sparse(table)
        }
        false => {
            let optimizer = OptimizerState::new(plan.optimizer.clone(), &layout, shard.clone());
            let params = from.map_or(vec![0.0; shard.len()], |copy| copy.params.clone());
            Store::dense(params, optimizer)
        }
    };
    let mut server = Server::new(config, store);
    if let Some(copy) = from {
        server.resume(&ResumeState {
            first_step: 0,
            chunks: copy.marks.clone(),
            stop_at: copy.stop_at,
        });
    }
    Node {
        server,
        buffer: Vec::new(),
        history: BTreeMap::new(),
        ended: false,
        is_down: false,
        life: 0,
        generation: Generation::default(),
        begun_with: from.map_or(0, Copy::pushes),
    }
}
