//! The training loop of a network whose steps travel while they are computed (`overlap.rs`).

use std::mem;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use paceline_model::{
    FactorSizes, FactorUpdate, LayerFactors, Layered, Model, OutputMode, StepEvent, WeightedFactors,
};
use paceline_net::LinkOutcome::{self, Done, Rewound};
use paceline_net::{PieceChannel, WorkerFactors};
use paceline_observe::{Phase, PhaseClock};

use crate::coordinator::Coordinator;
use crate::dense_worker::DenseWorker;
use crate::error::TrainError;
use crate::link::{DenseLink, PushOutcome};
use crate::loop_trace::record_event;
use crate::overlap::{
    ExchangeEnd, Handover, OnWait, OverlappedLink, Returns, StepBuffers, StepEnd,
};
use crate::step_recorder::{StepMade, WorkDone};
use crate::step_stop::StepStop;

/// A step whose forward pass is done.
#[derive(Clone, Copy, Debug)]
struct ForwardedStep {
    plan_step: u64,
    /// The global step of its parameters.
    step: u64,
    examples: usize,
    loss: f32,
}

/// How far the forward pass of the next step has come when a step has been made.
#[derive(Clone, Copy, Debug)]
enum NextStep {
    /// It has not begun.
    NotBegun,
    /// It is done.
    Forwarded(ForwardedStep),
    /// The plan has no more examples.
    EndOfPlan,
    /// It was given up, because the run must end.
    GivenUp,
}

/// A step that was made.
struct MadeStep {
    outcome: PushOutcome,
    /// When its gradient was ready.
    now: Instant,
    next: NextStep,
}

impl DenseWorker<'_> {
    /// Whether steps travel while they are computed.
    pub(crate) fn overlaps(&mut self, link: &mut impl DenseLink) -> bool {
        link.overlapped().is_some() && self.model.layered().is_some()
    }

    /// Trains as [`Trainer::run`](crate::trainer::Trainer::run) does.
    pub(crate) fn run_overlapped<L: DenseLink>(
        &mut self,
        link: &mut L,
        mut coordinator: Option<&mut Coordinator<'_>>,
    ) -> Result<LinkOutcome<WorkDone>, TrainError> {
        let mut buffers = {
            let link = overlapped(link);
            StepBuffers::new(link.pieces(), link.slots(), self.model.max_block())
        };
        let mut next = NextStep::NotBegun;
        while !link.is_stopping() && !link.is_recalled() {
            if self.stops() {
                return self.cut_short(link, coordinator);
            }
            if let NextStep::NotBegun | NextStep::GivenUp = next {
                next = self.first_forward(link)?;
            }
            let step = match next {
                NextStep::Forwarded(step) => step,
                NextStep::NotBegun | NextStep::GivenUp => continue,
                NextStep::EndOfPlan => {
                    let idle = self.take_part_idly(link, &mut buffers)?;
                    let Done(()) = idle else { return Ok(Rewound) };
                    return Ok(Done(self.step_recorder.work.at_end_of_plan()));
                }
            };
            self.step_recorder.divergence.check_finite(step.step, step.loss)?;
            let made = self.overlapped_step(link, &mut buffers, Some(step))?;
            let Done(made) = made else { return Ok(Rewound) };
            let Some(made) = made else { return Ok(Done(self.interrupted_work(coordinator))) };
            next = made.next;
            if let NextStep::Forwarded(next) = &mut next {
                // Other workers of `async` and `bounded` have made steps too.
                next.step = link.global_step();
            }
            let is_dropped = made.outcome == PushOutcome::Dropped;
            self.step_recorder.work.dropped += u64::from(is_dropped);
            let ForwardedStep { step, examples, loss, .. } = step;
            let made = StepMade { step, examples, loss, now: made.now };
            let recorded = self.step_recorder.after_step(made, link, coordinator.as_deref_mut())?;
            let Done(()) = recorded else { return Ok(Rewound) };
        }
        Ok(Done(self.step_recorder.work))
    }

    /// The forward pass of a step that no other overlaps with.
    fn first_forward<L: DenseLink>(&mut self, link: &mut L) -> Result<NextStep, TrainError> {
        self.step_recorder.clock.stay_in(Phase::Input);
        let (plan_step, step) = (link.next_step(), link.global_step());
        self.step_recorder.begin_step(plan_step)?;
        let examples = self.batches.begin_step(plan_step)?;
        if examples == 0 {
            return Ok(NextStep::EndOfPlan);
        }
        let ranges: Vec<_> =
            overlapped(link).pieces().iter().map(|piece| piece.range.clone()).collect();
        let params = link.params();
        let block = self.batches.next_block(examples)?;
        let share = 1.0 / examples as f32;
        let start = self.step_recorder.begin_compute();
        if self.step_recorder.wants_tensors(step) {
            // A step in pieces has no whole gradient: it is computed once more.
            let mut grad = vec![0.0; params.len()];
            self.model.gradient(params, block, share, OutputMode::Overwrite, &mut grad);
            self.step_recorder.record_tensors(step, self.model.layout(), params, &grad)?;
        }
        let clock = Mutex::new(&mut self.step_recorder.clock);
        begin_row(&clock);
        let mut of_piece = |piece: usize| Some(&params[ranges[piece].clone()]);
        let observe = &mut |event: StepEvent<'_>| observe(&clock, &event);
        let loss = layered(&mut *self.model).forward_pass(block, share, &mut of_piece, observe);
        self.step_recorder.slow_down(start);
        // All parameters are here: only a run that must end gives a pass up.
        let Some(loss) = loss else { return Ok(NextStep::GivenUp) };
        Ok(NextStep::Forwarded(ForwardedStep { plan_step, step, examples, loss }))
    }

    /// After the end of the plan: other workers may have examples left, and where factors travel
    /// only a model can follow their steps.
    fn take_part_idly<L: DenseLink>(
        &mut self,
        link: &mut L,
        buffers: &mut StepBuffers,
    ) -> Result<LinkOutcome, TrainError> {
        let has_factors = overlapped(link).pieces().iter().any(|piece| piece.factors.is_some());
        while has_factors && !link.is_stopping() {
            match self.overlapped_step(link, buffers, None)? {
                Rewound => return Ok(Rewound),
                Done(None) => break,
                Done(Some(_)) => {}
            }
        }
        Ok(Done(()))
    }

    /// Makes a step whose forward pass is done, as often as it takes; `None` takes part without
    /// examples. Where possible it also makes the forward pass of the next step. The result is
    /// `None` if the run was cut short in the middle of the step.
    fn overlapped_step<L: DenseLink>(
        &mut self,
        link: &mut L,
        buffers: &mut StepBuffers,
        step: Option<ForwardedStep>,
    ) -> Result<LinkOutcome<Option<MadeStep>>, TrainError> {
        let global_step = link.global_step();
        let link = overlapped(link);
        let mut is_repeated = false;
        loop {
            let pieces = link.pieces().to_vec();
            let is_last = link.is_last() || step.is_none_or(|step| self.is_due(step.step + 1));
            self.stop.iter().for_each(|stop| stop.begin_sending());
            let mut lent = link.lend(step.map(|step| step.examples as u32));
            let (memory, parts) = buffers.begin(&pieces, &mut lent, link.updates_in_step());
            let PieceChannel { sender, exchange, handed_back } = link.channel(memory);
            let span = StepSpan {
                handover: Handover::new(parts, sender),
                returns: Returns::new(handed_back, pieces.len()),
                updated: vec![None; pieces.len()],
                global_step,
                step,
                is_repeated,
                is_atomic: link.is_atomic(),
                is_last,
                stop: self.stop.clone(),
            };
            let mut exchanger = link.exchanger();
            let (ended, computed) = thread::scope(|scope| {
                let builder = thread::Builder::new().name("exchange".into());
                let thread = builder.spawn_scoped(scope, || exchanger.exchange(exchange));
                let Ok(thread) = thread else { return (None, self.compute_span(span)) };
                let computed = self.compute_span(span);
                (Some(thread.join()), computed)
            });
            drop(exchanger);
            let ended = match ended {
                Some(Ok(ended)) => ended?,
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                None => return Err(TrainError::Training("cannot start a thread".into())),
            };
            let (now, next) = computed?;
            if ended == ExchangeEnd::Complete && !lent.next.is_empty() {
                mem::swap(&mut lent.params, &mut lent.next);
            }
            if ended == ExchangeEnd::Abandoned {
                self.step_recorder.clock.stay_in(Phase::Wait);
            }
            let Done(end) = link.take_back(lent, ended)? else { return Ok(Rewound) };
            match end {
                StepEnd::Made(outcome) => {
                    // A step that the others have made has brought other parameters.
                    let next =
                        if ended == ExchangeEnd::Complete { next } else { NextStep::NotBegun };
                    return Ok(Done(Some(MadeStep { outcome, now, next })));
                }
                StepEnd::Again => is_repeated = true,
                StepEnd::GivenUp => return Ok(Done(None)),
            }
        }
    }

    /// Whether the loop has something to do with the parameters of a step before its forward pass.
    fn is_due(&self, step: u64) -> bool {
        self.step_recorder.tensors_are_due(step)
    }

    /// The computing thread's part of a step. Returns when the gradient was ready.
    fn compute_span(&mut self, mut span: StepSpan<'_>) -> Result<(Instant, NextStep), TrainError> {
        let start = self.step_recorder.begin_compute();
        let is_computed = self.hand_in(&mut span);
        self.step_recorder.slow_down(start);
        let now = Instant::now();
        if !is_computed {
            span.give_up();
            span.returns.complete(&mut waits(&mut self.step_recorder.clock));
            return Ok((now, NextStep::GivenUp));
        }
        self.stop.iter().for_each(|stop| stop.end_sending());
        if !self.update_by_factors(&mut span) {
            return Ok((now, NextStep::NotBegun));
        }
        let next = match span.step {
            Some(step) if !span.is_last => self.forward_next(step, &mut span)?,
            _ => NextStep::NotBegun,
        };
        // Whatever the forward pass has not asked for.
        let on_wait = &mut waits(&mut self.step_recorder.clock);
        (0..span.handover.parts.pieces.len()).all(|piece| span.params(piece, on_wait).is_some());
        span.returns.complete(on_wait);
        Ok((now, next))
    }

    /// Hands in this worker's part of a step. Returns `false` if its gradient was given up.
    fn hand_in(&mut self, span: &mut StepSpan<'_>) -> bool {
        let clock = Mutex::new(&mut self.step_recorder.clock);
        begin_row(&clock);
        let observe = &mut |event: StepEvent<'_>| observe(&clock, &event);
        match span.step {
            Some(_) if span.is_repeated => span.handover.hand_in_all(),
            Some(_) => return layered(&mut *self.model).backward_pass(&mut span.handover, observe),
            None => span.handover.hand_in_params(),
        }
        true
    }

    /// Updates what only the model can update. Returns `false` if the step fails.
    fn update_by_factors(&mut self, span: &mut StepSpan<'_>) -> bool {
        let on_wait = &mut waits(&mut self.step_recorder.clock);
        (!span.is_atomic || span.returns.complete(on_wait))
            && span.update_by_factors(layered(&mut *self.model), on_wait)
    }

    /// The forward pass of the next step, whose parameters are still arriving.
    fn forward_next(
        &mut self,
        last: ForwardedStep,
        span: &mut StepSpan<'_>,
    ) -> Result<NextStep, TrainError> {
        self.step_recorder.clock.stay_in(Phase::Input);
        let (plan_step, step) = (last.plan_step + 1, last.step + 1);
        self.step_recorder.begin_step(plan_step)?;
        let examples = self.batches.begin_step(plan_step)?;
        if examples == 0 {
            return Ok(NextStep::EndOfPlan);
        }
        let block = self.batches.next_block(examples)?;
        let mut start = self.step_recorder.begin_compute();
        let clock = Mutex::new(&mut self.step_recorder.clock);
        begin_row(&clock);
        let mut of_piece = |piece: usize| {
            let on_wait = &mut |is_waiting: bool| wait_in(&clock, is_waiting);
            let asked = start.map(|_| Instant::now());
            let params = span.params(piece, on_wait);
            // Only the computation is slowed down, not its waits.
            if let (Some(start), Some(asked)) = (&mut start, asked) {
                *start += asked.elapsed();
            }
            params
        };
        let observe = &mut |event: StepEvent<'_>| observe(&clock, &event);
        let share = 1.0 / examples as f32;
        let loss = layered(&mut *self.model).forward_pass(block, share, &mut of_piece, observe);
        self.step_recorder.slow_down(start);
        let Some(loss) = loss else { return Ok(NextStep::NotBegun) };
        Ok(NextStep::Forwarded(ForwardedStep { plan_step, step, examples, loss }))
    }
}

/// A step from its backward pass to the forward pass of the next.
struct StepSpan<'a> {
    handover: Handover<'a>,
    returns: Returns<'a>,
    /// By piece: the parameters that this worker has updated itself.
    updated: Vec<Option<&'a [f32]>>,
    /// Updates made before this step.
    global_step: u64,
    /// `None` if this worker has no examples for it.
    step: Option<ForwardedStep>,
    /// Its gradient has been computed before.
    is_repeated: bool,
    /// Nothing is updated before everything is known.
    is_atomic: bool,
    /// The next forward pass must wait until the whole step is made.
    is_last: bool,
    /// Whether the step may be given up.
    stop: Option<Arc<StepStop>>,
}

impl<'a> StepSpan<'a> {
    /// The gradient was given up: the exchange must end.
    fn give_up(&self) {
        self.stop.iter().for_each(|stop| stop.give_up());
        self.handover.give_up();
    }

    /// Whether a part of the step may be applied; it cannot be given up then.
    fn may_apply(&self) -> bool {
        self.stop.as_ref().is_none_or(|stop| stop.may_apply())
    }

    /// The updated parameters of a piece, once they are here; `None` if the step fails. If this
    /// worker makes the updates itself, it does so now.
    fn params(&mut self, piece: usize, on_wait: OnWait<'_>) -> Option<&'a [f32]> {
        let parts = &mut self.handover.parts;
        let Some(optimizer) = parts.optimizer.as_deref_mut() else {
            return self.returns.output(piece, on_wait);
        };
        if self.updated[piece].is_none() {
            let mean = self.returns.output(piece, on_wait)?;
            if !self.stop.as_ref().is_none_or(|stop| stop.may_apply()) {
                return None;
            }
            let params = parts.params[piece].take()?;
            optimizer.apply(self.global_step, parts.pieces[piece].range.start, params, mean);
            self.updated[piece] = Some(params);
        }
        self.updated[piece]
    }

    /// Updates all pieces whose factors travel, in the order in which the next forward pass needs
    /// them. Returns `false` if the step fails.
    fn update_by_factors(&mut self, model: &mut dyn Layered, on_wait: OnWait<'_>) -> bool {
        for piece in 0..self.updated.len() {
            let Some(sizes) = self.handover.parts.pieces[piece].factors else { continue };
            let Some(workers) = self.returns.factors(piece, on_wait) else { return false };
            if !self.may_apply() {
                return false;
            }
            let parts = &mut self.handover.parts;
            let (Some(params), Some(optimizer)) =
                (parts.params[piece].take(), parts.optimizer.as_deref_mut())
            else {
                unreachable!("a worker that receives factors has parameters and an optimizer")
            };
            // If no worker has examples left, the step is not made.
            if !workers.is_empty() {
                let workers: Vec<_> = workers.iter().map(|its| weighted(its, sizes)).collect();
                let step = self.global_step;
                let update = FactorUpdate {
                    piece,
                    workers: &workers,
                    params: &mut *params,
                    optimizer,
                    step,
                };
                model.apply_factors(update);
            }
            self.updated[piece] = Some(params);
        }
        true
    }
}

fn weighted<'a>(worker: &WorkerFactors<'a>, sizes: FactorSizes) -> WeightedFactors<'a> {
    let (inputs, deltas) = worker.values.split_at(worker.examples * sizes.inputs);
    WeightedFactors { factors: LayerFactors { inputs, deltas }, weight: worker.weight }
}

/// The link of a run that overlaps.
fn overlapped<L: DenseLink>(link: &mut L) -> &mut dyn OverlappedLink {
    link.overlapped().unwrap_or_else(|| unreachable!("the link overlaps"))
}

/// The model of a run that overlaps.
fn layered(model: &mut dyn Model) -> &mut dyn Layered {
    model.layered().unwrap_or_else(|| unreachable!("the model has layers"))
}

/// A clock that the model's callbacks share.
type SharedClock<'a, 'c> = &'a Mutex<&'c mut PhaseClock>;

fn with_clock(clock: SharedClock<'_, '_>, work: impl FnOnce(&mut PhaseClock)) {
    work(&mut clock.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
}

/// If the step is recorded: begins a sequence of the model's operations.
fn begin_row(clock: SharedClock<'_, '_>) {
    with_clock(clock, |clock| clock.track().into_iter().for_each(|track| track.begin_row()));
}

/// If the step is recorded: records what the model has just done.
fn observe(clock: SharedClock<'_, '_>, event: &StepEvent<'_>) {
    with_clock(clock, |clock| {
        clock.track().into_iter().for_each(|track| record_event(track, event));
    });
}

/// A wait for the exchange begins or ends in the middle of the model's operations.
fn wait_in(clock: SharedClock<'_, '_>, is_waiting: bool) {
    with_clock(clock, |clock| waits(clock)(is_waiting));
    begin_row(clock);
}

/// Tells the clock when a wait for the exchange begins and ends.
fn waits(clock: &mut PhaseClock) -> impl FnMut(bool) {
    |is_waiting| clock.stay_in(if is_waiting { Phase::Wait } else { Phase::Compute })
}
