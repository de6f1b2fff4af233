//! What trains: a loop over steps, for whichever model and link.

use paceline_model::Layout;
use paceline_net::LinkOutcome;

use crate::coordinator::Coordinator;
use crate::error::TrainError;
use crate::step_recorder::{StepRecorder, WorkDone};

/// Trains a model over a link. Owns everything except the parameters.
pub(crate) trait Trainer<L> {
    /// Trains until the plan ends, the run stops, the link must give its slot back, or the run
    /// returns to a checkpoint. Makes no step if an earlier process has already left for the slot.
    fn run(
        &mut self,
        link: &mut L,
        coordinator: Option<&mut Coordinator<'_>>,
    ) -> Result<LinkOutcome<WorkDone>, TrainError>;

    /// What records its steps.
    fn step_recorder(&mut self) -> &mut StepRecorder;

    /// Names and shapes of the parameters.
    fn layout(&self) -> &Layout;
}
