//! What a worker's time went to of late, for whoever watches: curves of its phases and its pace.
//!
//! A point for each sample of its resources, of the time since the one before: a step costs
//! nothing more. (The first server tells the same of itself and of the workers, in `cluster/server.rs`.)

use std::io;
use std::time::Duration;

use paceline_observe::{EventWriter, Phase, PhaseTotals, Tag};

/// How far a worker has come.
#[derive(Clone, Copy, Debug)]
pub struct SoFar {
    /// Where its time has gone so far.
    pub phases: PhaseTotals,
    /// How long tests have kept it from its steps so far.
    pub tested: Duration,
    /// Steps it has made so far.
    pub steps: u64,
}

/// Draws a worker's phases and pace.
pub struct Pulse {
    /// One for each phase.
    phases: [Tag; 5],
    evaluation: Tag,
    gradient: Tag,
    before: Option<SoFar>,
}

impl Pulse {
    /// For this event file.
    pub fn new(events: &mut EventWriter) -> Self {
        Self {
            phases: Phase::ALL.map(|phase| events.tag(&format!("phases/{}_percent", phase.name()))),
            evaluation: events.tag("phases/evaluation_percent"),
            gradient: events.tag("pace/gradient_ms"),
            before: None,
        }
    }

    /// Draws what has passed since the last call.
    pub fn write(&mut self, events: &mut EventWriter, step: u64, now: SoFar) -> io::Result<()> {
        let Some(before) = self.before.replace(now) else { return Ok(()) };
        let spent = now.phases.since(&before.phases);
        let seconds = spent.elapsed().as_secs_f64();
        if seconds <= 0.0 {
            return Ok(());
        }
        let percent = |time: Duration| (100.0 * time.as_secs_f64() / seconds) as f32;
        for (tag, phase) in self.phases.iter().zip(Phase::ALL) {
            events.scalar(tag, step, percent(spent.of(phase)))?;
        }
        let tested = now.tested.saturating_sub(before.tested);
        if !now.tested.is_zero() {
            events.scalar(&self.evaluation, step, percent(tested))?;
        }
        let steps = now.steps.saturating_sub(before.steps);
        if steps > 0 {
            let busy = spent.of(Phase::Input) + spent.of(Phase::Compute);
            let gradient_ms = 1e3 * busy.as_secs_f64() / steps as f64;
            events.scalar(&self.gradient, step, gradient_ms as f32)?;
        }
        Ok(())
    }
}
