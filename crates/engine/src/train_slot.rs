//! How a slot other than 0 is trained. (`run_coordinator.rs` trains slot 0.)

use paceline_net::LinkOutcome::{self, Done, Rewound};

use crate::error::TrainError;
use crate::link::Link;
use crate::rewind::rewind;
use crate::step_recorder::WorkDone;
use crate::trainer::Trainer;
use crate::training_task::TrainingTask;

/// Trains a slot, through as many rewinds as there are. `leave` then gives the slot up; if it
/// hears of a rewind, training continues.
pub(crate) fn train_slot<L: Link, T>(
    task: &TrainingTask<'_>,
    link: &mut L,
    trainer: &mut dyn Trainer<L>,
    leave: impl Fn(&mut L, &mut dyn Trainer<L>, &WorkDone) -> Result<LinkOutcome<T>, TrainError>,
) -> Result<T, TrainError> {
    loop {
        let left = match trainer.run(link, None) {
            Ok(Done(work)) => leave(link, trainer, &work),
            Ok(Rewound) => Ok(Rewound),
            Err(error) => Err(error),
        };
        let rewound = match left {
            Ok(Done(left)) => return trainer.step_recorder().finish(true).map(|()| left),
            Ok(Rewound) => rewind(task, link, trainer, None),
            Err(error) => Err(error),
        };
        if let Err(error) = rewound {
            let _ = trainer.step_recorder().finish(false);
            return Err(error);
        }
    }
}
