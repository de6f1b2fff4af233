//! How many examples a step of a slot and a global step consist of.

use crate::mode_kind::ModeKind;

/// Examples that all workers together train on in one global step.
///
/// In mode `sync` a global step combines the gradients of `quorum` slots, or of all `slots`
/// without a quorum; in mode `mirrored` those of all slots. In every other mode each gradient is a
/// global step of its own. `slots` counts the places in the plan, not the processes that fill
/// them: an elastic run has more slots than workers.
///
/// ```
/// use paceline_observe::{ModeKind, examples_per_step};
///
/// assert_eq!(examples_per_step(ModeKind::Async, 10, 4, None), 10);
/// assert_eq!(examples_per_step(ModeKind::Sync, 10, 4, None), 40);
/// assert_eq!(examples_per_step(ModeKind::Sync, 10, 4, Some(3)), 30);
/// assert_eq!(examples_per_step(ModeKind::Mirrored, 10, 4, None), 40);
/// ```
pub fn examples_per_step(
    mode: ModeKind,
    batch: usize,
    slots: usize,
    quorum: Option<usize>,
) -> usize {
    match mode {
        ModeKind::Sync => batch * quorum.unwrap_or(slots),
        ModeKind::Mirrored => batch * slots,
        ModeKind::Single | ModeKind::Async | ModeKind::Bounded => batch,
    }
}

/// The size of batches as a job sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSize {
    /// Examples in a step of one slot.
    PerSlot(usize),
    /// Examples in a step of all slots, which share them equally.
    Global(usize),
}

/// What a job says about its slots and batches.
///
/// ```
/// use paceline_observe::{BatchSize, JobBatches, ModeKind};
///
/// let size = BatchSize::Global(160);
/// let job = JobBatches { mode: ModeKind::Sync, workers: 2, slots: Some(8), size, quorum: None };
/// assert_eq!((job.slots(), job.per_slot(), job.examples_per_step()), (8, 20, 160));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobBatches {
    /// How workers share the parameters.
    pub mode: ModeKind,
    /// The number of workers.
    pub workers: usize,
    /// The number of slots, if the job sets it.
    pub slots: Option<usize>,
    /// The size of batches.
    pub size: BatchSize,
    /// Gradients that complete a step of mode `sync`; all slots if `None`.
    pub quorum: Option<usize>,
}

impl JobBatches {
    /// The slots of the plan: one for each worker unless the job sets another number and its mode
    /// has slots. Mode `single` has one worker.
    pub fn slots(&self) -> usize {
        match self.mode {
            ModeKind::Single => 1,
            mode if mode.has_servers() => self.slots.unwrap_or(self.workers),
            _ => self.workers,
        }
    }

    /// Examples in a step of one slot, at least 1.
    pub fn per_slot(&self) -> usize {
        match self.size {
            BatchSize::PerSlot(examples) => examples,
            BatchSize::Global(examples) => (examples / self.slots().max(1)).max(1),
        }
    }

    /// Examples that all workers together train on in one global step.
    pub fn examples_per_step(&self) -> usize {
        examples_per_step(self.mode, self.per_slot(), self.slots(), self.quorum)
    }
}
