//! Parameters that every worker holds for itself: mode `mirrored`.

use std::net::TcpListener;
use std::sync::Arc;

use paceline_exchange::{ChunkMarks, Replica, ReplicaConfig, SlotMark};
use paceline_model::{Layout, Model, OptimizerState};
use paceline_net::{LocalGradient, Mesh, MeshConfig};
use paceline_observe::PhaseClock;

use super::Cluster;
use super::attendants::{Peers, Say, Timed, Waiter};
use super::calling::{incarnation, layout_digest, token};
use super::listen::listen;
use super::part::SharedLink;
use super::server::start_keeper;
use crate::Failure;
use crate::checkpoint::keeper::copy_dense;
use crate::checkpoint::{Keeper, Origin, Resumption, Shape, Shelf, Terms};
use crate::job::{OnWorkerLoss, Plan, RawJob};
use crate::link::{DenseLink, Link, Pushed, Show};
use paceline_record::RunDir;
use paceline_record::TaskLog;
use paceline_record::TaskSummary;

/// A worker's replica of the parameters, and its connections to all other workers.
pub(super) struct Mirror<'a> {
    mesh: Mesh,
    workers: usize,
    /// Who takes checkpoints of the own shard, if they are taken, until the last one.
    keeper: Option<Keeper>,
    say: Say<'a>,
    peers: Peers,
}

/// What a worker begins with.
pub(super) struct Beginning<'a> {
    pub(super) job: &'a RawJob,
    pub(super) plan: &'a Plan,
    pub(super) cluster: &'a Cluster,
    pub(super) run: &'a RunDir,
    /// What the run goes on from, if it does.
    pub(super) from: Option<&'a Resumption>,
}

impl Beginning<'_> {
    fn recovers(&self) -> bool {
        self.plan.cluster.on_worker_loss == OnWorkerLoss::Wait
    }

    fn shape(&self) -> Shape {
        Shape::of(self.plan, self.cluster.slots())
    }

    fn origin(&self) -> Origin {
        self.from.map_or(Origin::default(), Resumption::origin)
    }

    /// The replica as the run begins. One that takes another's place gets the others' state; for
    /// the case that all have died it begins with the newest checkpoint that they left.
    fn replica(&self, model: &dyn Model) -> Result<Replica, Failure> {
        let (plan, layout) = (self.plan, model.layout());
        let config = self.config(layout)?;
        let left = self.newest();
        let from = left.as_ref().or(self.from);
        let Some(from) = from else {
            let mut params = vec![0.0; layout.len()];
            model.initialise(plan.seed, &mut params);
            return Ok(Replica::new(config, params, plan.optimizer.clone(), layout));
        };
        let updates = config.updates(layout.len());
        let (params, optimizer): (_, OptimizerState) = match updates == (0..layout.len()) {
            true => from.dense(layout, plan.optimizer.clone(), updates)?,
            false => {
                let (_, optimizer) = from.dense(layout, plan.optimizer.clone(), updates)?;
                (from.params(layout)?, optimizer)
            }
        };
        Ok(Replica::resume(config, params, optimizer, from.step()))
    }

    /// The newest checkpoint of this very run, where somebody may have been here before.
    fn newest(&self) -> Option<Resumption> {
        if !self.recovers() || self.plan.checkpoint.is_none() {
            return None;
        }
        let newest = Shelf::of(self.run.path()).newest(&mut |_| {}).ok()?;
        let newest = Resumption::new(newest, self.shape());
        Some(newest).filter(|newest| newest.origin() == self.origin())
    }

    fn config(&self, layout: &Layout) -> Result<ReplicaConfig, Failure> {
        let Self { job, plan, cluster, .. } = *self;
        Ok(ReplicaConfig {
            names: (0..cluster.slots()).map(|slot| cluster.slot_name(slot)).collect(),
            incarnation: incarnation(),
            token: token(plan)?,
            job_digest: job.digest(),
            layout_digest: layout_digest(layout),
            stop_steps: plan.stop.steps,
            check_every: plan.evaluate.every,
            recovers: self.recovers(),
            ..ReplicaConfig::new(cluster.slot().unwrap_or(0), cluster.slots())
        })
    }

    /// Who takes checkpoints of this worker's shard, if they are taken.
    fn keeper(&self, layout: &Layout, log: Arc<TaskLog>) -> Result<Option<Keeper>, Failure> {
        let Self { job, plan, cluster, run, .. } = *self;
        let index = (cluster.slot().unwrap_or(0), cluster.slots());
        let name = cluster.task.to_string().replace(':', "-");
        let walk = (self.shape(), self.origin());
        let terms = Terms::new(run, (job, plan), layout, walk, index, &name);
        terms.map(|terms| start_keeper(terms, log)).transpose()
    }

    /// Where this worker lets others in, if there are any.
    fn door(&self) -> Result<Option<TcpListener>, Failure> {
        let address = &self.cluster.addresses[&self.cluster.task];
        let has_token = !token(self.plan)?.is_empty();
        (self.cluster.slots() > 1).then(|| listen(address, has_token)).transpose()
    }
}

impl<'a> Mirror<'a> {
    /// Finds all other workers. If they are further than the beginning, so is this one then.
    pub(super) fn start(
        beginning: &Beginning<'_>,
        model: &dyn Model,
        log: Arc<TaskLog>,
        say: Say<'a>,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Self, Failure> {
        let plan = beginning.plan;
        let config = MeshConfig {
            addresses: beginning.cluster.workers()?,
            start_timeout: plan.cluster.start_timeout,
            stall_timeout: plan.cluster.stall_timeout,
            rejoin_timeout: plan.cluster.rejoin_timeout,
        };
        let listener = beginning.door()?;
        let replica = beginning.replica(model)?;
        let keeper = beginning.keeper(model.layout(), log)?;
        let attendant = &mut Waiter { say, gives_up: Some(gives_up) };
        let mesh = Mesh::connect(replica, config, listener, attendant)?;
        let workers = beginning.cluster.slots();
        let peers = Peers { all: workers, own: beginning.cluster.slot() };
        let mut mirror = Self { mesh, workers, keeper, say, peers };
        mirror.checkpoint_if_due();
        Ok(mirror)
    }

    fn checkpoint_if_due(&mut self) {
        if self.mesh.is_checkpoint_due() {
            self.take_checkpoint(false);
        }
    }

    /// Has the own shard written. All others do the same at the same step, and whoever is the
    /// last completes the checkpoint.
    fn take_checkpoint(&mut self, is_last: bool) {
        let Some(keeper) = &mut self.keeper else { return };
        let step = self.mesh.global_step();
        let mark = SlotMark { last_sequence: step, step: step.saturating_sub(1) };
        let marks = vec![ChunkMarks { version: step, slots: vec![mark; self.workers] }];
        let mut columns = self.mesh.shard_columns();
        let params = columns.next().unwrap_or_default();
        keeper.take(step, marks, is_last, |out| copy_dense(params, columns, out));
    }
}

impl Link for Mirror<'_> {
    fn next_step(&self) -> u64 {
        self.mesh.global_step()
    }

    fn is_stopping(&self) -> bool {
        self.mesh.is_over()
    }

    fn global_step(&self) -> u64 {
        self.mesh.global_step()
    }

    fn moved_bytes(&self) -> (u64, u64) {
        let traffic = self.mesh.traffic();
        (traffic.sent, traffic.received)
    }

    fn moved_by_peer(&self, mut tell: impl FnMut(usize, u64, u64)) {
        let own = self.peers.own;
        let others = self.mesh.traffic_by_slot().enumerate().filter(|(slot, _)| Some(*slot) != own);
        for (number, (_, bytes)) in others.enumerate() {
            tell(number, bytes.sent, bytes.received);
        }
    }

    fn checkpoint_step(&self) -> u64 {
        // Everybody hears of it with the chief's gradient, in time for what comes of that.
        self.mesh.global_step() + 1
    }

    fn checkpoint(&mut self, _step: u64, is_last: bool) -> Result<(), Failure> {
        // The last one has been taken by everybody when they left.
        if !is_last {
            self.mesh.request_checkpoint();
        }
        Ok(())
    }

    fn ask_to_stop(&mut self, _reason: &str) -> Result<(), Failure> {
        self.mesh.request_stop();
        Ok(())
    }

    fn look(&mut self, _keys: Option<&[u32]>) -> Result<&[f32], Failure> {
        Ok(self.mesh.params())
    }

    fn show_all(&mut self, show: &mut Show<'_>) -> Result<(), Failure> {
        show(self.mesh.params())
    }
}

impl DenseLink for Mirror<'_> {
    fn params(&self) -> &[f32] {
        self.mesh.params()
    }

    fn push(
        &mut self,
        examples: usize,
        grad: &[f32],
        clock: &mut PhaseClock,
    ) -> Result<Pushed, Failure> {
        let attendant = &mut Timed { clock, say: self.say, peers: self.peers, halted: None };
        let gradient = LocalGradient { examples: examples as u32, values: grad };
        self.mesh.reduce(Some(gradient), attendant)?;
        self.checkpoint_if_due();
        Ok(Pushed::Applied)
    }
}

impl SharedLink for Mirror<'_> {
    /// Before a worker leaves it has written its shard of the last checkpoint.
    fn leave(&mut self, report: &[u8]) -> Result<(), Failure> {
        let attendant = &mut Waiter { say: self.say, gives_up: None };
        self.mesh.finish_steps(attendant)?;
        if !self.mesh.is_dismissed() {
            self.take_checkpoint(true);
        }
        self.keeper = None;
        Ok(self.mesh.leave(report, attendant)?)
    }

    fn collect(&mut self, mine: TaskSummary) -> Result<Vec<TaskSummary>, Failure> {
        let reports = self.mesh.collect_reports(&mut Waiter { say: self.say, gives_up: None })?;
        let others = reports.iter().filter_map(|report| serde_json::from_slice(&report.bytes).ok());
        Ok([mine].into_iter().chain(others).collect())
    }

    fn refresh(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.mesh.finish(&mut Waiter { say: self.say, gives_up: None });
        Ok(())
    }

    fn already_left(&self) -> bool {
        self.mesh.is_over()
    }
}
