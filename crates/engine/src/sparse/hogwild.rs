//! Several threads that train one table without locks.

use std::panic::resume_unwind;
use std::thread;

use paceline_model::Layout;
use paceline_net::LinkOutcome::{self, Done, Rewound};
use paceline_observe::StopReason;

use super::table_link::{SharedTable, TableLink};
use crate::coordinator::Coordinator;
use crate::error::TrainError;
use crate::step_recorder::{StepRecorder, WorkDone};
use crate::trainer::Trainer;

/// Trains on several threads. The first one records and coordinates.
pub(crate) struct HogwildTrainer<'t> {
    first: Box<TableTrainer<'t>>,
    others: Vec<Box<TableTrainer<'t>>>,
}

/// A training loop over a shared table.
pub(crate) type TableTrainer<'t> = dyn Trainer<TableLink<'t>> + Send + 't;

/// Stops the other threads if its own panics.
struct StopOnPanic<'t>(&'t SharedTable);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

impl<'t> HogwildTrainer<'t> {
    /// Trains with `first` on the calling thread and each of `others` on a thread of its own.
    pub(crate) fn new(first: Box<TableTrainer<'t>>, others: Vec<Box<TableTrainer<'t>>>) -> Self {
        Self { first, others }
    }
}

impl<'t> Trainer<TableLink<'t>> for HogwildTrainer<'t> {
    fn run(
        &mut self,
        link: &mut TableLink<'t>,
        coordinator: Option<&mut Coordinator<'_>>,
    ) -> Result<LinkOutcome<WorkDone>, TrainError> {
        let shared = link.shared();
        thread::scope(|scope| {
            let others: Vec<_> = self
                .others
                .iter_mut()
                .enumerate()
                .map(|(index, other)| {
                    let mut link = TableLink::new(shared, index + 1);
                    scope.spawn(move || {
                        let _stop = StopOnPanic(shared);
                        other.run(&mut link, None)
                    })
                })
                .collect();
            let _stop = StopOnPanic(shared);
            let work = self.first.run(link, coordinator);
            if !matches!(&work, Ok(Done(WorkDone { reason: Some(StopReason::Epochs), .. }))) {
                shared.stop();
            }
            let Done(mut sum) = work? else { return Ok(Rewound) };
            for other in others {
                let work = other.join().unwrap_or_else(|panic| resume_unwind(panic));
                let Done(work) = work? else { return Ok(Rewound) };
                sum = sum.plus(&work);
            }
            Ok(Done(sum))
        })
    }

    fn step_recorder(&mut self) -> &mut StepRecorder {
        self.first.step_recorder()
    }

    fn layout(&self) -> &Layout {
        self.first.layout()
    }
}
