//! The event log of a server: curves of its resources and of the workers it sees, and a histogram
//! of staleness, in the server's own folder.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use paceline_observe::{
    GradientTotals, PeerTraffic, ResourceUse, ServerRecorder, StalenessCounts, TraceEvent,
};

use crate::error::RunFileError;
use crate::events::{EventWriter, Histogram};
use crate::names::tags;
use crate::resource_curves::ResourceCurves;
use crate::timeline::TaskTrace;
use crate::worker_curves::WorkerCurves;

/// What a [`ServerEventLog`] records.
#[derive(Clone, Debug)]
pub struct ServerLogConfig {
    /// The server's name, such as `ps:0`.
    pub task: String,
    /// How often the server's resources are sampled, if at all. Curves of the workers get their
    /// points at the same times.
    pub sample: Option<Duration>,
    /// The workers in the order of their slots.
    pub workers: Vec<String>,
}

/// Records a server into event files, `resources.csv` and its part of the timeline.
#[derive(Debug)]
pub struct ServerEventLog {
    dir: PathBuf,
    config: ServerLogConfig,
    events: EventWriter,
    resources: Option<ResourceCurves>,
    workers: WorkerCurves,
}

impl ServerEventLog {
    /// Creates an event file in `dir`, the server's folder, and starts to sample resources.
    pub fn create(dir: &Path, config: ServerLogConfig) -> Result<Self, RunFileError> {
        let mut events =
            EventWriter::create(dir).map_err(RunFileError::at("make an event file in", dir))?;
        let start = |every| ResourceCurves::start(dir, every, &config.workers, &mut events);
        let resources = config.sample.map(start).transpose()?;
        let workers = WorkerCurves::default();
        Ok(Self { dir: dir.to_owned(), config, events, resources, workers })
    }

    fn write_end(&mut self, staleness: &StalenessCounts) -> io::Result<()> {
        let StalenessCounts { applied, edges, counts } = staleness;
        let histogram = Histogram::with_counts(edges.clone(), counts.clone());
        if let Some(resources) = self.resources.take() {
            resources.finish(&mut self.events)?;
        }
        self.events.histogram(tags::STALENESS_HISTOGRAM, *applied, &histogram)?;
        self.events.flush()
    }
}

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
        let Some(resources) = &self.resources else { return Ok(()) };
        resources.gauges().at_step(global_step);
        if !resources.has_news() {
            return Ok(());
        }
        resources.write(&mut self.events)?;
        self.workers.write(&mut self.events, global_step, totals())
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
        written
            .map_err(|error| RunFileError::at("write the event file in", &self.dir)(error).into())
    }
}
