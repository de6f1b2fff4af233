//! Records the steps of a training loop: its time, its work and its timeline.

use std::thread;
use std::time::{Duration, Instant};

use paceline_model::Layout;
use paceline_net::LinkOutcome;
use paceline_observe::{
    ComputeDelay, DivergenceCheck, PeerTraffic, Phase, PhaseClock, Recorder, RunDelay, RunPosition,
    StepRecord, StopReason, TensorKind, TensorRecord, TensorValues, TouchedKeys,
};

use crate::coordinator::Coordinator;
use crate::error::{TrainError, record_failure};
use crate::link::Link;
use crate::loop_trace::LoopTrace;
use crate::settings::{OnDivergence, TrainSettings};

/// Records a training loop.
pub(crate) struct StepRecorder {
    /// Receives what happens. Of several loops in a process only the first has a real one.
    pub recorder: Box<dyn Recorder + Send>,
    /// Where the loop's time goes.
    pub clock: PhaseClock,
    /// How long the loop's thread has no core.
    pub run_delay: RunDelay,
    /// How long threads that compute for the loop have none.
    pub compute_delay: ComputeDelay,
    /// Finds out whether training diverges.
    pub divergence: DivergenceCheck,
    /// Test-only slowdown factor; 1.0 is full speed.
    pub slowdown: f64,
    /// How long tests have kept the loop from its steps; zero except for the coordinator.
    pub testing: Duration,
    /// What the loop has done so far.
    pub work: WorkDone,
    /// Records the loop's timeline, if the run has one.
    pub trace: Option<LoopTrace>,
    /// Global steps between records of the tensors, if there are any.
    tensors_every: Option<u64>,
    /// The global step of the next record of the tensors.
    next_tensors: u64,
}

impl StepRecorder {
    /// Records a loop that starts now, in `slot`, on the calling thread.
    pub(crate) fn start(
        recorder: Box<dyn Recorder + Send>,
        settings: &TrainSettings,
        slot: usize,
    ) -> Self {
        let hooks = settings.test_hooks;
        let mut clock = PhaseClock::start(Phase::Input);
        if hooks.omits_phases {
            clock.turn_off();
        }
        Self {
            tensors_every: recorder.tensors_every().filter(|&every| every > 0),
            next_tensors: 0,
            recorder,
            clock,
            run_delay: RunDelay::start(),
            compute_delay: ComputeDelay::start(),
            divergence: DivergenceCheck::new(
                settings.batch,
                settings.on_divergence == OnDivergence::Stop,
            ),
            slowdown: hooks.slowdown(slot),
            testing: Duration::ZERO,
            work: WorkDone::default(),
            trace: None,
        }
    }

    /// The loop is about to make `step` of the plan.
    #[inline]
    pub(crate) fn begin_step(&mut self, step: u64) -> Result<(), TrainError> {
        match &mut self.trace {
            None => Ok(()),
            Some(trace) => trace.begin_step(step, &mut self.clock, &mut *self.recorder),
        }
    }

    /// Hands the loop's timeline to the recorder; whether there was anything to hand over. A
    /// timeline that cannot be recorded costs the timeline, not the run: the error is returned as
    /// text.
    pub(crate) fn finish_timeline(&mut self) -> Result<bool, String> {
        let Some(trace) = &mut self.trace else { return Ok(false) };
        trace.finish(&mut self.clock, &mut *self.recorder).map_err(|error| error.to_string())
    }

    /// Whether [`wants_tensors`](Self::wants_tensors) will hold for this global step.
    pub(crate) fn tensors_are_due(&self, step: u64) -> bool {
        self.tensors_every.is_some() && step >= self.next_tensors
    }

    /// Whether to record the tensors of this global step.
    #[inline]
    pub(crate) fn wants_tensors(&mut self, step: u64) -> bool {
        let Some(every) = self.tensors_every else { return false };
        // After a rewind the next record is due earlier than it was.
        let is_due = step >= self.next_tensors || step + every < self.next_tensors;
        if is_due {
            self.next_tensors = (step / every).saturating_add(1).saturating_mul(every);
        }
        is_due
    }

    /// Records the parameters and the gradient of a step, tensor by tensor.
    #[cold]
    pub(crate) fn record_tensors(
        &mut self,
        step: u64,
        layout: &Layout,
        params: &[f32],
        grad: &[f32],
    ) -> Result<(), TrainError> {
        let kinds = [(TensorKind::Weights, params), (TensorKind::Gradients, grad)];
        let tensors = layout.tensors().iter().flat_map(|tensor| {
            let name = &*tensor.name;
            kinds.map(|(kind, all)| TensorValues { kind, name, values: &all[tensor.range.clone()] })
        });
        let tensors: Vec<_> = tensors.collect();
        self.recorder.tensors(&TensorRecord { step, tensors: &tensors }).map_err(record_failure)
    }

    /// Records the parameters that a batch of a sparse model touches, and their gradient.
    #[cold]
    pub(crate) fn record_touched(
        &mut self,
        step: u64,
        params: &[f32],
        grad: Option<&[f32]>,
    ) -> Result<(), TrainError> {
        let touched = |kind| move |values| TensorValues { kind, name: "touched", values };
        let weights = Some(params).map(touched(TensorKind::Weights));
        let gradients = grad.map(touched(TensorKind::Gradients));
        let tensors: Vec<_> = weights.into_iter().chain(gradients).collect();
        self.recorder.tensors(&TensorRecord { step, tensors: &tensors }).map_err(record_failure)
    }

    /// Counts and records a step; the coordinator then decides what follows from it.
    #[inline]
    pub(crate) fn after_step(
        &mut self,
        made: StepMade,
        link: &mut impl Link,
        coordinator: Option<&mut Coordinator<'_>>,
    ) -> Result<LinkOutcome, TrainError> {
        let StepMade { step, examples, loss, now } = made;
        self.work.steps += 1;
        self.work.examples += examples as u64;
        self.divergence.add(step, loss)?;
        let traffic = |visit: &mut dyn FnMut(PeerTraffic)| link.for_each_peer(visit);
        let table = || link.table_use();
        if let Some(bytes) = link.sent_key_bytes() {
            self.work.touched.key_bytes = bytes;
        }
        let written = self.recorder.step(&StepRecord {
            step,
            loss,
            now,
            worker_steps: self.work.steps,
            examples: self.work.examples,
            touched: self.work.touched,
            clock: &self.clock,
            tested: self.testing,
            position: RunPosition {
                global_step: link.global_step(),
                traffic: &traffic,
                table: &table,
            },
        });
        written.map_err(record_failure)?;
        let Some(coordinator) = coordinator else { return Ok(LinkOutcome::Done(())) };
        self.clock.stay_in(Phase::Wait);
        let acted = coordinator.after_step(loss, now, link, &mut *self.recorder)?;
        self.testing = coordinator.testing();
        Ok(acted)
    }

    /// Ends the recording.
    pub(crate) fn finish(&mut self, success: bool) -> Result<(), TrainError> {
        self.recorder.finish(success).map_err(record_failure)
    }

    /// In tests: sleeps so that the computation since `start` seems slow.
    #[inline]
    pub(crate) fn slow_down(&self, start: Option<Instant>) {
        if let Some(start) = start {
            thread::sleep(start.elapsed().mul_f64(self.slowdown - 1.0));
        }
    }

    /// Enters the compute phase. Returns the time if [`slow_down`](Self::slow_down) needs it.
    #[inline]
    pub(crate) fn begin_compute(&mut self) -> Option<Instant> {
        self.clock.stay_in(Phase::Compute);
        (self.slowdown > 1.0).then(Instant::now)
    }
}

/// A step that a loop has just made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepMade {
    /// The global step whose parameters the gradient was computed with.
    pub(crate) step: u64,
    /// Examples in the batch.
    pub(crate) examples: usize,
    /// Their mean loss.
    pub(crate) loss: f32,
    /// When the gradient was ready.
    pub(crate) now: Instant,
}

/// What a worker did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkDone {
    /// Why it stopped, if it knows.
    pub reason: Option<StopReason>,
    /// Steps it took.
    pub steps: u64,
    /// Gradients that came too late.
    pub dropped: u64,
    /// Examples it trained on.
    pub examples: u64,
    /// What its batches touched, of a sparse model.
    pub touched: TouchedKeys,
    /// Gradients that a rewind undid, and that were computed again.
    pub lost: u64,
}

impl WorkDone {
    /// What two workers of one process did together.
    pub(crate) fn plus(self, other: &WorkDone) -> WorkDone {
        WorkDone {
            reason: self.reason,
            steps: self.steps + other.steps,
            dropped: self.dropped + other.dropped,
            examples: self.examples + other.examples,
            touched: TouchedKeys {
                keys: self.touched.keys + other.touched.keys,
                key_bytes: self.touched.key_bytes + other.touched.key_bytes,
                numbers: self.touched.numbers + other.touched.numbers,
            },
            lost: self.lost + other.lost,
        }
    }

    /// The same work, ended because the batch plan has.
    pub(crate) fn at_end_of_plan(self) -> WorkDone {
        WorkDone { reason: Some(StopReason::Epochs), ..self }
    }
}
