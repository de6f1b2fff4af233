//! Curves of where a worker's time goes: the share of each phase, and the time to a gradient.
//!
//! They get a point for each sample of the task's resources, over the time since the sample before,
//! so they cost nothing in the other steps. `worker_curves.rs` has the server's view.

use std::io;
use std::time::Duration;

use paceline_observe::{ComputeDelay, Phase, PhaseTotals, RunDelay, TouchedKeys};

use crate::events::{EventWriter, Tag};
use crate::names::tags;

/// The totals of a worker at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerProgress {
    /// Where its time went so far.
    pub(crate) phases: PhaseTotals,
    /// How long tests have kept it from its steps so far.
    pub(crate) tested: Duration,
    /// Steps it has made so far.
    pub(crate) steps: u64,
    /// What its batches touched so far.
    pub(crate) touched: TouchedKeys,
}

/// The time of a phase of a task without peers, as its summary has it: everything except input and
/// tests is computation.
fn alone(spent: &PhaseTotals, phase: Phase, tested: Duration) -> Duration {
    let input = spent.of(Phase::Input);
    let wait = tested.min(spent.of(Phase::Wait));
    match phase {
        Phase::Input => input,
        Phase::Compute => spent.elapsed().saturating_sub(input + wait),
        Phase::Wait => wait,
        Phase::Pull | Phase::Push => Duration::ZERO,
    }
}

/// Writes the curves of a worker's phases and of its time to a gradient.
#[derive(Debug)]
pub(crate) struct PhaseCurves {
    /// One for each phase.
    phases: [Tag; Phase::ALL.len()],
    evaluation: Tag,
    gradient: Tag,
    run_delay: Tag,
    compute_delayed: Tag,
    loop_cpu: Tag,
    /// Keys of a step, and the bytes of keys and of their parameters.
    touched: [Tag; 3],
    /// How long the thread has had no core since the last point.
    delay: Option<RunDelay>,
    /// The same for the threads that compute for it.
    compute_delay: Option<ComputeDelay>,
    before: Option<WorkerProgress>,
    /// Whether the task has no peers.
    is_alone: bool,
}

impl PhaseCurves {
    /// Curves in this event file. A task that `is_alone` has no peers.
    pub(crate) fn new(events: &mut EventWriter, is_alone: bool) -> Self {
        Self {
            is_alone,
            phases: Phase::ALL.map(|phase| events.tag(&tags::phase_percent(phase.name()))),
            evaluation: events.tag(tags::EVALUATION_PERCENT),
            gradient: events.tag(tags::GRADIENT_MS),
            run_delay: events.tag(tags::RUN_DELAY_PERCENT),
            compute_delayed: events.tag(tags::COMPUTE_DELAY_PERCENT),
            loop_cpu: events.tag(tags::LOOP_CPU_PERCENT),
            touched: [tags::KEYS_PER_STEP, tags::KEY_BYTES_PER_STEP, tags::VALUE_BYTES_PER_STEP]
                .map(|tag| events.tag(tag)),
            delay: None,
            compute_delay: None,
            before: None,
        }
    }

    /// Adds a point for the time since the last call, which the same thread made.
    pub(crate) fn write(
        &mut self,
        events: &mut EventWriter,
        step: u64,
        now: WorkerProgress,
    ) -> io::Result<()> {
        let delay = self.delay.replace(RunDelay::start());
        let delayed = delay.and_then(|delay| delay.elapsed());
        let on_core = delay.and_then(|delay| delay.on_core());
        let compute_delay = self.compute_delay.replace(ComputeDelay::start());
        let Some(before) = self.before.replace(now) else { return Ok(()) };
        let spent = now.phases.since(&before.phases);
        let seconds = spent.elapsed().as_secs_f64();
        if seconds <= 0.0 {
            return Ok(());
        }
        let percent = |time: Duration| (100.0 * time.as_secs_f64() / seconds) as f32;
        let tested = now.tested.saturating_sub(before.tested);
        for (tag, phase) in self.phases.iter().zip(Phase::ALL) {
            let time = if self.is_alone { alone(&spent, phase, tested) } else { spent.of(phase) };
            events.scalar(tag, step, percent(time))?;
        }
        if !now.tested.is_zero() {
            events.scalar(&self.evaluation, step, percent(tested))?;
        }
        if let Some(delayed) = delayed {
            let computed = spent.of(Phase::Compute);
            let compute_delayed =
                compute_delay.map_or(Duration::ZERO, |delay| delay.part_of(computed));
            let all = percent(delayed + compute_delayed).min(100.0);
            events.scalar(&self.run_delay, step, all)?;
            events.scalar(&self.compute_delayed, step, percent(compute_delayed).min(all))?;
        }
        if let Some(on_core) = on_core {
            events.scalar(&self.loop_cpu, step, percent(on_core).min(100.0))?;
        }
        let steps = now.steps.saturating_sub(before.steps);
        if steps > 0 {
            let busy = spent.of(Phase::Input) + spent.of(Phase::Compute);
            let gradient_ms = 1e3 * busy.as_secs_f64() / steps as f64;
            events.scalar(&self.gradient, step, gradient_ms as f32)?;
        }
        self.write_touched(events, step, before, now)
    }

    /// Adds a point for the keys of a step, if the model is sparse.
    fn write_touched(
        &self,
        events: &mut EventWriter,
        step: u64,
        before: WorkerProgress,
        now: WorkerProgress,
    ) -> io::Result<()> {
        let steps = now.steps.saturating_sub(before.steps);
        if now.touched.keys == 0 || steps == 0 {
            return Ok(());
        }
        // After a rewind the totals may be less than before.
        let mean = |now: u64, before: u64| now.saturating_sub(before) as f32 / steps as f32;
        let keys = mean(now.touched.keys, before.touched.keys);
        let key_bytes = mean(now.touched.key_bytes, before.touched.key_bytes);
        let value_bytes = mean(now.touched.value_bytes(), before.touched.value_bytes());
        for (tag, value) in self.touched.iter().zip([keys, key_bytes, value_bytes]) {
            events.scalar(tag, step, value)?;
        }
        Ok(())
    }
}
