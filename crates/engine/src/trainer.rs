//! What trains: a loop over steps, for whichever model and link.

use paceline_model::Layout;

use crate::coordinator::Coordinator;
use crate::error::Interruption;
use crate::step_recorder::{StepRecorder, WorkDone};

/// Trains a model over a link. Owns everything except the parameters.
pub(crate) trait Trainer<L> {
    /// Trains until the plan ends, the run stops, or the link must give its slot back.
    fn run(
        &mut self,
        link: &mut L,
        coordinator: Option<&mut Coordinator<'_>>,
    ) -> Result<WorkDone, Interruption>;

    /// Its account.
    fn account(&mut self) -> &mut StepRecorder;

    /// Names and shapes of the parameters.
    fn layout(&self) -> &Layout;
}
