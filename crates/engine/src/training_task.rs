//! A task that trains: what it trains, its place in the run, and what it starts from.

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use paceline_data::BatchPlan;
use paceline_model::Layout;
use paceline_observe::trace::Tracer;
use paceline_observe::{Phase, RunStart, TaskSummary};

use crate::checkpoint::{CheckpointDir, CheckpointSpec, CheckpointWriter, PlanOrigin, ResumePoint};
use crate::checkpoint_spec::{PlanPosition, ShardPlace, checkpoint_spec};
use crate::context::{LongWork, NoteLevel, TaskContext};
use crate::error::TrainError;
use crate::link::Link;
use crate::settings::{Mode, TrainSettings};
use crate::step_recorder::{StepRecorder, WorkDone};
use crate::task_place::TaskPlace;
use crate::test_watch::TestWatch;
use crate::workload::Workload;

/// How long a coordinator that restarts after the summary was written looks for servers that do not
/// know the run is over.
const FAREWELL: Duration = Duration::from_secs(5);

/// How many threads a training loop computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// This many.
    Fixed(usize),
    /// An equal share of the machine's cores for each worker process on it.
    Share {
        /// Worker processes on this machine.
        processes: usize,
    },
}

impl Threads {
    /// Threads for each of `loops` training loops in this process.
    pub fn per_loop(self, loops: usize) -> usize {
        match self {
            Threads::Fixed(threads) => threads,
            Threads::Share { processes } => {
                let cores = thread::available_parallelism().map_or(1, usize::from);
                (cores / (processes * loops).max(1)).max(1)
            }
        }
    }
}

/// A task that trains.
pub struct TrainingTask<'a> {
    /// The run's name.
    pub run_name: &'a str,
    /// What all tasks of the run agree on.
    pub settings: &'a TrainSettings,
    /// The model and the data.
    pub workload: &'a Workload,
    /// The task's place in the run.
    pub place: &'a TaskPlace,
    /// Its log, recorders and requests to stop.
    pub context: Arc<dyn TaskContext>,
    /// Threads of a training loop.
    pub threads: Threads,
    /// Threads of a test during which nothing else runs.
    pub test_threads: usize,
    /// Where checkpoints are kept, if the run takes any.
    pub checkpoints: Option<&'a CheckpointDir>,
    /// The checkpoint the run resumes from.
    pub from: Option<&'a ResumePoint>,
    /// Where the batch plan starts to count.
    pub origin: PlanOrigin,
    /// When this process started.
    pub started: Instant,
}

impl TrainingTask<'_> {
    pub(crate) fn note(&self, level: NoteLevel, text: &str) {
        self.context.note(level, text);
    }

    /// Whether this process leads the run: it starts with slot 0.
    pub(crate) fn is_coordinator(&self) -> bool {
        self.place.slot == Some(0)
    }

    /// The batch plan of all slots.
    pub(crate) fn batches(&self) -> BatchPlan {
        self.workload.batches(self.settings, self.place.slots, self.origin)
    }

    /// The global step at which the batch plan ends.
    pub(crate) fn plan_steps(&self) -> u64 {
        let layout = self.settings.step_layout(self.place.slots);
        let steps = self.batches().steps();
        if layout.common_step {
            return steps;
        }
        let left = steps.saturating_sub(self.origin.step);
        left.saturating_mul(layout.slots as u64).saturating_add(self.origin.step)
    }

    /// The global step the run started with: 0 unless it is resumed.
    pub(crate) fn started_at(&self) -> u64 {
        self.from.map_or(0, ResumePoint::step)
    }

    /// Whether this process came too late: the run is over, and no other task is left. If the run
    /// was resumed, the summary proves nothing, because it may be that of an earlier session.
    pub(crate) fn is_late(&self) -> bool {
        let has_waited = !self.is_coordinator() || self.started.elapsed() >= FAREWELL;
        self.from.is_none() && has_waited && self.context.is_run_over()
    }

    /// The value found, or `None` if the run ended without this process.
    pub(crate) fn unless_late<T>(
        &self,
        found: Result<T, TrainError>,
    ) -> Result<Option<T>, TrainError> {
        match found {
            Err(TrainError::Lost(_) | TrainError::Interrupted(_)) if self.is_late() => {
                self.note(NoteLevel::Warning, "the run is over");
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Watches the task's tests.
    pub(crate) fn test_watch(&self) -> TestWatch {
        TestWatch::new(self.context.clone())
    }

    /// Records the timeline, if the run has one.
    pub(crate) fn tracer(&self) -> Option<Arc<Tracer>> {
        self.settings.trace.map(Tracer::new)
    }

    /// Writes the checkpoints of one shard, if the run takes any.
    pub(crate) fn checkpoint_writer(
        &self,
        layout: &Layout,
        shard: ShardPlace<'_>,
        range: Range<usize>,
    ) -> Result<Option<CheckpointWriter>, TrainError> {
        let Some(dir) = self.checkpoints.filter(|_| self.settings.checkpoint.is_some()) else {
            return Ok(None);
        };
        let plan = PlanPosition { slots: self.place.slots, origin: self.origin };
        let spec = checkpoint_spec(dir, self.settings, layout, plan, shard);
        let spec = CheckpointSpec { shard: range, ..spec };
        start_writer(spec, self.context.clone()).map(Some)
    }

    /// How the loop of `slot` starts. A process that takes over a slot finds it further than the
    /// run began.
    pub(crate) fn run_start(&self, slot: usize, link: &impl Link) -> RunStart {
        let begun = self.from.map_or(0, |from| from.slot_steps(self.place.slots)[slot]);
        match self.from {
            _ if link.next_step() != begun || link.already_left() => RunStart::Joined,
            Some(from) => RunStart::Resumed { step: from.step() },
            None => RunStart::New,
        }
    }

    /// What a loop did, as it goes into the summary.
    pub(crate) fn task_summary(
        &self,
        step_recorder: &StepRecorder,
        work: &WorkDone,
        link: &impl Link,
    ) -> TaskSummary {
        let traffic = link.traffic();
        let run_delay = step_recorder.run_delay.elapsed();
        let on_core = step_recorder.run_delay.on_core();
        let totals = step_recorder.clock.totals();
        let compute_delay = step_recorder.compute_delay.part_of(totals.of(Phase::Compute));
        let mut summary = TaskSummary {
            steps: work.steps,
            dropped: work.dropped,
            lost: work.lost,
            examples: work.examples,
            run_delay_seconds: run_delay.map(|delay| delay.as_secs_f64()),
            compute_delay_seconds: (!compute_delay.is_zero())
                .then_some(compute_delay.as_secs_f64()),
            loop_cpu_seconds: on_core.map(|time| time.as_secs_f64()),
            resources: step_recorder.recorder.resources(),
            sent_bytes: traffic.sent,
            received_bytes: traffic.received,
            ..TaskSummary::of(&self.place.name, &totals)
        };
        summary.set_sparse(work.touched, link.table_use());
        summary.set_tested(step_recorder.testing.as_secs_f64());
        if self.settings.mode == Mode::Single {
            summary.fold_into_compute();
        }
        summary
    }

    /// Hands the loop's timeline to its recorder; whether there was one. A timeline that cannot be
    /// written costs the timeline, not the run.
    pub(crate) fn finish_timeline(&self, step_recorder: &mut StepRecorder) -> bool {
        step_recorder.finish_timeline().unwrap_or_else(|why| {
            self.note(NoteLevel::Warning, &why);
            false
        })
    }
}

/// Starts a checkpoint writer whose messages go to the task's context.
pub(crate) fn start_writer(
    spec: CheckpointSpec,
    context: Arc<dyn TaskContext>,
) -> Result<CheckpointWriter, TrainError> {
    let waits = context.clone();
    let report = move |written: Result<&str, &str>| match written {
        Ok(text) => context.note(NoteLevel::Info, text),
        Err(text) => context.note(NoteLevel::Warning, text),
    };
    let wait = move |is_over| {
        waits.working(LongWork::SaveCheckpoint { done: u64::from(is_over), total: 1 })
    };
    CheckpointWriter::start(spec, Arc::new(report))
        .map(|writer| writer.on_wait(Arc::new(wait)))
        .map_err(TrainError::while_doing("cannot start the thread that writes checkpoints"))
}

/// A report as it travels.
pub(crate) fn encode_report(report: &TaskSummary) -> Vec<u8> {
    serde_json::to_vec(report).unwrap_or_default()
}
