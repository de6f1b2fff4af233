//! How a run steps through its data.

/// How a run steps through its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLayout {
    /// Slots of the batch plan.
    pub slots: usize,
    /// Examples per slot and step.
    pub batch: usize,
    /// Whether a step of the plan is one update. If not, each slot counts its own steps.
    pub common_step: bool,
}
