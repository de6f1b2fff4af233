//! The recorders of a task besides its event log: its metrics and its progress.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use paceline_model::Score;
use paceline_observe::metrics::MetricFigures;
use paceline_observe::{
    GradientTotals, PeerTraffic, ProgressReport, Recorder, ResourceUse, RunPosition,
    ServerRecorder, StalenessCounts, StepRecord, TestRecord, TraceEvent,
};
use paceline_record::ServerEventLog;

use crate::metrics::Metrics;
use crate::progress::Progress;

/// Shows the progress of the run, if the task leads it.
pub(crate) struct ProgressRecorder {
    progress: Arc<Mutex<Progress>>,
    /// When something is next shown; never if `None`.
    due: Option<Instant>,
}

impl ProgressRecorder {
    pub(crate) fn new(progress: Arc<Mutex<Progress>>) -> Self {
        let due = progress.lock().unwrap_or_else(PoisonError::into_inner).next_due();
        Self { progress, due }
    }
}

impl Recorder for ProgressRecorder {
    #[inline]
    fn progress(&mut self, now: Instant, report: &dyn Fn() -> ProgressReport) -> io::Result<()> {
        if self.due.is_some_and(|due| now >= due) {
            let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.show(&report());
            self.due = progress.next_due();
        }
        Ok(())
    }
}

/// Publishes the metrics of a worker or an evaluator.
pub(crate) struct MetricsRecorder {
    metrics: Metrics,
    last_test: Option<Score>,
}

impl MetricsRecorder {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { metrics, last_test: None }
    }
}

impl Recorder for MetricsRecorder {
    #[inline]
    fn step(&mut self, record: &StepRecord<'_>) -> io::Result<()> {
        if !self.metrics.is_due(record.now) {
            return Ok(());
        }
        let score = self.last_test;
        self.metrics.publish(record.now, |figures, peers| {
            figures.add("paceline_global_step", record.position.global_step as f64);
            figures.add("paceline_steps_total", record.worker_steps as f64);
            figures.add("paceline_examples_total", record.examples as f64);
            figures.add("paceline_train_loss", f64::from(record.loss));
            add_score(figures, score);
            for (phase, seconds) in record.clock.totals().seconds() {
                figures.add_of("paceline_phase_seconds_total", "phase", phase, seconds);
            }
            (record.position.traffic)(&mut |traffic| add_traffic(figures, peers, traffic));
        });
        Ok(())
    }

    fn poll(&mut self, position: &RunPosition<'_>) -> io::Result<()> {
        let now = Instant::now();
        if !self.metrics.is_due(now) {
            return Ok(());
        }
        let score = self.last_test;
        self.metrics.publish(now, |figures, _| {
            figures.add("paceline_global_step", position.global_step as f64);
            add_score(figures, score);
        });
        Ok(())
    }

    fn test(&mut self, record: &TestRecord<'_>) -> io::Result<()> {
        self.last_test = Some(*record.score);
        Ok(())
    }
}

fn add_score(figures: &mut MetricFigures, score: Option<Score>) {
    if let Some(score) = score {
        figures.add("paceline_test_loss", score.loss);
        figures.add("paceline_test_accuracy_ratio", score.accuracy);
    }
}

fn add_traffic(figures: &mut MetricFigures, peers: &[String], traffic: PeerTraffic) {
    let name = peers.get(traffic.peer).cloned().unwrap_or_default();
    let (sent, received) = (traffic.sent_bytes as f64, traffic.received_bytes as f64);
    figures.add_of("paceline_sent_bytes_total", "peer", name.clone(), sent);
    figures.add_of("paceline_received_bytes_total", "peer", name, received);
}

/// Records a server: its event log and, if the job wants them, its metrics.
pub(crate) struct ServerRecorders {
    pub(crate) events: ServerEventLog,
    pub(crate) metrics: Option<Metrics>,
    traffic: Vec<PeerTraffic>,
}

impl ServerRecorders {
    pub(crate) fn new(events: ServerEventLog, metrics: Option<Metrics>) -> Self {
        Self { events, metrics, traffic: Vec::new() }
    }

    fn publish(&mut self, global_step: u64, totals: &GradientTotals) {
        let Some(metrics) = &mut self.metrics else { return };
        let traffic = &self.traffic;
        metrics.publish(Instant::now(), |figures, peers| {
            let applied = totals.applied as f64;
            figures.add("paceline_global_step", global_step as f64);
            figures.add("paceline_applied_gradients_total", applied);
            figures.add("paceline_dropped_gradients_total", totals.dropped as f64);
            let staleness_mean = totals.staleness_sum / applied.max(1.0);
            figures.add("paceline_staleness_mean_updates", staleness_mean);
            figures.add("paceline_staleness_max_updates", totals.staleness_max as f64);
            for (phase, seconds) in &totals.phase_seconds {
                figures.add_of("paceline_phase_seconds_total", "phase", *phase, *seconds);
            }
            for traffic in traffic.iter().filter(|traffic| traffic.peer < peers.len()) {
                add_traffic(figures, peers, *traffic);
            }
            for worker in &totals.workers {
                let mean_ms = worker.gradient_ms as f64 / worker.timed.max(1) as f64;
                let name = worker.task.clone();
                figures.add_of("paceline_gradient_seconds", "worker", name, mean_ms / 1e3);
            }
        });
    }
}

impl ServerRecorder for ServerRecorders {
    fn start(&mut self) {
        self.events.start();
    }

    fn traffic(&mut self, traffic: PeerTraffic) {
        self.traffic.retain(|known| known.peer != traffic.peer);
        self.traffic.push(traffic);
        self.events.traffic(traffic);
    }

    fn poll(&mut self, global_step: u64, totals: &dyn Fn() -> GradientTotals) -> io::Result<()> {
        if self.metrics.is_some() {
            self.publish(global_step, &totals());
        }
        self.events.poll(global_step, totals)
    }

    fn trace(&mut self, event: TraceEvent<'_>) -> io::Result<()> {
        self.events.trace(event)
    }

    fn resources(&self) -> Option<ResourceUse> {
        self.events.resources()
    }

    fn finish(&mut self, staleness: &StalenessCounts) -> io::Result<()> {
        self.events.finish(staleness)
    }
}
