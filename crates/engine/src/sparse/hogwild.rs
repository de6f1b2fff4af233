//! Several threads that train one table without locks.

use std::thread;

use paceline_model::Layout;

use super::table_link::TableLink;
use crate::coordinator::Coordinator;
use crate::error::Interruption;
use crate::step_recorder::{StepRecorder, WorkDone};
use crate::stop_reason::StopReason;
use crate::trainer::Trainer;

/// Trains on several threads. The first one records and coordinates.
pub(crate) struct HogwildTrainer<W> {
    first: W,
    others: Vec<W>,
}

impl<W> HogwildTrainer<W> {
    /// Trains with `first` on the calling thread and each of `others` on a thread of its own.
    pub(crate) fn new(first: W, others: Vec<W>) -> Self {
        Self { first, others }
    }
}

impl<'t, W> Trainer<TableLink<'t>> for HogwildTrainer<W>
where
    W: Trainer<TableLink<'t>> + Send,
{
    fn run(
        &mut self,
        link: &mut TableLink<'t>,
        coordinator: Option<&mut Coordinator<'_>>,
    ) -> Result<WorkDone, Interruption> {
        let shared = link.shared();
        thread::scope(|scope| {
            let others: Vec<_> = self
                .others
                .iter_mut()
                .enumerate()
                .map(|(index, other)| {
                    let mut link = TableLink::new(shared, index + 1);
                    scope.spawn(move || other.run(&mut link, None))
                })
                .collect();
            let work = self.first.run(link, coordinator);
            if !matches!(&work, Ok(WorkDone { reason: Some(StopReason::Epochs), .. })) {
                shared.stop();
            }
            others.into_iter().try_fold(work?, |sum, other| {
                let Ok(work) = other.join() else { unreachable!("a panic ends the scope") };
                Ok(sum.plus(&work?))
            })
        })
    }

    fn account(&mut self) -> &mut StepRecorder {
        self.first.account()
    }

    fn layout(&self) -> &Layout {
        self.first.layout()
    }
}
