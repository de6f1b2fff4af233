//! The event log of a worker or an evaluator: curves of its training, its phases and its
//! resources, in the task's own folder.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use paceline_model::OpNode;
use paceline_observe::trace::Track;
use paceline_observe::{
    Recorder, ResourceUse, RunPosition, RunStart, StepRecord, TestRecord, TraceEvent,
};

use crate::error::RunFileError;
use crate::events::{EventWriter, HParam, SessionStatus, Tag};
use crate::names::tags;
use crate::phase_curves::{PhaseCurves, WorkerProgress};
use crate::resource_curves::ResourceCurves;
use crate::timeline::TaskTrace;

/// What an [`EventLog`] records.
#[derive(Clone, Debug)]
pub struct EventLogConfig {
    /// The task's name, such as `worker:0`.
    pub task: String,
    /// The loss is recorded at the first step and then at every `loss_every`-th.
    pub loss_every: u64,
    /// How often the task's resources are sampled, if at all.
    pub sample: Option<Duration>,
    /// The other tasks that this one exchanges bytes with; resource samples have their traffic.
    pub traffic_peers: Vec<String>,
    /// The other tasks that marks of this task's timeline refer to.
    pub trace_peers: Vec<String>,
    /// What is trained; recorded when a new run starts. One task of a run has it.
    pub description: Option<RunDescription>,
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
    /// Every loss and a resource sample each second, for a task without peers.
    pub fn new(task: impl Into<String>) -> Self {
        Self {
            task: task.into(),
            loss_every: 1,
            sample: Some(Duration::from_secs(1)),
            traffic_peers: Vec::new(),
            trace_peers: Vec::new(),
            description: None,
        }
    }
}

/// Records a task into event files, `resources.csv` and its part of the timeline.
#[derive(Debug)]
pub struct EventLog {
    dir: PathBuf,
    config: EventLogConfig,
    events: EventWriter,
    tags: RunTags,
    /// Steps of this worker so far.
    steps: u64,
    resources: Option<ResourceCurves>,
    phases: PhaseCurves,
}

/// The tags of a task's losses and tests.
#[derive(Debug)]
struct RunTags {
    train_loss: Tag,
    test_loss: Tag,
    test_accuracy: Tag,
    test_auc: Tag,
    test_precision: Tag,
    steps_per_second: Tag,
}

impl RunTags {
    fn new(events: &mut EventWriter) -> Self {
        Self {
            train_loss: events.tag(tags::TRAIN_LOSS),
            test_loss: events.tag(tags::TEST_LOSS),
            test_accuracy: events.tag(tags::TEST_ACCURACY),
            test_auc: events.tag(tags::TEST_AUC),
            test_precision: events.tag(tags::TEST_PRECISION),
            steps_per_second: events.tag(tags::STEPS_PER_SECOND),
        }
    }
}

impl EventLog {
    /// Creates an event file in `dir`, the task's folder, and starts to sample resources.
    pub fn create(dir: &Path, config: EventLogConfig) -> Result<Self, RunFileError> {
        let mut events =
            EventWriter::create(dir).map_err(RunFileError::at("make an event file in", dir))?;
        let tags = RunTags::new(&mut events);
        let start = |every| ResourceCurves::start(dir, every, &config.traffic_peers, &mut events);
        let resources = config.sample.map(start).transpose()?;
        let phases = PhaseCurves::new(&mut events);
        Ok(Self { dir: dir.to_owned(), config, events, tags, steps: 0, resources, phases })
    }

    /// Writes the model's graph and the hyper-parameters, if this log has them.
    fn describe(&mut self) -> io::Result<()> {
        let Some(RunDescription { graph, hparams }) = &self.config.description else {
            return Ok(());
        };
        self.events.graph(graph)?;
        self.events.hparams_start(hparams)?;
        self.events.flush()
    }

    /// Voids what was recorded beyond this step.
    fn restart_at(&mut self, step: u64) -> io::Result<()> {
        self.events.session_start(step)?;
        self.events.flush()
    }

    /// Sets the gauges of the next sample; writes the samples since the last call, if there are
    /// any, and says whether there were.
    #[inline]
    fn write_samples(&mut self, position: &RunPosition<'_>) -> io::Result<bool> {
        let Some(resources) = &self.resources else { return Ok(false) };
        let gauges = resources.gauges();
        gauges.at_step(position.global_step);
        (position.traffic)(&mut |moved| {
            gauges.moved(moved.peer, moved.sent_bytes, moved.received_bytes);
        });
        if !resources.has_news() {
            return Ok(false);
        }
        resources.write(&mut self.events)?;
        Ok(true)
    }

    #[inline]
    fn write_step(&mut self, record: &StepRecord<'_>) -> io::Result<()> {
        let is_due = self.steps.is_multiple_of(self.config.loss_every);
        self.steps += 1;
        if is_due {
            self.events.scalar(&self.tags.train_loss, record.step, record.loss)?;
        }
        if !self.write_samples(&record.position)? {
            return Ok(());
        }
        let StepRecord { clock, tested, .. } = record;
        let now = WorkerProgress { phases: clock.totals(), tested: *tested, steps: self.steps };
        self.phases.write(&mut self.events, record.position.global_step, now)
    }

    fn write_test(&mut self, record: &TestRecord<'_>) -> io::Result<()> {
        let TestRecord { step, score, steps_per_second } = *record;
        let figures = [
            (&self.tags.test_loss, Some(score.loss)),
            (&self.tags.test_accuracy, Some(score.accuracy)),
            (&self.tags.test_auc, score.auc),
            (&self.tags.test_precision, score.precision),
            (&self.tags.steps_per_second, Some(steps_per_second)),
        ];
        for (tag, figure) in figures {
            if let Some(figure) = figure {
                self.events.scalar(tag, step, figure as f32)?;
            }
        }
        Ok(())
    }

    fn write_end(&mut self, success: bool) -> io::Result<()> {
        if let Some(resources) = self.resources.take() {
            resources.finish(&mut self.events)?;
        }
        let status = if success { SessionStatus::Success } else { SessionStatus::Failure };
        self.events.hparams_end(status)?;
        self.events.flush()
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

    /// Adds the file to an error.
    #[inline]
    fn check<T>(&self, written: io::Result<T>) -> io::Result<T> {
        written
            .map_err(|error| RunFileError::at("write the event file in", &self.dir)(error).into())
    }
}

impl Recorder for EventLog {
    fn start(&mut self, start: RunStart) -> io::Result<()> {
        let written = match start {
            RunStart::New => self.describe(),
            RunStart::Joined => Ok(()),
            RunStart::Resumed { step } | RunStart::Rewound { step } => self.restart_at(step),
        };
        self.check(written)?;
        // A rewind does not start the measurement of resources anew.
        if !matches!(start, RunStart::Rewound { .. }) {
            self.resources.iter().for_each(ResourceCurves::begin);
        }
        Ok(())
    }

    #[inline]
    fn step(&mut self, record: &StepRecord<'_>) -> io::Result<()> {
        let written = self.write_step(record);
        self.check(written)
    }

    fn poll(&mut self, position: &RunPosition<'_>) -> io::Result<()> {
        let written = self.write_samples(position);
        self.check(written).map(drop)
    }

    fn test(&mut self, record: &TestRecord<'_>) -> io::Result<()> {
        let written = self.write_test(record);
        self.check(written)
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
        self.check(written)
    }
}
