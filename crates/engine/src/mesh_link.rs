//! Parameters that every worker holds itself: mode `mirrored`.

use std::net::TcpListener;

use paceline_exchange::{ChunkMarks, Replica, ReplicaConfig, SlotMark};
use paceline_model::{Layout, Model};
use paceline_net::{LinkOutcome, LocalGradient, Mesh, MeshConfig, Traffic};
use paceline_observe::{PeerTraffic, PhaseClock, TaskSummary};

use crate::checkpoint::{
    CheckpointDir, CheckpointWriter, DenseShard, PlanOrigin, ResumePoint, copy_dense,
};
use crate::context::VisitPiece;
use crate::error::TrainError;
use crate::link::{DenseLink, Link, PushOutcome};
use crate::link_observers::{Notify, Peers, StepObserver, WaitObserver};
use crate::settings::{OnWorkerLoss, TrainSettings};
use crate::task_place::{TaskPlace, incarnation, layout_digest};

/// Steps between comparisons of the replicas, if the interval of tests is not fixed.
const CHECK_EVERY: u64 = 100;

/// A worker's replica of the parameters, and its connections to all other workers.
pub(crate) struct MeshLink<'a> {
    mesh: Mesh,
    workers: usize,
    /// Writes this worker's shard of the checkpoints, until the last one.
    checkpoints: Option<CheckpointWriter>,
    notify: Notify<'a>,
    peers: Peers,
}

/// What a worker's replica starts with.
pub(crate) struct MeshStart<'a> {
    pub(crate) settings: &'a TrainSettings,
    pub(crate) place: &'a TaskPlace,
    /// Where this worker accepts connections; `None` if it is the only one.
    pub(crate) listener: Option<TcpListener>,
    /// The run's checkpoints, if it takes any.
    pub(crate) checkpoints: Option<&'a CheckpointDir>,
    /// The checkpoint the run resumes from.
    pub(crate) from: Option<&'a ResumePoint>,
}

impl MeshStart<'_> {
    fn recovers(&self) -> bool {
        self.settings.on_worker_loss == OnWorkerLoss::Wait
    }

    /// The replica at the start of the run. One that takes another's place receives the state of
    /// the others; in case all have died it starts with the newest checkpoint they left.
    fn replica(&self, model: &dyn Model) -> Result<Replica, TrainError> {
        let (settings, layout) = (self.settings, model.layout());
        let config = self.config(layout);
        let newest = self.newest_checkpoint();
        let optimizer = settings.optimizer.clone();
        let Some(from) = newest.as_ref().or(self.from) else {
            let mut params = vec![0.0; layout.len()];
            model.initialise(settings.seed, &mut params);
            return Ok(Replica::new(config, params, optimizer, layout));
        };
        let updates = config.updates(layout.len());
        let is_whole = updates == (0..layout.len());
        let DenseShard { mut params, optimizer } = from.dense(layout, optimizer, updates)?;
        if !is_whole {
            params = from.params(layout)?;
        }
        Ok(Replica::resume(config, params, optimizer, from.step()))
    }

    /// The newest checkpoint of this very run, which an earlier process may have left.
    fn newest_checkpoint(&self) -> Option<ResumePoint> {
        let checkpoints = self.checkpoints.filter(|_| self.recovers())?;
        let newest = checkpoints.newest(&mut |_| {}).ok()?;
        let newest = ResumePoint::new(newest, self.settings.step_layout(self.place.slots));
        let origin = self.from.map_or(PlanOrigin::default(), ResumePoint::origin);
        Some(newest).filter(|newest| newest.origin() == origin)
    }

    fn config(&self, layout: &Layout) -> ReplicaConfig {
        let Self { settings, place, .. } = self;
        ReplicaConfig {
            names: place.processes.clone(),
            incarnation: incarnation(),
            token: place.token.clone(),
            job_digest: settings.job_digest,
            layout_digest: layout_digest(layout),
            wire: settings.wire,
            stop_steps: settings.stop.steps,
            check_every: settings.evaluate.every.unwrap_or(CHECK_EVERY),
            recovers: self.recovers(),
            ..ReplicaConfig::new(place.slot.unwrap_or(0), place.slots)
        }
    }
}

impl<'a> MeshLink<'a> {
    /// Connects to all other workers. If the run is under way, this worker continues where the
    /// others are.
    pub(crate) fn connect(
        start: MeshStart<'_>,
        model: &dyn Model,
        checkpoints: Option<CheckpointWriter>,
        notify: Notify<'a>,
        should_give_up: &dyn Fn() -> bool,
    ) -> Result<Self, TrainError> {
        let timeouts = start.settings.timeouts;
        let config = MeshConfig {
            addresses: start.place.workers.clone(),
            start_timeout: timeouts.start,
            stall_timeout: timeouts.stall,
            rejoin_timeout: timeouts.rejoin,
        };
        let replica = start.replica(model)?;
        let observer = &mut WaitObserver { notify, should_give_up: Some(should_give_up) };
        let mesh = Mesh::connect(replica, config, start.listener, observer)?;
        let workers = start.place.slots;
        let peers = Peers { count: workers, own: start.place.slot };
        let mut link = Self { mesh, workers, checkpoints, notify, peers };
        link.checkpoint_if_due();
        Ok(link)
    }

    fn checkpoint_if_due(&mut self) {
        if self.mesh.is_checkpoint_due() {
            self.take_checkpoint(false);
        }
    }

    /// Writes this worker's shard. Every worker does so at the same step, and the last one
    /// completes the checkpoint.
    fn take_checkpoint(&mut self, is_last: bool) {
        let Some(checkpoints) = &mut self.checkpoints else { return };
        let step = self.mesh.global_step();
        let mark = SlotMark { last_sequence: step, step: step.saturating_sub(1) };
        let marks = vec![ChunkMarks { version: step, slots: vec![mark; self.workers] }];
        let mut columns = self.mesh.shard_columns();
        let params = columns.next().unwrap_or_default();
        checkpoints.take(step, marks, is_last, |out| copy_dense(params, columns, out));
    }

    fn wait_observer(&self) -> WaitObserver<'a> {
        WaitObserver { notify: self.notify, should_give_up: None }
    }
}

impl Link for MeshLink<'_> {
    fn next_step(&self) -> u64 {
        self.mesh.global_step()
    }

    fn is_stopping(&self) -> bool {
        self.mesh.is_over()
    }

    fn global_step(&self) -> u64 {
        self.mesh.global_step()
    }

    fn traffic(&self) -> Traffic {
        self.mesh.traffic()
    }

    fn for_each_peer(&self, visit: &mut dyn FnMut(PeerTraffic)) {
        let own = self.peers.own;
        let others = self.mesh.traffic_by_slot().enumerate().filter(|(slot, _)| Some(*slot) != own);
        for (number, (_, bytes)) in others.enumerate() {
            let (sent_bytes, received_bytes) = (bytes.sent, bytes.received);
            visit(PeerTraffic { peer: number, sent_bytes, received_bytes });
        }
    }

    fn checkpoint_step(&self) -> u64 {
        // The request travels with the coordinator's gradient, in time for that gradient's update.
        self.mesh.global_step() + 1
    }

    fn checkpoint(&mut self, _step: u64, is_last: bool) -> Result<(), TrainError> {
        // Every worker has taken the last one when it left.
        if !is_last {
            self.mesh.request_checkpoint();
        }
        Ok(())
    }

    fn request_stop(&mut self, _reason: &str) -> Result<(), TrainError> {
        self.mesh.request_stop();
        Ok(())
    }

    fn peek(&mut self, _keys: Option<&[u32]>) -> Result<LinkOutcome<&[f32]>, TrainError> {
        Ok(LinkOutcome::Done(self.mesh.params()))
    }

    fn for_each_piece(&mut self, visit: &mut VisitPiece<'_>) -> Result<LinkOutcome, TrainError> {
        visit(self.mesh.params()).map(LinkOutcome::Done)
    }

    /// Before a worker leaves it writes its shard of the last checkpoint.
    fn leave(&mut self, report: &[u8]) -> Result<LinkOutcome, TrainError> {
        let observer = &mut self.wait_observer();
        self.mesh.finish_steps(observer)?;
        if !self.mesh.is_dismissed() {
            self.take_checkpoint(true);
        }
        self.checkpoints = None;
        self.mesh.leave(report, observer)?;
        Ok(LinkOutcome::Done(()))
    }

    fn collect(&mut self, own: TaskSummary) -> Result<LinkOutcome<Vec<TaskSummary>>, TrainError> {
        let reports = self.mesh.collect_reports(&mut self.wait_observer())?;
        let others = reports.iter().filter_map(|report| serde_json::from_slice(&report.bytes).ok());
        Ok(LinkOutcome::Done([own].into_iter().chain(others).collect()))
    }

    fn finish(&mut self) -> Result<(), TrainError> {
        self.mesh.finish(&mut self.wait_observer());
        Ok(())
    }

    fn already_left(&self) -> bool {
        self.mesh.is_over()
    }
}

impl DenseLink for MeshLink<'_> {
    fn params(&self) -> &[f32] {
        self.mesh.params()
    }

    fn push(
        &mut self,
        examples: usize,
        grad: &[f32],
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome<PushOutcome>, TrainError> {
        let (notify, peers) = (self.notify, self.peers);
        let observer = &mut StepObserver { clock, notify, peers, should_halt: None };
        let gradient = LocalGradient { examples: examples as u32, values: grad };
        self.mesh.reduce(Some(gradient), observer)?;
        self.checkpoint_if_due();
        Ok(LinkOutcome::Done(PushOutcome::Applied))
    }
}
