//! The training loop of a dense model. (`sparse/worker.rs` has the loop of a sparse one.)

use std::sync::Arc;

use paceline_model::{AlignedBuffer, Layout, Model, OutputMode, StepEvent};
use paceline_net::LinkOutcome::{self, Done, Rewound};
use paceline_observe::Phase;

use crate::batch_reader::BatchReader;
use crate::coordinator::Coordinator;
use crate::error::TrainError;
use crate::gradient::batch_gradient;
use crate::link::{DenseLink, PushOutcome};
use crate::loop_trace::record_event;
use crate::step_recorder::{StepMade, StepRecorder, WorkDone};
use crate::step_stop::StepStop;
use crate::trainer::Trainer;

/// A worker of a dense model.
pub(crate) struct DenseWorker<'a> {
    /// Reads the examples of each step.
    pub batches: Box<dyn BatchReader + 'a>,
    /// What it trains.
    pub model: Box<dyn Model>,
    /// Records its steps.
    pub step_recorder: StepRecorder,
    /// In shared modes: gives up steps in the middle, once the run must end.
    pub stop: Option<Arc<StepStop>>,
}

impl<L: DenseLink> Trainer<L> for DenseWorker<'_> {
    fn run(
        &mut self,
        link: &mut L,
        mut coordinator: Option<&mut Coordinator<'_>>,
    ) -> Result<LinkOutcome<WorkDone>, TrainError> {
        if link.already_left() {
            return Ok(Done(WorkDone::default()));
        }
        if self.overlaps(link) {
            return self.run_overlapped(link, coordinator);
        }
        // The system provides these pages only when they are written: never for steps in place.
        let mut grad = AlignedBuffer::zeros(self.model.layout().len());
        // A worker that takes over a slot may find the run at its end.
        while !link.is_stopping() && !link.is_recalled() {
            self.step_recorder.clock.stay_in(Phase::Input);
            let plan_step = link.next_step();
            self.step_recorder.begin_step(plan_step)?;
            let examples = self.batches.begin_step(plan_step)?;
            if examples == 0 {
                return Ok(Done(self.step_recorder.work.at_end_of_plan()));
            }
            let step = link.global_step();
            let made = match self.step_in_place(step, examples, link)? {
                Some(loss) if loss.is_nan() && is_interrupted(coordinator.as_deref()) => {
                    link.abandon_step();
                    return Ok(Done(self.interrupted_work(coordinator)));
                }
                Some(loss) => {
                    let now = self.step_recorder.clock.enter(Phase::Wait);
                    StepMade { step, examples, loss, now }
                }
                None => {
                    let grad = &mut grad[..];
                    match self.step_by_push(step, examples, link, grad, coordinator.as_deref())? {
                        Done(Some(made)) => made,
                        Done(None) => return self.cut_short(link, coordinator),
                        Rewound => return Ok(Rewound),
                    }
                }
            };
            let recorded = self.step_recorder.after_step(made, link, coordinator.as_deref_mut())?;
            let Done(()) = recorded else { return Ok(Rewound) };
        }
        Ok(Done(self.step_recorder.work))
    }

    fn step_recorder(&mut self) -> &mut StepRecorder {
        &mut self.step_recorder
    }

    fn layout(&self) -> &Layout {
        self.model.layout()
    }
}

/// Whether the run was asked to stop, if this worker would know.
fn is_interrupted(coordinator: Option<&Coordinator<'_>>) -> bool {
    coordinator.is_some_and(Coordinator::is_interrupted)
}

impl DenseWorker<'_> {
    /// Whether the worker must not compute the next step, because the run must end.
    pub(crate) fn stops(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.stops_computing())
    }

    /// Ends in the middle of a step, before any of it was sent: because the run must end, or
    /// because this worker must give its slot back.
    pub(crate) fn cut_short<L: DenseLink>(
        &self,
        link: &mut L,
        coordinator: Option<&mut Coordinator<'_>>,
    ) -> Result<LinkOutcome<WorkDone>, TrainError> {
        if self.stops() {
            link.cut_short()?;
        }
        Ok(Done(self.interrupted_work(coordinator)))
    }

    /// The work that was done before an abandoned step.
    pub(crate) fn interrupted_work(&self, coordinator: Option<&mut Coordinator<'_>>) -> WorkDone {
        let reason = coordinator.and_then(Coordinator::interrupt);
        WorkDone { reason, ..self.step_recorder.work }
    }

    /// Computes the gradient of a batch and pushes it. `None` if the step was given up before any
    /// of it was sent.
    fn step_by_push(
        &mut self,
        step: u64,
        examples: usize,
        link: &mut impl DenseLink,
        grad: &mut [f32],
        coordinator: Option<&Coordinator<'_>>,
    ) -> Result<LinkOutcome<Option<StepMade>>, TrainError> {
        let Self { batches, model, step_recorder, stop } = self;
        let (params, is_alone, stop) = (link.params(), link.is_alone(), stop.as_deref());
        let is_stopped = || match stop {
            Some(stop) => stop.stops_computing(),
            None => is_alone && is_interrupted(coordinator),
        };
        let is_given_up = || link.is_recalled() || is_stopped();
        let loss = batch_gradient(
            &mut **model,
            &mut **batches,
            examples,
            params,
            grad,
            step_recorder,
            is_given_up,
        )?;
        let Some(loss) = loss else { return Ok(Done(None)) };
        step_recorder.divergence.check_finite(step, loss)?;
        if step_recorder.wants_tensors(step) {
            step_recorder.record_tensors(step, model.layout(), params, grad)?;
        }
        let now = step_recorder.clock.enter(Phase::Push);
        let pushed = link.push(examples, grad, &mut step_recorder.clock)?;
        let Done(outcome) = pushed else { return Ok(Rewound) };
        step_recorder.work.dropped += u64::from(outcome == PushOutcome::Dropped);
        Ok(Done(Some(StepMade { step, examples, loss, now })))
    }

    /// Makes a whole step in place and returns the mean loss of its batch. `None` unless the
    /// parameters are here, the model can step in place and the batch is one block.
    #[inline]
    fn step_in_place(
        &mut self,
        step: u64,
        examples: usize,
        link: &mut impl DenseLink,
    ) -> Result<Option<f32>, TrainError> {
        let fits = examples <= self.model.max_block();
        if !fits || self.model.in_place().is_none() {
            return Ok(None);
        }
        let Some(descent) = link.take_for_step() else { return Ok(None) };
        let block = self.batches.next_block(examples)?;
        let start = self.step_recorder.begin_compute();
        if self.step_recorder.wants_tensors(step) {
            // A step in place has no whole gradient: it is computed once more.
            let (params, share) = (&*descent.params, 1.0 / examples as f32);
            let mut grad = vec![0.0; params.len()];
            self.model.gradient(params, block, share, OutputMode::Overwrite, &mut grad);
            self.step_recorder.record_tensors(step, self.model.layout(), params, &grad)?;
        }
        let Some(model) = self.model.in_place() else { unreachable!("it was there above") };
        let loss = match self.step_recorder.clock.track() {
            None => model.descend(descent, block),
            Some(track) => {
                track.begin_row();
                let observe = &mut |event: StepEvent<'_>| record_event(track, &event);
                model.descend_observed(descent, block, observe)
            }
        };
        self.step_recorder.slow_down(start);
        Ok(Some(loss))
    }
}
