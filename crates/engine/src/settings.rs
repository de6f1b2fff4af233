//! What every task of a run agrees on: how it trains, shares, tests and stops.

use std::sync::Arc;
use std::time::Duration;

use paceline_checkpoint::{PlannedEnd, StartModel, StepLayout};
use paceline_exchange::{FactorChoice, JobIdentity, WireFormat};
use paceline_model::{EntryPolicy, OptimizerSpec};
use paceline_observe::trace::TraceWindow;
use paceline_observe::{BestSettings, ModeKind, examples_per_step};

/// The settings of a run, which are equal in all its tasks.
#[derive(Clone, Debug)]
pub struct TrainSettings {
    /// Every random choice is drawn from this.
    pub seed: u64,
    /// Examples per slot and step.
    pub batch: usize,
    /// Turns gradients into updates.
    pub optimizer: OptimizerSpec,
    /// The trained model whose parameters training starts from, if not from the model's own.
    pub start: Option<Arc<StartModel>>,
    /// What the loss and gradient of an example are multiplied by, for each class; empty for 1.
    pub class_weights: Arc<[f32]>,
    /// Which features of a sparse model with several numbers for each have an entry.
    pub entries: EntryPolicy,
    /// The most memory of a sparse model's table in each task, in bytes.
    pub table_memory: Option<u64>,
    /// How workers share the parameters.
    pub mode: Mode,
    /// How gradients and parameters of a dense model travel.
    pub wire: WireFormat,
    /// When training ends.
    pub stop: Stop,
    /// Which test is the best one, and whether its parameters are kept.
    pub best: BestSettings,
    /// How often the model is tested.
    pub evaluate: EvaluateSettings,
    /// How often a checkpoint is taken; none if `None`.
    pub checkpoint: Option<CheckpointSettings>,
    /// What happens when the loss is far above where it started.
    pub on_divergence: OnDivergence,
    /// What happens when a worker is lost.
    pub on_worker_loss: OnWorkerLoss,
    /// Whether workers wait for a lost server, which returns with a checkpoint.
    pub waits_for_servers: bool,
    /// How long tasks wait for each other.
    pub timeouts: Timeouts,
    /// In `mirrored`: which gradients travel as factors.
    pub factors: FactorChoice,
    /// The rate of each worker's link in bits per second, if it is known.
    pub link_bits_per_s: Option<u64>,
    /// Cores of each worker, if they are known.
    pub worker_cores: Option<f64>,
    /// The steps to record a timeline of; none if `None`.
    pub trace: Option<TraceWindow>,
    /// Identifies the job; tasks refuse each other when it differs.
    pub job: JobIdentity,
    /// What tests and benches change about this task: the only setting in which tasks may differ.
    pub test_hooks: TestHooks,
}

/// What tests and benches change about a task. The default changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TestHooks {
    /// Slows one or all slots down.
    pub slowdown: Option<Slowdown>,
    /// Measures no phases, so that the cost of measuring them can be measured.
    pub omits_phases: bool,
}

/// Slows slots down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown {
    /// The slot; all if `None`.
    pub slot: Option<usize>,
    /// How many times longer a gradient takes.
    pub factor: f64,
}

impl TestHooks {
    /// How many times longer a gradient of this slot takes; 1.0 is full speed.
    pub(crate) fn slowdown(self, slot: usize) -> f64 {
        let applies = |slowdown: &Slowdown| slowdown.slot.is_none_or(|slowed| slowed == slot);
        self.slowdown.filter(applies).map_or(1.0, |slowdown| slowdown.factor)
    }
}

/// How workers share the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One worker holds the parameters.
    Single,
    /// A server applies each gradient when it arrives.
    Async,
    /// Servers apply the mean of one gradient per slot.
    Sync {
        /// Gradients that complete a step; all slots if `None`. Further slots are backups.
        quorum: Option<usize>,
    },
    /// Like `Async`, but no worker runs far ahead of the slowest.
    Bounded {
        /// How many steps a worker may be ahead.
        staleness: u64,
    },
    /// Every worker holds a replica, and gradients are all-reduced.
    Mirrored,
}

impl Mode {
    /// Synchronous steps that wait for a gradient of every slot.
    pub const SYNC: Mode = Mode::Sync { quorum: None };

    /// The mode's name in job files and summaries.
    pub fn name(self) -> &'static str {
        self.kind().name()
    }

    /// The mode without its settings.
    pub fn kind(self) -> ModeKind {
        match self {
            Mode::Single => ModeKind::Single,
            Mode::Async => ModeKind::Async,
            Mode::Sync { .. } => ModeKind::Sync,
            Mode::Bounded { .. } => ModeKind::Bounded,
            Mode::Mirrored => ModeKind::Mirrored,
        }
    }

    /// Whether all slots make every step together.
    pub fn is_synchronous(self) -> bool {
        matches!(self, Mode::Sync { .. } | Mode::Mirrored)
    }
}

/// When training ends: at the first condition that is met.
///
/// ```
/// use paceline_engine::Stop;
///
/// let stop = Stop::epochs(3).or(Stop::test_loss(0.2));
/// assert_eq!((stop.epochs, stop.test_loss), (Some(3), Some(0.2)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stop {
    /// After this many passes over the data.
    pub epochs: Option<u64>,
    /// After this many global steps.
    pub steps: Option<u64>,
    /// After this many seconds of training.
    pub seconds: Option<f64>,
    /// When a test finds a loss of at most this.
    pub test_loss: Option<f64>,
    /// After this many tests in a row that are not better than the best one before.
    pub patience: Option<u64>,
}

impl Stop {
    /// Stops after `epochs` passes over the data.
    pub fn epochs(epochs: u64) -> Self {
        Self { epochs: Some(epochs), ..Self::default() }
    }

    /// Stops after `steps` global steps.
    pub fn steps(steps: u64) -> Self {
        Self { steps: Some(steps), ..Self::default() }
    }

    /// Stops after `seconds` of training.
    pub fn seconds(seconds: f64) -> Self {
        Self { seconds: Some(seconds), ..Self::default() }
    }

    /// Stops when a test finds a loss of at most `loss`.
    pub fn test_loss(loss: f64) -> Self {
        Self { test_loss: Some(loss), ..Self::default() }
    }

    /// Stops after `tests` tests in a row without one that is better than all before (early
    /// stopping). [`BestSettings`] says what better means.
    pub fn patience(tests: u64) -> Self {
        Self { patience: Some(tests), ..Self::default() }
    }

    /// The end that is known before the run starts.
    pub fn planned_end(&self) -> PlannedEnd {
        PlannedEnd { steps: self.steps, epochs: self.epochs }
    }

    /// Stops at whichever condition is met first. A condition of the same kind in `other` wins.
    #[must_use]
    pub fn or(self, other: Stop) -> Self {
        Self {
            epochs: other.epochs.or(self.epochs),
            steps: other.steps.or(self.steps),
            seconds: other.seconds.or(self.seconds),
            test_loss: other.test_loss.or(self.test_loss),
            patience: other.patience.or(self.patience),
        }
    }
}

/// How often the model is tested, and on how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvaluateSettings {
    /// Global steps between tests. If `None`, tests are spaced so that they take at most a
    /// twentieth of the run's processor time; the run must then not stop by
    /// [`test_loss`](Stop::test_loss) or [`patience`](Stop::patience), or the step at which it
    /// stops depends on the machine.
    pub every: Option<u64>,
    /// Test on this many examples, from the first; on all if `None`.
    pub examples: Option<usize>,
}

/// How often a checkpoint is taken: when the first condition is met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckpointSettings {
    /// Global steps between checkpoints.
    pub every_steps: Option<u64>,
    /// Seconds between checkpoints.
    pub every_seconds: Option<f64>,
    /// How many complete checkpoints stay on disk.
    pub keep: usize,
}

impl CheckpointSettings {
    /// A checkpoint every `steps` global steps and at the end; the newest three stay.
    pub fn steps(steps: u64) -> Self {
        Self { every_steps: Some(steps), every_seconds: None, keep: 3 }
    }

    /// The first step after `step` at which a checkpoint is due; `u64::MAX` if steps do not count.
    pub(crate) fn next_step(&self, step: u64) -> u64 {
        let next = |every: u64| (step / every).saturating_add(1).saturating_mul(every);
        self.every_steps.map_or(u64::MAX, next)
    }

    /// A checkpoint every `seconds` seconds and at the end; the newest three stay.
    pub fn seconds(seconds: f64) -> Self {
        Self { every_steps: None, every_seconds: Some(seconds), keep: 3 }
    }

    /// Why a run cannot take checkpoints in this way, if it cannot.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        match *self {
            Self { every_steps: None, every_seconds: None, .. } => {
                Some("set every_steps or every_seconds")
            }
            Self { every_steps: Some(0), .. } => Some("every_steps is 0, but must be at least 1"),
            Self { every_seconds: Some(seconds), .. } if seconds.is_nan() || seconds <= 0.0 => {
                Some("every_seconds must be above 0")
            }
            Self { keep: 0, .. } => Some("keep is 0, but must be at least 1"),
            _ => None,
        }
    }
}

/// What happens when training diverges: when the loss stays at ten times its start, or at ten if it
/// started below one. A loss that is not a number ends the run in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDivergence {
    /// The run ends with an error.
    Stop,
    /// The run continues.
    Continue,
}

/// What happens when a worker is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnWorkerLoss {
    /// The run ends with an error that names the worker.
    Fail,
    /// The other workers continue without it.
    Continue,
    /// Its slot stays free for a process that takes over.
    Wait,
}

/// How long tasks wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For all tasks to arrive at the start.
    pub start: Duration,
    /// For a step to make progress.
    pub stall: Duration,
    /// For a lost task to return.
    pub rejoin: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { start: seconds(60), stall: seconds(600), rejoin: seconds(60) }
    }
}

impl TrainSettings {
    /// How the run steps through its data with this many slots.
    pub fn step_layout(&self, slots: usize) -> StepLayout {
        let common_step = match self.mode {
            Mode::Single => slots == 1,
            Mode::Sync { .. } | Mode::Mirrored => true,
            Mode::Async | Mode::Bounded { .. } => false,
        };
        StepLayout { slots, batch: self.batch, common_step }
    }

    /// Examples that all workers together train on in one global step.
    pub fn examples_per_step(&self, slots: usize) -> usize {
        let quorum = match self.mode {
            Mode::Sync { quorum } => quorum,
            _ => None,
        };
        examples_per_step(self.mode.kind(), self.batch, slots, quorum)
    }
}
