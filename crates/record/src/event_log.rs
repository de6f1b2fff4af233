//! The event log of a worker or an evaluator: curves of its training, its phases and its
//! resources, in the task's own folder.
//!
//! The log is bounded: see `byte_budget.rs`. A failure to write costs the log, not the run.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paceline_model::OpNode;
use paceline_observe::trace::Track;
use paceline_observe::{
    Recorder, ResourceUse, RunPosition, RunStart, StepRecord, TensorRecord, TestRecord, TraceEvent,
};

use crate::error::RunFileError;
use crate::events::{EventWriter, HParam, SessionStatus};
use crate::loss_curve::LossCurve;
use crate::names::tags;
use crate::phase_curves::{PhaseCurves, WorkerProgress};
use crate::resource_curves::{ResourceCurves, SampleSpacing};
use crate::table_curves::TableCurves;
use crate::telemetry::{Notice, Telemetry};
use crate::tensor_curves::TensorCurves;
use crate::test_curves::TestCurves;
use crate::timeline::TaskTrace;

/// The results in TensorBoard's table of hyper-parameters, in the order of its columns.
const METRICS: [&str; 6] = [
    tags::TEST_ACCURACY,
    tags::TEST_LOSS,
    tags::TEST_AUC,
    tags::TEST_PRECISION,
    tags::TRAIN_LOSS,
    tags::STEPS_PER_SECOND,
];
/// How often the log checks whether the disk has room.
const ROOM_INTERVAL: Duration = Duration::from_secs(1);

/// What an [`EventLog`] records.
#[derive(Clone, Debug)]
pub struct EventLogConfig {
    /// The task's name, such as `worker:0`.
    pub task: String,
    /// The loss is recorded at the first step and then at every `loss_every`-th; without it, at
    /// every step at first and then thinned by time.
    pub loss_every: Option<u64>,
    /// How the task's resources are sampled, if at all.
    pub sample: Option<SampleSpacing>,
    /// Global steps between histograms of the tensors, if there are any.
    pub histograms_every: Option<u64>,
    /// The other tasks that this one exchanges bytes with; resource samples have their traffic.
    pub traffic_peers: Vec<String>,
    /// The other tasks that marks of this task's timeline refer to.
    pub trace_peers: Vec<String>,
    /// What is trained; recorded when a new run starts. One task of a run has it.
    pub description: Option<RunDescription>,
    /// Bytes that the log leaves free on the disk, for the model and a checkpoint.
    pub reserve_bytes: u64,
    /// Receives a warning if the log ends before the run does.
    pub notice: Notice,
}

/// What a run trains, for TensorBoard's Graphs and HParams tabs.
#[derive(Clone, Debug, Default)]
pub struct RunDescription {
    /// The model's operations.
    pub graph: Vec<OpNode>,
    /// The run's hyper-parameters.
    pub hparams: Vec<HParam>,
}

impl EventLogConfig {
    /// Thinned losses and resource samples, for a task without peers.
    pub fn new(task: impl Into<String>) -> Self {
        Self {
            task: task.into(),
            loss_every: None,
            sample: Some(SampleSpacing::DEFAULT),
            histograms_every: None,
            traffic_peers: Vec::new(),
            trace_peers: Vec::new(),
            description: None,
            reserve_bytes: 0,
            notice: Notice::default(),
        }
    }
}

/// Records a task into event files, `resources.csv` and its part of the timeline.
#[derive(Debug)]
pub struct EventLog {
    dir: PathBuf,
    config: EventLogConfig,
    telemetry: Telemetry,
    /// None once the log has ended.
    events: Option<EventWriter>,
    curves: Curves,
    /// When the log checks again whether the disk has room.
    next_look: Instant,
    /// Steps of this worker so far.
    steps: u64,
    resources: Option<ResourceCurves>,
}

/// The curves of an event file.
#[derive(Debug)]
struct Curves {
    losses: LossCurve,
    tests: TestCurves,
    phases: PhaseCurves,
    table: TableCurves,
    tensors: TensorCurves,
}

impl Curves {
    fn new(events: &mut EventWriter, config: &EventLogConfig) -> Self {
        let begun = Instant::now();
        Self {
            tests: TestCurves::new(events, begun),
            losses: LossCurve::new(events, config.loss_every, begun),
            phases: PhaseCurves::new(events, config.traffic_peers.is_empty()),
            table: TableCurves::new(events),
            tensors: TensorCurves::new(begun),
        }
    }
}

impl EventLog {
    /// Creates an event file in `dir`, the task's folder, and starts to sample resources.
    pub fn create(dir: &Path, config: EventLogConfig) -> Result<Self, RunFileError> {
        let mut events =
            EventWriter::create(dir).map_err(RunFileError::at("make an event file in", dir))?;
        let curves = Curves::new(&mut events, &config);
        let telemetry = Telemetry::new(dir, config.reserve_bytes, config.notice.clone());
        let peers = &config.traffic_peers;
        let start = |spacing| ResourceCurves::start(dir, spacing, peers, &mut events, &telemetry);
        let resources = config.sample.map(start).transpose()?;
        Ok(Self {
            dir: dir.to_owned(),
            config,
            telemetry,
            events: Some(events),
            curves,
            next_look: Instant::now(),
            steps: 0,
            resources,
        })
    }

    /// Writes the model's graph and the hyper-parameters, if this log has them.
    fn describe(&mut self) -> io::Result<()> {
        let (Some(events), Some(description)) = (&mut self.events, &self.config.description) else {
            return Ok(());
        };
        let RunDescription { graph, hparams } = description;
        events.graph(graph)?;
        events.hparams_columns(hparams, &METRICS)?;
        events.hparams_start(hparams)?;
        events.flush()
    }

    /// Voids what was recorded beyond this step.
    fn restart_at(&mut self, step: u64) -> io::Result<()> {
        self.curves.losses.discard_pending();
        self.curves.tests.discard_pending();
        let Some(events) = &mut self.events else { return Ok(()) };
        events.session_start(step)?;
        events.flush()
    }

    /// Sets the gauges of the next sample; writes the samples since the last call, and returns
    /// whether there were any.
    #[inline]
    fn write_samples(&mut self, position: &RunPosition<'_>) -> io::Result<bool> {
        let Some(resources) = &mut self.resources else { return Ok(false) };
        let gauges = resources.gauges();
        gauges.at_step(position.global_step);
        (position.traffic)(&mut |moved| {
            gauges.moved(moved.peer, moved.sent_bytes, moved.received_bytes);
        });
        if !resources.has_news() {
            return Ok(false);
        }
        match &mut self.events {
            Some(events) => resources.write(events),
            None => {
                resources.drop_news();
                Ok(false)
            }
        }
    }

    #[inline]
    fn write_step(&mut self, record: &StepRecord<'_>) -> io::Result<()> {
        self.steps += 1;
        if let Some(events) = &mut self.events {
            self.curves.losses.add(events, record.step, record.loss, record.now)?;
        }
        if !self.write_samples(&record.position)? {
            return Ok(());
        }
        let Some(events) = &mut self.events else { return Ok(()) };
        let StepRecord { clock, tested, touched, .. } = *record;
        let now = WorkerProgress { phases: clock.totals(), tested, steps: self.steps, touched };
        let RunPosition { global_step, table, .. } = record.position;
        self.curves.phases.write(events, global_step, now)?;
        self.curves.table.write(events, global_step, table())
    }

    fn write_end(&mut self, success: bool) -> io::Result<()> {
        let Some(events) = &mut self.events else { return Ok(()) };
        self.curves.losses.write_pending(events)?;
        self.curves.tests.write_pending(events)?;
        if let Some(resources) = &mut self.resources {
            resources.finish(events)?;
        }
        // The tasks of a run are one row of TensorBoard's table, not one each.
        if self.config.description.is_some() {
            let status = if success { SessionStatus::Success } else { SessionStatus::Failure };
            events.hparams_end(status)?;
        }
        events.flush()
    }

    fn write_trace(&mut self, tracks: &[&Track]) -> io::Result<()> {
        let samples = self.resources.as_ref().map(ResourceCurves::take_timeline_samples);
        let peers = self.config.trace_peers.clone();
        let samples = samples.unwrap_or_default();
        let trace = TaskTrace::new(&self.config.task, peers, tracks, &samples);
        if trace.is_empty() {
            return Ok(());
        }
        let action = "write the part of the timeline in";
        Ok(trace.write(&self.dir).map_err(RunFileError::at(action, &self.dir))?)
    }

    /// Ends the log if it could not be written or must not be.
    #[inline]
    fn check(&mut self, written: io::Result<()>) {
        if written.is_err() || self.telemetry.is_over() {
            self.end(written);
        }
    }

    #[cold]
    fn end(&mut self, written: io::Result<()>) {
        let failed = written.is_err();
        self.telemetry.check("write the events in", written);
        let Some(mut events) = self.events.take() else { return };
        // What the buffer still has is little, unless it is what could not be written.
        if failed || events.flush().is_err() {
            events.discard();
        }
    }

    /// Ends the log if the disk has no more room than the model needs.
    #[inline]
    fn look_for_room(&mut self, now: Instant) {
        if now >= self.next_look && self.events.is_some() {
            self.next_look = now + ROOM_INTERVAL;
            self.telemetry.has_room();
            self.check(Ok(()));
        }
    }
}

impl Recorder for EventLog {
    fn start(&mut self, start: RunStart) -> io::Result<()> {
        self.look_for_room(Instant::now());
        let written = match start {
            RunStart::New => self.describe(),
            RunStart::Joined => Ok(()),
            RunStart::Resumed { step } | RunStart::Rewound { step } => self.restart_at(step),
        };
        self.check(written);
        // A rewind does not start the measurement of resources anew.
        if !matches!(start, RunStart::Rewound { .. }) {
            self.resources.iter().for_each(ResourceCurves::begin);
        }
        Ok(())
    }

    fn step(&mut self, record: &StepRecord<'_>) -> io::Result<()> {
        self.look_for_room(record.now);
        let written = self.write_step(record);
        self.check(written);
        Ok(())
    }

    fn tensors_every(&self) -> Option<u64> {
        self.config.histograms_every
    }

    fn tensors(&mut self, record: &TensorRecord<'_>) -> io::Result<()> {
        let Some(events) = &mut self.events else { return Ok(()) };
        let written = self.curves.tensors.add(events, record, Instant::now());
        self.check(written);
        Ok(())
    }

    fn poll(&mut self, position: &RunPosition<'_>) -> io::Result<()> {
        let written = self.write_samples(position);
        self.check(written.map(drop));
        Ok(())
    }

    fn test(&mut self, record: &TestRecord<'_>) -> io::Result<()> {
        let now = Instant::now();
        self.look_for_room(now);
        let Some(events) = &mut self.events else { return Ok(()) };
        let written = self.curves.tests.add(events, record, now);
        self.check(written);
        Ok(())
    }

    fn trace(&mut self, event: TraceEvent<'_>) -> io::Result<()> {
        match event {
            TraceEvent::Started | TraceEvent::Stopped => {
                self.resources.iter().for_each(ResourceCurves::mark_timeline);
                Ok(())
            }
            TraceEvent::Complete(tracks) => self.write_trace(tracks),
        }
    }

    fn resources(&self) -> Option<ResourceUse> {
        self.resources.as_ref().map(ResourceCurves::usage)
    }

    fn finish(&mut self, success: bool) -> io::Result<()> {
        let written = self.write_end(success);
        self.check(written);
        Ok(())
    }
}
