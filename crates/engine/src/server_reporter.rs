//! What a server reports while it runs: to its log and recorder, and to the coordinator at the end.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_exchange::{Generation, Level, STALENESS_BOUNDS, Server, SlotStats, Stats, Store};
use paceline_net::{ConnectionTracer, ServerObserver, ServerTotals, ServerTrace, Traffic};
use paceline_observe::{
    GradientTotals, Pace, PeerTraffic, ServerRecorder, SlotGradients, StalenessCounts, TableUse,
    TaskSummary, TouchedKeys, TraceEvent, WorkerTiming, WorkerTotals,
};

use crate::checkpoint::{CheckpointDir, CheckpointWriter, copy_server};
use crate::context::{NoteLevel, TaskContext};
use crate::settings::TestHooks;
use crate::sparse::table_use;

/// How often the workers' pace is compared.
const PACE_EVERY: Duration = Duration::from_secs(1);

/// How long a server that was asked to end waits for the end of the run.
const END_LIMIT: Duration = Duration::from_millis(1_300);

/// Reports what a server does.
pub(crate) struct ServerReporter {
    task: String,
    context: Arc<dyn TaskContext>,
    recorder: Box<dyn ServerRecorder>,
    checkpoints: Option<CheckpointWriter>,
    /// Why checkpoints would never be complete, if so.
    separate_run: Option<String>,
    /// When the log last said which tasks are missing.
    last_note: Instant,
    started: Instant,
    start_timeout: Duration,
    has_begun: bool,
    /// When the server was first asked to end.
    asked_to_end: Option<Instant>,
    /// What all connections' threads have done so far.
    totals: ServerTotals,
    trace: Option<ServerTrace>,
    /// The workers' names and pace. Only server 0 has them.
    workers: Vec<String>,
    pace: Pace,
    last_pace: Instant,
    /// Pushes made before the current generation began, and kept in it.
    carried: u64,
    omits_phases: bool,
    /// The run's record of its generations.
    record: Option<CheckpointDir>,
}

impl ServerReporter {
    pub(crate) fn new(
        task: String,
        context: Arc<dyn TaskContext>,
        recorder: Box<dyn ServerRecorder>,
        checkpoints: Option<CheckpointWriter>,
        start_timeout: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            task,
            context,
            recorder,
            checkpoints,
            separate_run: None,
            last_note: now,
            started: now,
            start_timeout,
            has_begun: false,
            asked_to_end: None,
            totals: ServerTotals::default(),
            trace: None,
            workers: Vec::new(),
            pace: Pace::new(0),
            last_pace: now,
            carried: 0,
            omits_phases: false,
            record: None,
        }
    }

    /// Records the server's connections on the timeline.
    pub(crate) fn with_trace(self, trace: Option<ServerTrace>) -> Self {
        Self { trace, ..self }
    }

    /// Accepts only clients that state a generation of this record.
    pub(crate) fn with_record(self, record: Option<CheckpointDir>) -> Self {
        Self { record, ..self }
    }

    /// Applies the changes of a test or bench.
    pub(crate) fn with_hooks(self, hooks: TestHooks) -> Self {
        Self { omits_phases: hooks.omits_phases, ..self }
    }

    /// Reports on the workers in these slots, as server 0 does.
    pub(crate) fn with_workers(self, workers: Vec<String>) -> Self {
        Self { pace: Pace::new(workers.len()), workers, ..self }
    }

    /// Whether the run was over when this server came back to it, or the server was asked to stop
    /// before the start: no worker will connect.
    pub(crate) fn is_unneeded(&self, server: &Server) -> bool {
        !server.is_started() && self.context.stop_signal().is_some()
    }

    /// Whether the server was asked to end, and the run did not end in time.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.asked_to_end.is_some_and(|since| since.elapsed() >= END_LIMIT)
    }

    /// Fails once the server was asked to end and the run has not ended in time. A coordinator that
    /// received the same signal ends the run cleanly.
    fn check_end(&mut self) -> Result<(), String> {
        if self.asked_to_end.is_none() && self.context.should_leave() {
            self.asked_to_end = Some(Instant::now());
        }
        if self.was_interrupted() { Err("the server was asked to end".into()) } else { Ok(()) }
    }

    /// A generation of the run begins, which holds `carried` pushes of earlier ones. The server
    /// waits for all workers again.
    pub(crate) fn enter_generation(&mut self, generation: Generation, carried: u64) {
        (self.started, self.last_note) = (Instant::now(), Instant::now());
        self.carried = carried;
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.enter_generation(generation.number);
        }
    }

    fn record(&mut self, server: &Server) -> io::Result<()> {
        if self.trace.as_ref().is_some_and(ServerTrace::was_on) {
            self.recorder.trace(TraceEvent::Started)?;
        }
        if server.is_started() && !std::mem::replace(&mut self.has_begun, true) {
            self.context.waiting(None);
            self.separate_run = self.context.separate_run().filter(|_| self.checkpoints.is_some());
            self.recorder.start();
        }
        let (workers, spent) = (&self.workers, &self.totals);
        let totals = || GradientTotals {
            table: table_of(server.store()),
            ..gradient_totals(workers, server.stats(), spent)
        };
        self.recorder.poll(server.global_step(), &totals)
    }

    /// Hands the timeline to the recorder, once.
    fn finish_trace(&mut self) {
        let finished = self.trace.take().map(|trace| trace.finish(&mut *self.recorder));
        if let Some(Err(error)) = finished {
            let text = format!("cannot write the part of the timeline: {error}");
            self.context.note(NoteLevel::Warning, &text);
        }
    }

    /// Reports which workers fall behind or catch up.
    fn check_pace(&mut self, stats: &Stats) {
        if self.workers.is_empty() || self.last_pace.elapsed() < PACE_EVERY {
            return;
        }
        self.last_pace = Instant::now();
        let totals: Vec<_> = stats.slots.iter().map(slot_gradients).collect();
        for change in self.pace.end_interval(&totals) {
            let worker = &self.workers[change.slot];
            let state = if change.is_behind { "is slow" } else { "has caught up" };
            let text = format!(
                "{worker} {state}: {:.2} ms to a gradient, {:.1} times the others",
                change.gradient_ms, change.behind
            );
            self.context.note(NoteLevel::Warning, &text);
        }
    }

    /// Ends the recording, with how late the gradients were.
    pub(crate) fn finish(&mut self, stats: &Stats) -> io::Result<()> {
        // Bounds are whole numbers and inclusive, and the last bucket takes the rest.
        let above = |bound: u64| bound as f64 + 0.5;
        let rest = stats.staleness_max.max(2 * STALENESS_BOUNDS[STALENESS_BOUNDS.len() - 1]);
        let edges = [-0.5].into_iter().chain(STALENESS_BOUNDS.map(above)).chain([above(rest)]);
        self.recorder.finish(&StalenessCounts {
            applied: stats.applied_total(),
            edges: edges.collect(),
            counts: stats.staleness.to_vec(),
        })
    }
}

impl ServerObserver for ServerReporter {
    fn knows_generation(&mut self, generation: Generation) -> bool {
        self.record.as_ref().is_some_and(|record| record.knows(generation))
    }

    fn note(&mut self, level: Level, text: &str) {
        self.context.note(
            match level {
                // The server ends with an error that says it again.
                Level::Info | Level::Error => NoteLevel::Info,
                Level::Warning => NoteLevel::Warning,
            },
            text,
        );
    }

    fn checkpoint(&mut self, step: u64, server: &Server) {
        let Some(checkpoints) = &mut self.checkpoints else { return };
        let marks = server.marks();
        checkpoints.stop_at = server.stop_at();
        let slots = marks.first().map_or(0, |chunk| chunk.slots.len());
        let is_last = !(0..slots).any(|slot| server.is_live(slot));
        match server.store() {
            Store::Sparse(sparse) => {
                // Even if this checkpoint is skipped: equal seeds must give equal bits.
                sparse.table().fold();
                checkpoints.take_table(step, marks, is_last, sparse.table());
            }
            Store::Dense(dense) => {
                checkpoints.take(step, marks, is_last, |out| copy_server(server, dense, out));
            }
        }
    }

    fn last_checkpoint(&self) -> Option<u64> {
        self.checkpoints.as_ref().and_then(CheckpointWriter::last_step)
    }

    fn report(&mut self, totals: &ServerTotals, stats: &Stats, store: &Store) -> Vec<u8> {
        // Each connection has a thread; the server's phases are their average.
        let scale = totals.seconds / totals.phases.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let phases = ServerTotals::PHASES.iter().zip(totals.phases);
        let mut report = TaskSummary {
            task: self.task.clone(),
            steps: self.carried + stats.applied_total(),
            dropped: stats.dropped_total(),
            seconds: totals.seconds,
            phases: phases.map(|(&name, spent)| (name.into(), (spent * scale).into())).collect(),
            staleness_mean: Some(stats.staleness_mean()),
            staleness_max: Some(stats.staleness_max),
            run_delay_seconds: totals.run_delay_s.map(|seconds| seconds * scale),
            sent_bytes: totals.sent_bytes,
            sent_before_bytes: totals.sent_before_bytes,
            received_bytes: totals.received_bytes,
            resources: self.recorder.resources(),
            workers: worker_timings(&self.workers, stats),
            ..TaskSummary::of_process()
        };
        report.set_sparse(TouchedKeys::default(), table_of(store));
        self.finish_trace();
        serde_json::to_vec(&report).unwrap_or_default()
    }

    fn traffic(&mut self, by_slot: &[Traffic]) {
        for (peer, bytes) in by_slot.iter().enumerate() {
            let (sent_bytes, received_bytes) = (bytes.sent, bytes.received);
            self.recorder.traffic(PeerTraffic { peer, sent_bytes, received_bytes });
        }
    }

    fn totals(&mut self, totals: &ServerTotals) {
        self.totals = *totals;
    }

    fn wants_phases(&self) -> bool {
        !self.omits_phases
    }

    fn trace_connection(&mut self) -> Option<Box<dyn ConnectionTracer>> {
        Some(Box::new(self.trace.as_ref()?.connection()))
    }

    fn tick(&mut self, server: &Server) -> Result<(), String> {
        self.record(server).map_err(|error| format!("cannot write the event file: {error}"))?;
        for (slot, worker) in self.workers.iter_mut().enumerate() {
            if worker != server.process_name(slot) {
                server.process_name(slot).clone_into(worker);
            }
        }
        self.check_pace(server.stats());
        if let Some(why) = &self.separate_run {
            return Err(why.clone());
        }
        if server.is_started() || server.outcome().is_some() {
            return self.check_end();
        }
        if self.is_unneeded(server) {
            return Err("the run is over".into());
        }
        let missing = server.missing();
        if self.started.elapsed() >= self.start_timeout {
            let seconds = self.start_timeout.as_secs();
            return Err(format!("the run did not start within {seconds} s: no {missing}"));
        }
        if self.last_note.elapsed().as_secs() >= 1 {
            self.last_note = Instant::now();
            let (waited, limit) = (self.started.elapsed().as_secs(), self.start_timeout.as_secs());
            let text = format!("waiting for {missing} ({waited} s of {limit} s)");
            self.context.waiting(Some(&text));
        }
        Ok(())
    }
}

/// What a server has seen of the gradients and, on server 0, of each worker.
fn gradient_totals(workers: &[String], stats: &Stats, spent: &ServerTotals) -> GradientTotals {
    let worker = |(task, slot): (&String, &SlotStats)| WorkerTotals {
        task: task.clone(),
        timed: slot.timed,
        gradient_ms: slot.gradient_ms,
        held_ms: slot.held_ms,
    };
    let applied = stats.applied_total();
    let phases = ServerTotals::PHASES.into_iter().zip(spent.phases);
    GradientTotals {
        applied,
        dropped: stats.dropped_total(),
        staleness_sum: stats.staleness_mean() * applied as f64,
        staleness_max: stats.staleness_max,
        phase_seconds: phases.collect(),
        run_delay_seconds: spent.run_delay_s,
        table: None,
        workers: workers.iter().zip(&stats.slots).map(worker).collect(),
    }
}

/// What a server holds of a sparse model's parameters.
fn table_of(store: &Store) -> Option<TableUse> {
    match store {
        Store::Sparse(sparse) => Some(table_use(sparse.table())),
        Store::Dense(_) => None,
    }
}

/// The gradients of a slot whose time is known.
fn slot_gradients(slot: &SlotStats) -> SlotGradients {
    SlotGradients { count: slot.timed, sum_ms: slot.gradient_ms }
}

/// What server 0 has seen of each worker's time.
fn worker_timings(workers: &[String], stats: &Stats) -> Vec<WorkerTiming> {
    let timing = |(task, slot): (&String, &SlotStats)| WorkerTiming {
        task: task.clone(),
        gradient_ms: slot.gradient_ms as f64 / slot.timed.max(1) as f64,
        held_seconds: slot.held_ms as f64 / 1e3,
    };
    workers.iter().zip(&stats.slots).map(timing).collect()
}
