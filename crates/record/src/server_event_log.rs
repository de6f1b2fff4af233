//! The event log of a server: curves of its resources and of the workers it sees, and a histogram
//! of staleness, in the server's own folder.

use std::io;
use std::path::{Path, PathBuf};

use paceline_observe::{
    GradientTotals, PeerTraffic, ResourceUse, ServerRecorder, StalenessCounts, TraceEvent,
};

use crate::error::RunFileError;
use crate::events::{EventWriter, Histogram};
use crate::names::tags;
use crate::resource_curves::{ResourceCurves, SampleSpacing};
use crate::table_curves::TableCurves;
use crate::telemetry::{Notice, Telemetry};
use crate::timeline::TaskTrace;
use crate::worker_curves::WorkerCurves;

/// What a [`ServerEventLog`] records.
#[derive(Clone, Debug)]
pub struct ServerLogConfig {
    /// The server's name, such as `ps:0`.
    pub task: String,
    /// How the server's resources are sampled, if at all. Curves of the workers get their points
    /// at the same times.
    pub sample: Option<SampleSpacing>,
    /// The workers in the order of their slots.
    pub workers: Vec<String>,
    /// Bytes that the log leaves free on the disk, for the model and a checkpoint.
    pub reserve_bytes: u64,
    /// Receives a warning if the log ends before the run does.
    pub notice: Notice,
}

impl ServerLogConfig {
    /// Thinned resource samples, for a server without known workers.
    pub fn new(task: impl Into<String>) -> Self {
        Self {
            task: task.into(),
            sample: Some(SampleSpacing::DEFAULT),
            workers: Vec::new(),
            reserve_bytes: 0,
            notice: Notice::default(),
        }
    }
}

/// Records a server into event files, `resources.csv` and its part of the timeline.
#[derive(Debug)]
pub struct ServerEventLog {
    dir: PathBuf,
    config: ServerLogConfig,
    telemetry: Telemetry,
    /// None once the log has ended.
    events: Option<EventWriter>,
    resources: Option<ResourceCurves>,
    workers: WorkerCurves,
    table: TableCurves,
}

impl ServerEventLog {
    /// Creates an event file in `dir`, the server's folder, and starts to sample resources.
    pub fn create(dir: &Path, config: ServerLogConfig) -> Result<Self, RunFileError> {
        let mut events =
            EventWriter::create(dir).map_err(RunFileError::at("make an event file in", dir))?;
        let telemetry = Telemetry::new(dir, config.reserve_bytes, config.notice.clone());
        let workers = &config.workers;
        let start = |spacing| ResourceCurves::start(dir, spacing, workers, &mut events, &telemetry);
        let resources = config.sample.map(start).transpose()?;
        let table = TableCurves::new(&mut events);
        let (events, workers) = (Some(events), WorkerCurves::default());
        Ok(Self { dir: dir.to_owned(), config, telemetry, events, resources, workers, table })
    }

    fn write_samples(&mut self, global_step: u64, totals: TotalsReader<'_>) -> io::Result<()> {
        let Some(resources) = &mut self.resources else { return Ok(()) };
        resources.gauges().at_step(global_step);
        let Some(events) = &mut self.events else {
            resources.drop_news();
            return Ok(());
        };
        if !resources.has_news() || !resources.write(events)? {
            return Ok(());
        }
        let totals = totals();
        self.table.write(events, global_step, totals.table)?;
        self.workers.write(events, global_step, totals)
    }

    fn write_end(&mut self, staleness: &StalenessCounts) -> io::Result<()> {
        let Some(events) = &mut self.events else { return Ok(()) };
        let StalenessCounts { applied, edges, counts } = staleness;
        let histogram = Histogram::with_counts(edges.clone(), counts.clone());
        if let Some(resources) = &mut self.resources {
            resources.finish(events)?;
        }
        events.histogram(tags::STALENESS_HISTOGRAM, *applied, &histogram)?;
        events.flush()
    }

    /// Ends the log if it could not be written or must not be.
    fn check(&mut self, written: io::Result<()>) {
        let failed = written.is_err();
        self.telemetry.check("write the events in", written);
        if !self.telemetry.is_over() {
            return;
        }
        let Some(mut events) = self.events.take() else { return };
        if failed || events.flush().is_err() {
            events.discard();
        }
    }
}

/// Computes the totals of a server's gradients.
type TotalsReader<'a> = &'a dyn Fn() -> GradientTotals;

impl ServerRecorder for ServerEventLog {
    fn start(&mut self) {
        self.resources.iter().for_each(ResourceCurves::begin);
    }

    fn traffic(&mut self, traffic: PeerTraffic) {
        if let Some(resources) = &self.resources {
            let PeerTraffic { peer, sent_bytes, received_bytes } = traffic;
            resources.gauges().moved(peer, sent_bytes, received_bytes);
        }
    }

    fn poll(&mut self, global_step: u64, totals: &dyn Fn() -> GradientTotals) -> io::Result<()> {
        let written = self.write_samples(global_step, totals);
        self.check(written);
        Ok(())
    }

    fn trace(&mut self, event: TraceEvent<'_>) -> io::Result<()> {
        let TraceEvent::Complete(tracks) = event else {
            self.resources.iter().for_each(ResourceCurves::mark_timeline);
            return Ok(());
        };
        let samples = self.resources.as_ref().map(ResourceCurves::take_timeline_samples);
        let workers = self.config.workers.clone();
        let samples = samples.unwrap_or_default();
        let trace = TaskTrace::new(&self.config.task, workers, tracks, &samples);
        if trace.is_empty() { Ok(()) } else { trace.write(&self.dir) }
    }

    fn resources(&self) -> Option<ResourceUse> {
        self.resources.as_ref().map(ResourceCurves::usage)
    }

    fn finish(&mut self, staleness: &StalenessCounts) -> io::Result<()> {
        let written = self.write_end(staleness);
        self.check(written);
        Ok(())
    }
}
