//! Where a worker's parameters live, as the training loop sees it.
//!
//! Every way to the parameters is a [`Link`]. The loop of a dense model needs a [`DenseLink`], the
//! loop of a sparse model a [`SparseLink`], which serves parameters by key. The implementations
//! are [`LocalLink`](crate::local_link::LocalLink) and [`TableLink`](crate::sparse::TableLink) in
//! this process, [`ServerLink`](crate::server_link::ServerLink) over parameter servers and
//! [`MeshLink`](crate::mesh_link::MeshLink) for replicas.
//!
//! A run with servers may return to a checkpoint in the middle of any operation that waits for an
//! answer. Such an operation returns [`LinkOutcome::Rewound`], which every caller passes on as a
//! value, up to the function that trains through rewinds: it calls [`Link::rejoin`] and trains
//! again.

use std::ops::Range;

use paceline_model::{Compactor, Descent};
use paceline_net::{LinkOutcome, Traffic};
use paceline_observe::{PeerTraffic, PhaseClock, TableUse, TaskSummary};

use crate::context::VisitPiece;
use crate::error::TrainError;
use crate::overlap::OverlappedLink;
pub(crate) use crate::push_outcome::PushOutcome;

/// A worker's way to the parameters, and to the other tasks of its run.
pub(crate) trait Link {
    /// The step of the batch plan to compute next.
    fn next_step(&self) -> u64;

    /// Whether the run is stopping: the worker pushes nothing more.
    fn is_stopping(&self) -> bool;

    /// Whether no other task takes part in the steps.
    fn is_alone(&self) -> bool {
        false
    }

    /// Whether this worker must give its slot back between two steps.
    fn is_recalled(&self) -> bool {
        false
    }

    /// Updates made so far, as far as this worker knows.
    fn global_step(&self) -> u64;

    /// Calls `visit` with the bytes exchanged with each other task so far.
    fn for_each_peer(&self, _visit: &mut dyn FnMut(PeerTraffic)) {}

    /// What this task holds of a sparse model's parameters.
    fn table_use(&self) -> Option<TableUse> {
        None
    }

    /// Bytes of the keys that this task has sent of its batches; `None` if it sends none.
    fn sent_key_bytes(&self) -> Option<u64> {
        None
    }

    /// Bytes exchanged with all other tasks.
    fn traffic(&self) -> Traffic {
        let mut total = Traffic::default();
        self.for_each_peer(&mut |peer| {
            total.sent += peer.sent_bytes;
            total.received += peer.received_bytes;
        });
        total
    }

    /// Asks all workers to stop. Only the coordinator does.
    fn request_stop(&mut self, reason: &str) -> Result<(), TrainError>;

    /// Between two steps, after this worker has given up the next one: cuts the run short or, if
    /// only the coordinator may, waits until it has.
    fn cut_short(&mut self) -> Result<(), TrainError> {
        Ok(())
    }

    /// The step a checkpoint requested now would capture.
    fn checkpoint_step(&self) -> u64 {
        self.global_step()
    }

    /// Requests a checkpoint of `step`, if the run takes checkpoints. The last one of a run waits
    /// until the one before it is written.
    fn checkpoint(&mut self, step: u64, is_last: bool) -> Result<(), TrainError>;

    /// Waits until this process has written its last checkpoint; it takes no more.
    fn finish_checkpoints(&mut self) {}

    /// The parameters of `keys`, or all of them, for a test.
    fn peek(&mut self, keys: Option<&[u32]>) -> Result<LinkOutcome<&[f32]>, TrainError>;

    /// Calls `visit` with all parameters in order, a piece at a time, so that a large model need
    /// not be in memory twice.
    fn for_each_piece(&mut self, visit: &mut VisitPiece<'_>) -> Result<LinkOutcome, TrainError>;

    /// Leaves the run, with a report for the coordinator.
    fn leave(&mut self, _report: &[u8]) -> Result<LinkOutcome, TrainError> {
        Ok(LinkOutcome::Done(()))
    }

    /// For the coordinator, after it has left: the reports of all tasks. `own` is its own.
    fn collect(&mut self, own: TaskSummary) -> Result<LinkOutcome<Vec<TaskSummary>>, TrainError> {
        Ok(LinkOutcome::Done(vec![own]))
    }

    /// Makes the next [`peek`](Link::peek) return current parameters.
    fn refresh(&mut self) -> Result<LinkOutcome, TrainError> {
        Ok(LinkOutcome::Done(()))
    }

    /// Ends the run. The coordinator calls it after everything is written.
    fn finish(&mut self) -> Result<(), TrainError> {
        Ok(())
    }

    /// After leaving: waits for the end of the run, in case it rewinds and needs this worker.
    fn wait_for_end(&mut self) -> Result<LinkOutcome, TrainError> {
        Ok(LinkOutcome::Done(()))
    }

    /// After a rewind: reconnects, and finds the step to continue with.
    fn rejoin(&mut self) -> Result<(), TrainError> {
        Ok(())
    }

    /// Applied gradients of this process that the rewinds undid.
    fn lost_pushes(&self) -> u64 {
        0
    }

    /// The step of the checkpoint the run was rewound to; 0 if there was none.
    fn base_step(&self) -> u64 {
        0
    }

    /// Whether an earlier process has already left for this slot.
    fn already_left(&self) -> bool {
        false
    }
}

/// The way to a dense model's parameters: pull, compute, push.
///
/// A push also fetches what the next pull returns, so a step takes one round trip. The link tells
/// the clock where that time goes.
pub(crate) trait DenseLink: Link {
    /// The parameters to compute the next gradient with.
    fn params(&self) -> &[f32];

    /// Pushes the gradient of a batch of `examples` examples.
    fn push(
        &mut self,
        examples: usize,
        grad: &[f32],
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome<PushOutcome>, TrainError>;

    /// The parameters and their optimizer, for a step made in place. `None` unless they live in
    /// this process alone. The step counts as made, in place of a push.
    fn take_for_step(&mut self) -> Option<Descent<'_>> {
        None
    }

    /// The step that [`take_for_step`](Self::take_for_step) began was not made.
    fn abandon_step(&mut self) {}

    /// This link as one whose steps travel while they are computed, if the run does that.
    fn overlapped(&mut self) -> Option<&mut dyn OverlappedLink> {
        None
    }
}

/// The way to a sparse model's parameters: name the keys of a batch, get their values, push their
/// gradient together with the keys of a later batch.
pub(crate) trait SparseLink: Link {
    /// Whether values of the next batch travel while the current one is computed. A push then
    /// names the keys of the batch after the next one.
    fn overlaps(&self) -> bool {
        false
    }

    /// Makes the keys of a batch unique, and sorts them, as they must be to travel.
    fn compact(&self, compactor: &mut Compactor, keys: &[u32], shared: Range<u32>) {
        compactor.compact(keys, shared);
    }

    /// Fetches the values of the batch of `step`, discarding earlier requests.
    fn begin(
        &mut self,
        step: u64,
        keys: &[u32],
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome, TrainError>;

    /// If the link overlaps: also fetches the values of the batch after it.
    fn begin_next(
        &mut self,
        _keys: &[u32],
        _clock: &mut PhaseClock,
    ) -> Result<LinkOutcome, TrainError> {
        Ok(LinkOutcome::Done(()))
    }

    /// The values of the batch to compute now, in the order of its keys.
    fn values(&self) -> &[f32];

    /// Pushes a gradient and requests the values of a later batch.
    fn push(
        &mut self,
        push: SparsePush<'_>,
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome, TrainError>;

    /// Waits for the values the last push requested; what became of its gradient.
    fn wait_for_values(
        &mut self,
        clock: &mut PhaseClock,
    ) -> Result<LinkOutcome<PushOutcome>, TrainError>;
}

/// The gradient of a batch of sparse rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SparsePush<'a> {
    /// The batch's step in the plan.
    pub step: u64,
    /// Examples in the batch.
    pub examples: usize,
    /// The keys the batch touches.
    pub keys: &'a [u32],
    /// The gradient, as many numbers for each key as the model's layout has.
    pub grad: &'a [f32],
    /// The keys whose values the worker needs next.
    pub next: &'a [u32],
}
