//! Parameters that every worker holds itself: mode `mirrored`.

use std::mem;
use std::net::TcpListener;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use paceline_exchange::{
    ChunkMarks, LentState, Replica, ReplicaConfig, SlotMark, StepPiece, WireFormat,
};
use paceline_model::{AlignedBuffer, Layout, Model};
use paceline_net::{
    LinkError, LinkOutcome, LocalGradient, Mesh, MeshConfig, PieceChannel, PieceExchange,
    PieceOutcome, StepPieces, Traffic,
};
use paceline_observe::trace::SideTrack;
use paceline_observe::{PeerTraffic, PhaseClock, TableUse, TaskSummary};

use crate::checkpoint::{
    CheckpointDir, CheckpointWriter, DenseShard, PlanOrigin, ResumePoint, copy_dense, pieces_digest,
};
use crate::context::VisitPiece;
use crate::error::TrainError;
use crate::exchange_observer::ExchangeObserver;
use crate::initial_params::{initial_params, initial_state};
use crate::link::{DenseLink, Link, PushOutcome};
use crate::link_observers::{Notify, Peers, StepObserver, WaitObserver};
use crate::overlap::{ExchangeEnd, Exchanger, OverlappedLink, StepEnd};
use crate::settings::{OnWorkerLoss, TrainSettings};
use crate::sparse::{for_each_piece, table_use};
use crate::step_stop::StepStop;
use crate::task_place::{TaskPlace, incarnation};
pub(crate) use mesh_model::MeshModel;

/// Steps between comparisons of the replicas, if the interval of tests is not fixed.
const CHECK_EVERY: u64 = 100;
/// How long workers wait for a lost worker 0 that nothing starts again: long enough for one whose
/// connections broke.
const COORDINATOR_LIMIT: Duration = Duration::from_secs(5);

/// A worker's replica of the parameters, and its connections to all other workers.
pub(crate) struct MeshLink<'a> {
    mesh: Mesh,
    workers: usize,
    /// Writes this worker's shard of the checkpoints, until the last one.
    checkpoints: Option<CheckpointWriter>,
    notify: Notify<'a>,
    peers: Peers,
    /// The timeline of exchanges beside the loop, if the task is recorded.
    track: Option<SideTrack>,
    /// Gives up steps in the middle, once the run must end.
    step_stop: Option<Arc<StepStop>>,
    /// For a sparse model: the values of the batch to compute next, and those of a test.
    values: Vec<f32>,
    peeked: Vec<f32>,
    /// Whether the last gradient was dropped, because the run was cut short.
    was_dropped: bool,
    /// If the coordinator keeps the parameters of a step until the next is complete: the memory for
    /// the next.
    spare: AlignedBuffer,
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
    /// The pieces in which steps travel; none if they are made at once.
    pub(crate) pieces: Vec<StepPiece>,
    /// The timeline of exchanges beside the loop, if the task is recorded.
    pub(crate) track: Option<SideTrack>,
    /// Gives up steps in the middle, once the run must end.
    pub(crate) step_stop: Option<Arc<StepStop>>,
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
            let params = initial_params(model, settings)?;
            let updates = config.updates(layout.len());
            let own = &params[updates.clone()];
            let optimizer = initial_state(model, settings, updates, own);
            return Ok(Replica::resume(config, params, optimizer, 0));
        };
        let updates = config.updates(layout.len());
        let is_whole = updates == (0..layout.len());
        let DenseShard { mut params, optimizer } = from.dense(layout, optimizer, updates)?;
        if !is_whole {
            params = from.params(layout)?;
        }
        let mut replica = Replica::resume(config, params, optimizer, from.step());
        if settings.wire == WireFormat::Bf16 {
            replica.restore_known(|slot, range| from.known_gradient(slot, range))?;
        }
        Ok(replica)
    }

    /// The newest checkpoint of this very run, which an earlier process may have left.
    fn newest_checkpoint(&self) -> Option<ResumePoint> {
        let checkpoints = self.checkpoints.filter(|_| self.recovers())?;
        let newest = checkpoints.newest(&mut |_| {}).ok()?;
        let newest = ResumePoint::new(newest, self.settings.step_layout(self.place.slots));
        let origin = self.from.map_or(PlanOrigin::default(), ResumePoint::origin);
        Some(newest).filter(|newest| newest.origin() == origin)
    }

    /// The settings of the replica.
    pub(crate) fn config(&self, layout: &Layout) -> ReplicaConfig {
        let Self { settings, place, .. } = self;
        ReplicaConfig {
            names: place.processes.clone(),
            incarnation: incarnation(),
            job: settings.job.clone(),
            layout_digest: pieces_digest(layout, &self.pieces),
            wire: settings.wire,
            stop_steps: settings.stop.steps,
            check_every: settings.evaluate.every.unwrap_or(CHECK_EVERY),
            recovers: self.recovers(),
            pieces: self.pieces.clone(),
            batch: settings.batch,
            ..ReplicaConfig::new(place.slot.unwrap_or(0), place.slots)
        }
    }
}

impl<'a> MeshLink<'a> {
    /// Connects to all other workers. If the run is under way, this worker continues where the
    /// others are.
    pub(crate) fn connect(
        start: MeshStart<'_>,
        model: MeshModel<'_>,
        checkpoints: Option<CheckpointWriter>,
        notify: Notify<'a>,
        should_give_up: &dyn Fn() -> bool,
    ) -> Result<Self, TrainError> {
        let timeouts = start.settings.timeouts;
        let config = MeshConfig {
            addresses: start.place.workers.clone(),
            credentials: start.place.credentials.clone(),
            start_timeout: timeouts.start,
            stall_timeout: timeouts.stall,
            rejoin_timeout: timeouts.rejoin,
            coordinator_timeout: start.place.is_not_restarted.then_some(COORDINATOR_LIMIT),
            dials_all: start.place.is_substitute,
            losses: start.place.losses.clone(),
        };
        let replica = match model {
            MeshModel::Dense(model) => start.replica(model)?,
            MeshModel::Sparse(model) => start.table_replica(model)?,
        };
        let observer = &mut WaitObserver { notify, should_give_up: Some(should_give_up) };
        let mesh = Mesh::connect(replica, config, start.listener, observer)?;
        let workers = start.place.slots;
        let peers = Peers { count: workers, own: start.place.slot };
        let MeshStart { track, step_stop, .. } = start;
        let spare = AlignedBuffer::default();
        let (values, peeked, was_dropped) = Default::default();
        let mut link = Self {
            mesh,
            workers,
            checkpoints,
            notify,
            peers,
            track,
            step_stop,
            values,
            peeked,
            was_dropped,
            spare,
        };
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
        let (mesh, workers) = (&self.mesh, self.workers);
        if !mesh.has_whole_state() {
            return;
        }
        let step = mesh.global_step();
        let mark = SlotMark { last_sequence: step, step: step.saturating_sub(1) };
        let marks = vec![ChunkMarks { version: step, slots: vec![mark; workers] }];
        if let Some(table) = mesh.table() {
            // Even if this checkpoint is skipped: equal seeds must give equal bits.
            table.fold();
            checkpoints.take_table(step, marks, is_last, table);
            return;
        }
        checkpoints.take(step, marks, is_last, |out| {
            let mut columns = mesh.shard_columns();
            let params = columns.next().unwrap_or_default();
            copy_dense(params, columns, out);
            let before = mesh.shard_columns().count();
            let known = out.chunks_exact_mut(params.len().max(1)).skip(before);
            known.enumerate().for_each(|(slot, column)| mesh.copy_known(slot, column));
        });
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

    fn table_use(&self) -> Option<TableUse> {
        self.mesh.table().map(table_use)
    }

    fn sent_key_bytes(&self) -> Option<u64> {
        self.mesh.table().map(|_| self.mesh.key_bytes())
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

    fn cut_short(&mut self) -> Result<(), TrainError> {
        if self.peers.own == Some(0) {
            self.mesh.cut_short();
            return Ok(());
        }
        let observer = &mut self.wait_observer();
        Ok(self.mesh.wait_for_cut(observer)?)
    }

    fn peek(&mut self, keys: Option<&[u32]>) -> Result<LinkOutcome<&[f32]>, TrainError> {
        if let Some(table) = self.mesh.table() {
            let keys = keys.unwrap_or_default();
            self.peeked.resize(keys.len() * table.width(), 0.0);
            table.read_known(keys, &mut self.peeked);
            return Ok(LinkOutcome::Done(&self.peeked));
        }
        Ok(LinkOutcome::Done(self.mesh.params()))
    }

    fn for_each_piece(&mut self, visit: &mut VisitPiece<'_>) -> Result<LinkOutcome, TrainError> {
        match self.mesh.table() {
            Some(table) => for_each_piece(table, visit),
            None => visit(self.mesh.params()),
        }
        .map(LinkOutcome::Done)
    }

    /// Before a worker leaves it writes its shard of the last checkpoint.
    fn leave(&mut self, report: &[u8]) -> Result<LinkOutcome, TrainError> {
        let observer = &mut self.wait_observer();
        self.mesh.finish_steps(observer)?;
        // If the run was cut short, parts of the step that was given up may be applied here.
        let has_applied = self.step_stop.as_ref().is_some_and(|stop| stop.has_applied());
        let is_mixed = self.mesh.is_cut_short() && (self.mesh.is_mixed() || has_applied);
        if !self.mesh.is_dismissed() && !is_mixed {
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
        let stop = self.step_stop.as_deref().filter(|_| self.peers.own == Some(0));
        let observer = &mut StepObserver { clock, notify, peers, should_halt: None, stop };
        let gradient = LocalGradient { examples: examples as u32, values: grad };
        match self.mesh.reduce(Some(gradient), observer) {
            Err(LinkError::CutShort) => return Ok(LinkOutcome::Done(PushOutcome::Dropped)),
            reduced => reduced?,
        }
        self.checkpoint_if_due();
        Ok(LinkOutcome::Done(PushOutcome::Applied))
    }

    fn overlapped(&mut self) -> Option<&mut dyn OverlappedLink> {
        if self.mesh.pieces().is_empty() { None } else { Some(self) }
    }
}

impl OverlappedLink for MeshLink<'_> {
    fn pieces(&self) -> &[StepPiece] {
        self.mesh.pieces()
    }

    fn slots(&self) -> usize {
        self.workers
    }

    fn is_atomic(&self) -> bool {
        self.mesh.is_atomic()
    }

    fn is_last(&self) -> bool {
        self.mesh.is_last_step()
    }

    fn lend(&mut self, examples: Option<u32>) -> LentState {
        let mut lent = self.mesh.lend(examples);
        // Its means are applied only when the whole gradient is computed.
        if self.step_stop.is_some() && self.peers.own == Some(0) && lent.optimizer.is_none() {
            lent.next = mem::take(&mut self.spare);
            if lent.next.is_empty() {
                lent.next = AlignedBuffer::zeros(lent.params.len());
            }
        }
        lent
    }

    fn updates_in_step(&self) -> Range<usize> {
        self.mesh.updates_in_step()
    }

    fn channel<'a>(&self, memory: StepPieces<'a>) -> PieceChannel<'a> {
        self.mesh.piece_channel(memory)
    }

    fn exchanger(&mut self) -> Box<dyn Exchanger + '_> {
        let observer = ExchangeObserver::new(self.notify, self.peers, self.track.as_ref());
        let observer = observer.cut_by(self.step_stop.as_deref());
        Box::new(MeshExchanger { mesh: &mut self.mesh, observer })
    }

    fn take_back(
        &mut self,
        mut lent: LentState,
        end: ExchangeEnd,
    ) -> Result<LinkOutcome<StepEnd>, TrainError> {
        self.spare = mem::take(&mut lent.next);
        self.mesh.take_back(lent);
        if end == ExchangeEnd::CutShort {
            return Ok(LinkOutcome::Done(StepEnd::GivenUp));
        }
        if end == ExchangeEnd::Abandoned {
            let before = self.mesh.global_step();
            self.mesh.resume_after_loss(&mut self.wait_observer())?;
            // The others may have made the step and sent its result to this replica.
            if self.mesh.global_step() == before && !self.mesh.is_over() {
                return Ok(LinkOutcome::Done(StepEnd::Again));
            }
        }
        self.checkpoint_if_due();
        Ok(LinkOutcome::Done(StepEnd::Made(PushOutcome::Applied)))
    }
}

/// Exchanges the pieces of a step with all other workers.
struct MeshExchanger<'a> {
    mesh: &'a mut Mesh,
    observer: ExchangeObserver<'a>,
}

impl Exchanger for MeshExchanger<'_> {
    fn exchange(&mut self, pieces: PieceExchange<'_>) -> Result<ExchangeEnd, TrainError> {
        Ok(match self.mesh.exchange_pieces(pieces, &mut self.observer)? {
            PieceOutcome::Complete => ExchangeEnd::Complete,
            PieceOutcome::Abandoned => ExchangeEnd::Abandoned,
            PieceOutcome::CutShort => ExchangeEnd::CutShort,
        })
    }
}

mod mesh_model;
mod sparse;
