//! What a server tells of itself while it serves: in its log, its event file and its metrics, to
//! whoever records a timeline, and to the chief at the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_exchange::{Generation, Level, STALENESS_BOUNDS, Server, SlotStats, Stats, Store};
use paceline_net::{Follower, Served, Watcher};
use paceline_observe::{
    GradientTotals, Pace, PeerTraffic, ServerRecorder, StalenessCounts, TraceEvent, WorkerTotals,
};
use paceline_record::ServerEventLog;

use super::Leash;
use super::follow::Follow;
use crate::checkpoint::{Keeper, copy_store};
use crate::job::Plan;
use crate::metrics::Metrics;
use crate::worker::is_bare;
use paceline_record::TaskLog;
use paceline_record::{TaskSummary, WorkerTiming};

/// How often the workers' pace is looked at.
const PACE_EVERY: Duration = Duration::from_secs(1);

/// Accounts for what a server does.
pub(super) struct Watch {
    pub(super) task: String,
    pub(super) log: Arc<TaskLog>,
    /// Its event file, its curves and its part of the timeline.
    events: ServerEventLog,
    keeper: Option<Keeper>,
    /// When somebody was last told who is missing.
    told: Instant,
    started: Instant,
    start_timeout: Duration,
    has_begun: bool,
    pub(super) metrics: Option<Metrics>,
    /// Bytes to and from each worker, and last everybody else.
    moved_bytes: Vec<(u64, u64)>,
    /// Seconds of all connections' threads in each phase.
    spent: [f64; 4],
    /// How connections are recorded, if they are.
    pub(super) follow: Option<Follow>,
    /// The workers' names and pace; the first server tells of them for all.
    pub(super) workers: Vec<String>,
    pub(super) pace: Pace,
    paced: Instant,
    /// Pushes that this run had made before the present generation began, and that are in it.
    pub(super) carried: u64,
    /// What ties this server to the launcher, if that has started it.
    pub(super) leash: Option<Leash>,
}

impl Watch {
    pub(super) fn new(
        task: String,
        log: Arc<TaskLog>,
        events: ServerEventLog,
        plan: &Plan,
        keeper: Option<Keeper>,
    ) -> Self {
        let now = Instant::now();
        Self {
            task,
            log,
            events,
            keeper,
            told: now,
            started: now,
            start_timeout: plan.cluster.start_timeout,
            has_begun: false,
            metrics: None,
            moved_bytes: Vec::new(),
            spent: [0.0; 4],
            follow: None,
            workers: Vec::new(),
            pace: Pace::new(0),
            paced: now,
            carried: 0,
            leash: None,
        }
    }

    /// The run was over when this server came back to it: nobody will come any more.
    pub(super) fn is_unneeded(&self, machine: &Server) -> bool {
        !machine.is_started() && self.leash.as_ref().is_some_and(|leash| leash.signal().is_some())
    }

    /// Another generation of the run begins, and everybody is waited for anew.
    pub(super) fn enter(&mut self, generation: Generation) {
        (self.started, self.told) = (Instant::now(), Instant::now());
        if let Some(keeper) = &mut self.keeper {
            keeper.enter(generation.number);
        }
    }

    /// Draws what the server uses and, whenever that has been looked at, what it sees of workers.
    fn draw(&mut self, machine: &Server) -> std::io::Result<()> {
        if self.follow.as_ref().is_some_and(|follow| follow.tracer.was_on()) {
            self.events.trace(TraceEvent::Started)?;
        }
        if machine.is_started() && !std::mem::replace(&mut self.has_begun, true) {
            self.events.start();
        }
        let workers = &self.workers;
        self.events.poll(machine.global_step(), &|| totals(workers, machine.stats()))
    }

    /// Writes down what the server tells of itself while it runs.
    fn publish(&mut self, machine: &Server) {
        let Some(metrics) = &mut self.metrics else { return };
        let (stats, moved, spent) = (machine.stats(), &self.moved_bytes, self.spent);
        let seen = seen(&self.workers, stats);
        metrics.publish(Instant::now(), |figures, peers| {
            figures.add("paceline_global_step", machine.global_step() as f64);
            figures.add("paceline_applied_gradients_total", stats.applied_total() as f64);
            figures.add("paceline_dropped_gradients_total", stats.dropped_total() as f64);
            figures.add("paceline_staleness_mean_updates", stats.staleness_mean());
            figures.add("paceline_staleness_max_updates", stats.staleness_max as f64);
            for (phase, seconds) in Served::PHASES.into_iter().zip(spent) {
                figures.add_of("paceline_phase_seconds_total", "phase", phase, seconds);
            }
            for (peer, (sent, received)) in peers.iter().zip(moved) {
                figures.add_of("paceline_sent_bytes_total", "peer", peer, *sent as f64);
                figures.add_of("paceline_received_bytes_total", "peer", peer, *received as f64);
            }
            for WorkerTiming { task, gradient_ms, .. } in seen {
                figures.add_of("paceline_gradient_seconds", "worker", task, gradient_ms / 1e3);
            }
        });
    }

    /// Leaves what was recorded, once, for the chief to find.
    fn leave_trace(&mut self) {
        let left = self.follow.take().map(|follow| follow.leave(&mut self.events));
        if let Some(Err(error)) = left {
            self.log.warn(&format!("cannot write the part of the timeline: {error}"));
        }
    }

    /// Tells who is slow.
    fn look_at_pace(&mut self, stats: &Stats) {
        if self.workers.is_empty() || self.paced.elapsed() < PACE_EVERY {
            return;
        }
        self.paced = Instant::now();
        let totals: Vec<_> =
            stats.slots.iter().map(|slot| (slot.timed, slot.gradient_ms)).collect();
        for change in self.pace.look(&totals) {
            let worker = &self.workers[change.slot];
            let figures = format!(
                "{:.2} ms to a gradient, {:.1} times the others",
                change.gradient_ms, change.behind
            );
            match change.is_behind {
                true => self.log.warn(&format!("{worker} is slow: {figures}")),
                false => self.log.warn(&format!("{worker} has caught up: {figures}")),
            }
        }
    }

    /// How late the gradients were, as a histogram for TensorBoard.
    pub(super) fn write_staleness(&mut self, stats: &Stats) -> std::io::Result<()> {
        // Bounds are whole numbers and inclusive, and the last bucket takes the rest.
        let above = |bound: u64| bound as f64 + 0.5;
        let rest = stats.staleness_max.max(2 * STALENESS_BOUNDS[STALENESS_BOUNDS.len() - 1]);
        let edges = [-0.5].into_iter().chain(STALENESS_BOUNDS.map(above)).chain([above(rest)]);
        self.events.finish(&StalenessCounts {
            applied: stats.applied_total(),
            edges: edges.collect(),
            counts: stats.staleness.to_vec(),
        })
    }
}

impl Watcher for Watch {
    fn note(&mut self, level: Level, text: &str) {
        match level {
            Level::Info => self.log.info(text),
            Level::Warning | Level::Error => self.log.warn(text),
        }
    }

    fn checkpoint(&mut self, step: u64, machine: &Server) -> bool {
        let Some(keeper) = &mut self.keeper else { return false };
        let marks = machine.marks();
        if let Store::Sparse(sparse) = machine.store() {
            // Also if this one is left out: equal seeds must give equal bits.
            sparse.table().fold();
        }
        keeper.stop_at = machine.stops_at();
        let slots = marks.first().map_or(0, |part| part.slots.len());
        let is_last = !(0..slots).any(|slot| machine.is_live(slot));
        keeper.take(step, marks, is_last, |out| copy_store(machine.store(), out))
    }

    fn report(&mut self, served: &Served, stats: &Stats) -> Vec<u8> {
        // Each connection has a thread; what a server's time goes to is their average.
        let scale = served.seconds / served.phases.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let phases = Served::PHASES.iter().zip(served.phases);
        let report = TaskSummary {
            task: self.task.clone(),
            steps: self.carried + stats.applied_total(),
            dropped: stats.dropped_total(),
            seconds: served.seconds,
            phases: phases.map(|(&name, spent)| (name.into(), (spent * scale).into())).collect(),
            staleness_mean: Some(stats.staleness_mean()),
            staleness_max: Some(stats.staleness_max),
            sent_bytes: served.sent_bytes,
            received_bytes: served.received_bytes,
            resources: self.events.resources(),
            workers: seen(&self.workers, stats),
            ..TaskSummary::of_process()
        };
        self.leave_trace();
        serde_json::to_vec(&report).unwrap_or_default()
    }

    fn moved(&mut self, by_slot: &[(u64, u64)]) {
        self.moved_bytes.clear();
        self.moved_bytes.extend_from_slice(by_slot);
        for (peer, &(sent_bytes, received_bytes)) in by_slot.iter().enumerate() {
            self.events.traffic(PeerTraffic { peer, sent_bytes, received_bytes });
        }
    }

    fn spent(&mut self, by_phase: [f64; 4]) {
        self.spent = by_phase;
    }

    fn wants_phases(&self) -> bool {
        !is_bare()
    }

    fn follow(&mut self) -> Option<Box<dyn Follower>> {
        Some(Box::new(self.follow.as_ref()?.connection()))
    }

    fn tick(&mut self, machine: &Server) -> Result<(), String> {
        self.draw(machine).map_err(|error| format!("cannot write the event file: {error}"))?;
        for (slot, worker) in self.workers.iter_mut().enumerate() {
            if worker != machine.holder(slot) {
                machine.holder(slot).clone_into(worker);
            }
        }
        self.publish(machine);
        self.look_at_pace(machine.stats());
        if machine.is_started() || machine.outcome().is_some() {
            return Ok(());
        }
        if self.is_unneeded(machine) {
            return Err("the run is over".into());
        }
        let missing = machine.missing();
        if self.started.elapsed() >= self.start_timeout {
            let seconds = self.start_timeout.as_secs();
            return Err(format!("the run did not start within {seconds} s: {missing} missing"));
        }
        if self.told.elapsed().as_secs() >= 1 {
            self.told = Instant::now();
            self.log.info(&format!("waiting for the start: {missing} missing"));
        }
        Ok(())
    }
}

/// What a server has seen of the gradients; of workers whose names are given, one by one.
fn totals(workers: &[String], stats: &Stats) -> GradientTotals {
    let worker = |(task, slot): (&String, &SlotStats)| WorkerTotals {
        task: task.clone(),
        timed: slot.timed,
        gradient_ms: slot.gradient_ms,
        held_ms: slot.held_ms,
    };
    let applied = stats.applied_total();
    GradientTotals {
        applied,
        staleness_sum: stats.staleness_mean() * applied as f64,
        workers: workers.iter().zip(&stats.slots).map(worker).collect(),
    }
}

/// What became of each worker's time, as seen from the first server.
fn seen(workers: &[String], stats: &Stats) -> Vec<WorkerTiming> {
    let seen = |(task, slot): (&String, &SlotStats)| WorkerTiming {
        task: task.clone(),
        gradient_ms: slot.gradient_ms as f64 / slot.timed.max(1) as f64,
        held_seconds: slot.held_ms as f64 / 1e3,
    };
    workers.iter().zip(&stats.slots).map(seen).collect()
}
