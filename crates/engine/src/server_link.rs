//! Parameters on servers, as a worker sees them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_exchange::{PullPurpose, StepPiece};
use paceline_model::AlignedBuffer;
use paceline_net::LinkOutcome::{self, Done, Rewound};
use paceline_net::{ConnectConfig, KeyedGradient, LinkError, ServerConnections, SparseValues};
use paceline_observe::merge_reports;
use paceline_observe::trace::SideTrack;
use paceline_observe::{PeerTraffic, PhaseClock, TaskSummary};

use crate::context::VisitPiece;
use crate::error::TrainError;
use crate::link::{DenseLink, Link, PushOutcome, SparseLink, SparsePush};
use crate::link_observers::{Notify, Peers, StepObserver, WaitObserver};
use crate::overlap::OverlappedLink;
use crate::settings::Mode;
use crate::step_stop::{StepStop, StopRole};

/// How long the coordinator of a run that was cut short waits for the reports of the others.
const REPORTS_TIMEOUT: Duration = Duration::from_millis(800);
/// Parameters of a sparse model, at most, per piece in [`Link::for_each_piece`].
const PIECE: usize = 1 << 20;

/// A worker's parameters, on servers.
pub(crate) struct ServerLink<'a> {
    pub(crate) connections: ServerConnections,
    mode: Mode,
    /// In modes without a common step: this slot's next step.
    pub(crate) own_step: u64,
    pub(crate) notify: Notify<'a>,
    pub(crate) peers: Peers,
    /// How steps travel while they are computed, if they do.
    pub(crate) overlap: Option<ServerOverlap>,
    should_give_up: &'a dyn Fn() -> bool,
    sparse: Option<SparseValues>,
    pub(crate) stop: StopConditions<'a>,
    /// Gives up steps in the middle, once the run must end.
    pub(crate) step_stop: Option<Arc<StepStop>>,
    /// The run was cut short.
    pub(crate) is_cut_short: bool,
    /// In `sync`, if the run was cut short: the step of the parameters here, which are whole. Those
    /// of the servers need not be.
    pub(crate) cut_at: Option<u64>,
    /// The global step before the step in pieces that is in progress.
    pub(crate) lent_step: u64,
    /// The coordinator of a `sync` run keeps the parameters of a step until the next is complete:
    /// the memory for the next.
    pub(crate) spare: AlignedBuffer,
}

/// How the steps of a link travel while they are computed (`server_overlap.rs`).
pub(crate) struct ServerOverlap {
    /// The model's layers.
    pub(crate) pieces: Vec<StepPiece>,
    /// Records the exchanging thread, if a timeline is recorded.
    pub(crate) track: Option<SideTrack>,
}

/// When a worker stops using its link. Each condition may change at any time.
#[derive(Clone, Copy, Default)]
pub(crate) struct StopConditions<'a> {
    /// The slot must be given back. Checked between steps and after leaving.
    pub(crate) is_recalled: Option<&'a dyn Fn() -> bool>,
    /// The slot must be dropped at once. Checked during exchanges.
    pub(crate) is_halted: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// The run has ended without this worker. Checked while it leaves.
    pub(crate) is_run_over: Option<&'a dyn Fn() -> bool>,
}

impl<'a> ServerLink<'a> {
    /// Connects to all servers, waits for the start and, if the model is dense, pulls.
    pub(crate) fn connect(
        config: ConnectConfig,
        mode: Mode,
        notify: Notify<'a>,
        should_give_up: &'a dyn Fn() -> bool,
    ) -> Result<Self, TrainError> {
        let observer = &mut WaitObserver { notify, should_give_up: Some(should_give_up) };
        let peers = Peers { count: config.servers.len(), own: None };
        let sparse = SparseValues::new(&config.client, overlaps(mode));
        let connections = ServerConnections::connect(config, observer)?;
        let own_step = connections.resume_step();
        let stop = StopConditions::default();
        Ok(Self {
            connections,
            mode,
            own_step,
            notify,
            peers,
            overlap: None,
            should_give_up,
            sparse,
            stop,
            step_stop: None,
            is_cut_short: false,
            cut_at: None,
            lent_step: 0,
            spare: AlignedBuffer::default(),
        })
    }

    /// The run was cut short in the middle of this step of `sync`.
    pub(crate) fn set_cut_short(&mut self, step: u64) {
        self.is_cut_short = true;
        self.cut_at = matches!(self.mode, Mode::Sync { .. }).then_some(step);
    }

    /// Whether the parameters of a step are kept until the next one is complete.
    pub(crate) fn keeps_params(&self) -> bool {
        let is_coordinator =
            self.step_stop.as_ref().is_some_and(|stop| stop.role() == StopRole::Coordinator);
        is_coordinator && matches!(self.mode, Mode::Sync { .. })
    }

    /// Sets when the worker stops using the link.
    pub(crate) fn set_stop_conditions(&mut self, stop: StopConditions<'a>) {
        self.stop = stop;
    }

    /// Gives the slot back, with a report for the coordinator.
    pub(crate) fn release(&mut self, report: &[u8]) -> Result<LinkOutcome, TrainError> {
        let observer = &mut self.leave_observer();
        Ok(self.connections.release(report, observer)?)
    }

    fn leave_observer(&self) -> WaitObserver<'a> {
        WaitObserver { notify: self.notify, should_give_up: self.stop.is_run_over }
    }

    fn step_observer<'c>(&self, clock: &'c mut PhaseClock) -> StepObserver<'c>
    where
        'a: 'c,
    {
        let (notify, should_halt) = (self.notify, self.stop.is_halted);
        StepObserver { clock, notify, peers: self.peers, should_halt, stop: None }
    }

    /// What only the link of a sparse model has.
    fn sparse(&mut self) -> (&mut ServerConnections, &mut SparseValues) {
        let Some(sparse) = &mut self.sparse else { unreachable!("the model is sparse") };
        (&mut self.connections, sparse)
    }
}

/// Whether a worker of a sparse model pulls the values of its next batch while it computes the
/// current one. That makes it one step staler, so `sync` and lock-step do not allow it.
pub(crate) fn overlaps(mode: Mode) -> bool {
    match mode {
        Mode::Async => true,
        Mode::Bounded { staleness } => staleness > 0,
        Mode::Single | Mode::Sync { .. } | Mode::Mirrored => false,
    }
}

impl Link for ServerLink<'_> {
    fn next_step(&self) -> u64 {
        match self.mode {
            // Before the first pull of a sparse model only the slot's own step is known.
            Mode::Sync { .. } => self.connections.global_step().max(self.own_step),
            _ => self.own_step,
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_cut_short || self.connections.is_stopping()
    }

    fn is_recalled(&self) -> bool {
        self.stop.is_recalled.is_some_and(|is_recalled| is_recalled())
            && !self.connections.has_unfinished_push()
    }

    fn global_step(&self) -> u64 {
        self.cut_at.unwrap_or_else(|| self.connections.global_step())
    }

    fn for_each_peer(&self, visit: &mut dyn FnMut(PeerTraffic)) {
        for (server, bytes) in self.connections.traffic().enumerate() {
            let (sent_bytes, received_bytes) = (bytes.sent, bytes.received);
            visit(PeerTraffic { peer: server, sent_bytes, received_bytes });
        }
    }

    fn sent_key_bytes(&self) -> Option<u64> {
        self.sparse.is_some().then(|| self.connections.key_bytes())
    }

    fn request_stop(&mut self, reason: &str) -> Result<(), TrainError> {
        Ok(self.connections.request_stop(reason)?)
    }

    fn cut_short(&mut self) -> Result<(), TrainError> {
        self.set_cut_short(self.connections.global_step());
        Ok(self.connections.cut_short()?)
    }

    fn checkpoint_step(&self) -> u64 {
        // In `sync` the step that is made next: no server makes it before it has the request.
        self.connections.global_step() + u64::from(matches!(self.mode, Mode::Sync { .. }))
    }

    fn checkpoint(&mut self, step: u64, _is_last: bool) -> Result<(), TrainError> {
        Ok(self.connections.request_checkpoint(step)?)
    }

    fn peek(&mut self, keys: Option<&[u32]>) -> Result<LinkOutcome<&[f32]>, TrainError> {
        let observer = &mut WaitObserver { notify: self.notify, should_give_up: None };
        let Some(sparse) = &mut self.sparse else { return Ok(Done(self.connections.params())) };
        let Done(()) = sparse.complete(&mut self.connections, observer)? else {
            return Ok(Rewound);
        };
        Ok(sparse.peek(&mut self.connections, keys.unwrap_or_default(), observer)?)
    }

    fn for_each_piece(&mut self, visit: &mut VisitPiece<'_>) -> Result<LinkOutcome, TrainError> {
        let Some(SparseValues { keys: total, width, padding, .. }) = self.sparse else {
            return visit(self.connections.params()).map(Done);
        };
        let (mut keys, at_once) = (Vec::new(), (PIECE / width).max(1));
        for from in (0..total).step_by(at_once) {
            let to = (from + at_once).min(total);
            keys.clear();
            keys.extend(from as u32..to as u32);
            let Done(piece) = self.peek(Some(&keys))? else { return Ok(Rewound) };
            let padding = if to == total { padding } else { 0 };
            visit(&piece[..piece.len() - padding])?;
        }
        Ok(Done(()))
    }

    fn leave(&mut self, report: &[u8]) -> Result<LinkOutcome, TrainError> {
        let observer = &mut self.leave_observer();
        Ok(self.connections.leave(report, observer)?)
    }

    /// The workers' reports as server 0 has them, the coordinator's among them, and each
    /// server's own.
    fn collect(&mut self, own: TaskSummary) -> Result<LinkOutcome<Vec<TaskSummary>>, TrainError> {
        let begun = Instant::now();
        let is_late = || begun.elapsed() >= REPORTS_TIMEOUT;
        let mut observer = self.leave_observer();
        if self.is_cut_short {
            observer.should_give_up = Some(&is_late);
        }
        let reports = match self.connections.collect_reports(&mut observer) {
            Err(LinkError::Interrupted { .. }) => return Ok(Done(vec![own])),
            Ok(Done(reports)) => reports,
            Ok(Rewound) => return Ok(Rewound),
            Err(error) => return Err(error.into()),
        };
        let from_all = reports.into_iter().enumerate().flat_map(|(server, reports)| {
            reports.into_iter().filter(move |report| server == 0 || report.slot.is_none())
        });
        let reports = from_all.filter_map(|report| serde_json::from_slice(&report.bytes).ok());
        Ok(Done(merge_reports(reports.collect())))
    }

    fn refresh(&mut self) -> Result<LinkOutcome, TrainError> {
        if self.cut_at.is_some() {
            return Ok(Done(()));
        }
        let observer = &mut self.leave_observer();
        if self.sparse.is_none() {
            return Ok(self.connections.pull(observer)?);
        }
        // A peek fetches its values anyway; this one brings the global step.
        match self.peek(Some(&[]))? {
            Done(_) => Ok(Done(())),
            Rewound => Ok(Rewound),
        }
    }

    fn finish(&mut self) -> Result<(), TrainError> {
        let observer = &mut self.leave_observer();
        Ok(self.connections.finish(observer)?)
    }

    /// A recalled slot has already been left, and no process need stay for it.
    fn wait_for_end(&mut self) -> Result<LinkOutcome, TrainError> {
        let StopConditions { is_recalled, is_run_over, .. } = self.stop;
        let gives_up = || [is_recalled, is_run_over].into_iter().flatten().any(|holds| holds());
        let observer = &mut WaitObserver { notify: self.notify, should_give_up: Some(&gives_up) };
        match self.connections.wait_for_end(observer) {
            Err(LinkError::Interrupted { .. }) => Ok(Done(())),
            ended => Ok(ended?),
        }
    }

    fn rejoin(&mut self) -> Result<(), TrainError> {
        let should_give_up = Some(self.should_give_up);
        let observer = &mut WaitObserver { notify: self.notify, should_give_up };
        self.connections.resume_after_rewind(observer)?;
        if let Some(sparse) = &mut self.sparse {
            sparse.in_flight = false;
        }
        self.own_step = self.connections.resume_step();
        Ok(())
    }

    fn lost_pushes(&self) -> u64 {
        self.connections.lost_pushes()
    }

    fn base_step(&self) -> u64 {
        self.connections.base_step()
    }

    fn already_left(&self) -> bool {
        self.connections.already_left()
    }
}

impl DenseLink for ServerLink<'_> {
    fn params(&self) -> &[f32] {
        self.connections.params()
    }

    fn push(
        &mut self,
        examples: usize,
        grad: &[f32],
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome<PushOutcome>, TrainError> {
        let step = self.next_step();
        let observer = &mut self.step_observer(clock);
        let Done(()) = self.connections.exchange(step, examples as u32, grad, observer)? else {
            return Ok(Rewound);
        };
        self.own_step += 1;
        Ok(Done(push_outcome(&self.connections)))
    }

    fn overlapped(&mut self) -> Option<&mut dyn OverlappedLink> {
        if self.overlap.is_some() { Some(self) } else { None }
    }
}

pub(crate) fn push_outcome(connections: &ServerConnections) -> PushOutcome {
    if connections.was_dropped() { PushOutcome::Dropped } else { PushOutcome::Applied }
}

impl SparseLink for ServerLink<'_> {
    fn overlaps(&self) -> bool {
        self.sparse.as_ref().is_some_and(|sparse| sparse.overlaps)
    }

    fn begin(
        &mut self,
        step: u64,
        keys: &[u32],
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome, TrainError> {
        let observer = &mut self.step_observer(clock);
        let (connections, sparse) = self.sparse();
        let Done(()) = sparse.complete(connections, observer)? else { return Ok(Rewound) };
        connections.resume_at(step);
        Ok(connections.pull_keys(keys, PullPurpose::Begin, &mut sparse.current, observer)?)
    }

    fn begin_next(
        &mut self,
        keys: &[u32],
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome, TrainError> {
        let observer = &mut self.step_observer(clock);
        let (connections, sparse) = self.sparse();
        Ok(connections.pull_keys(keys, PullPurpose::Ahead, &mut sparse.next, observer)?)
    }

    fn values(&self) -> &[f32] {
        self.sparse.as_ref().map_or(&[], |sparse| &sparse.current)
    }

    fn push(
        &mut self,
        push: SparsePush<'_>,
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome, TrainError> {
        let observer = &mut self.step_observer(clock);
        let SparsePush { step, examples, keys, grad, next } = push;
        let gradient = KeyedGradient { examples: examples as u32, keys, values: grad };
        let (connections, sparse) = self.sparse();
        let Done(()) = connections.push_keys(step, gradient, next, observer)? else {
            return Ok(Rewound);
        };
        sparse.in_flight = true;
        if sparse.overlaps {
            std::mem::swap(&mut sparse.current, &mut sparse.next);
        }
        self.own_step += 1;
        Ok(Done(()))
    }

    fn wait_for_values(
        &mut self,
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome<PushOutcome>, TrainError> {
        let observer = &mut self.step_observer(clock);
        let (connections, sparse) = self.sparse();
        let Done(()) = sparse.complete(connections, observer)? else { return Ok(Rewound) };
        Ok(Done(push_outcome(connections)))
    }
}
