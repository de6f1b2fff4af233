//! The training loop of workers that make whole steps where the table is: `in_place.rs` and
//! `row_by_row.rs`.

use paceline_model::Layout;
use paceline_net::LinkOutcome::{self, Done, Rewound};

use super::table_link::TableLink;
use crate::coordinator::Coordinator;
use crate::error::TrainError;
use crate::link::Link;
use crate::step_recorder::{StepMade, StepRecorder, WorkDone};
use crate::trainer::Trainer;

/// A worker that makes whole steps on a table in its own process.
pub(crate) trait TableWorker<'t> {
    /// Begins to read the first batch, that of `step`.
    fn begin(&mut self, step: u64, link: &TableLink<'t>);

    /// Moves to the batch of `step` and begins to read the one after it. Returns the batch's
    /// number of rows.
    fn next_batch(&mut self, step: u64, link: &TableLink<'t>) -> usize;

    /// Makes the step of the current batch, from the parameters of global step `step`.
    fn make_step(&mut self, step: u64, link: &mut TableLink<'t>) -> Result<StepMade, TrainError>;

    /// What records its steps.
    fn recording(&mut self) -> &mut StepRecorder;

    /// Names and shapes of its model's parameters.
    fn model_layout(&self) -> &Layout;
}

impl<'t, W: TableWorker<'t>> Trainer<TableLink<'t>> for W {
    fn run(
        &mut self,
        link: &mut TableLink<'t>,
        mut coordinator: Option<&mut Coordinator<'_>>,
    ) -> Result<LinkOutcome<WorkDone>, TrainError> {
        // A run that continues may find that it has ended.
        if link.is_stopping() {
            return Ok(Done(self.recording().work));
        }
        self.begin(link.next_step(), link);
        loop {
            let plan_step = link.next_step();
            if self.next_batch(plan_step, link) == 0 {
                return Ok(Done(self.recording().work.at_end_of_plan()));
            }
            self.recording().begin_step(plan_step)?;
            let made = self.make_step(link.global_step(), link)?;
            let recorded = self.recording().after_step(made, link, coordinator.as_deref_mut())?;
            let Done(()) = recorded else { return Ok(Rewound) };
            if link.is_stopping() {
                return Ok(Done(self.recording().work));
            }
        }
    }

    fn step_recorder(&mut self) -> &mut StepRecorder {
        self.recording()
    }

    fn layout(&self) -> &Layout {
        self.model_layout()
    }
}
