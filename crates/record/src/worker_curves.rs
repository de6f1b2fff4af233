//! Curves of the workers as a server sees them: how stale their gradients are and, on server 0, how
//! long each takes to a gradient and waits for others.

use std::io;
use std::time::Instant;

use paceline_observe::phases::IDLE;
use paceline_observe::{GradientTotals, WorkerTotals};

use crate::events::{EventWriter, Tag};
use crate::names::{tags, task_folder};

/// Writes the curves of a server's workers, a point for the time between two calls.
#[derive(Debug, Default)]
pub(crate) struct WorkerCurves {
    last: Option<LastPoint>,
}

/// The totals at the last point, and the tags.
#[derive(Debug)]
struct LastPoint {
    at: Instant,
    totals: GradientTotals,
    staleness: Tag,
    busy: Tag,
    run_delay: Tag,
    workers: Vec<WorkerTags>,
}

#[derive(Debug)]
struct WorkerTags {
    gradient: Tag,
    held: Tag,
}

impl LastPoint {
    fn new(events: &mut EventWriter, totals: GradientTotals) -> Self {
        let workers = totals.workers.iter().map(|worker| {
            let folder = task_folder(&worker.task);
            let mut tag = |figure| events.tag(&tags::worker(&folder, figure));
            WorkerTags {
                gradient: tag(tags::WORKER_GRADIENT_MS),
                held: tag(tags::WORKER_HELD_PERCENT),
            }
        });
        let workers = workers.collect();
        let staleness = events.tag(tags::STALENESS);
        let busy = events.tag(tags::SERVER_BUSY_PERCENT);
        let run_delay = events.tag(tags::RUN_DELAY_PERCENT);
        Self { at: Instant::now(), totals, staleness, busy, run_delay, workers }
    }
}

impl LastPoint {
    /// Where the time of the threads went since this point.
    fn write_time(
        &self,
        events: &mut EventWriter,
        step: u64,
        totals: &GradientTotals,
    ) -> io::Result<()> {
        let seconds = |totals: &GradientTotals, is_idle: bool| {
            let phases = totals.phase_seconds.iter().filter(|(name, _)| !is_idle || *name == IDLE);
            phases.map(|(_, seconds)| seconds).sum::<f64>()
        };
        let since = |is_idle| seconds(totals, is_idle) - seconds(&self.totals, is_idle);
        let (all, idle) = (since(false), since(true));
        if all <= 0.0 {
            return Ok(());
        }
        let percent = |seconds: f64| (100.0 * seconds / all).clamp(0.0, 100.0) as f32;
        events.scalar(&self.busy, step, percent(all - idle))?;
        match (totals.run_delay_seconds, self.totals.run_delay_seconds) {
            (Some(now), Some(before)) => {
                events.scalar(&self.run_delay, step, percent(now - before))
            }
            _ => Ok(()),
        }
    }
}

impl WorkerCurves {
    /// Adds a point for the time since the last call. The first call only takes the totals.
    pub(crate) fn write(
        &mut self,
        events: &mut EventWriter,
        step: u64,
        totals: GradientTotals,
    ) -> io::Result<()> {
        let Some(last) = &mut self.last else {
            self.last = Some(LastPoint::new(events, totals));
            return Ok(());
        };
        let seconds = last.at.elapsed().as_secs_f64().max(1e-3);
        if totals.applied > last.totals.applied {
            let applied = (totals.applied - last.totals.applied) as f64;
            let mean = (totals.staleness_sum - last.totals.staleness_sum) / applied;
            events.scalar(&last.staleness, step, mean as f32)?;
        }
        last.write_time(events, step, &totals)?;
        let workers = last.totals.workers.iter().zip(&totals.workers).zip(&last.workers);
        for ((old, new), tags) in workers {
            write_worker(events, step, tags, &Interval { old, new, seconds })?;
        }
        (last.at, last.totals) = (Instant::now(), totals);
        Ok(())
    }
}

/// What a worker did between two points.
struct Interval<'a> {
    old: &'a WorkerTotals,
    new: &'a WorkerTotals,
    seconds: f64,
}

fn write_worker(
    events: &mut EventWriter,
    step: u64,
    tags: &WorkerTags,
    Interval { old, new, seconds }: &Interval<'_>,
) -> io::Result<()> {
    let timed = new.timed.saturating_sub(old.timed);
    if timed > 0 {
        let ms = new.gradient_ms.saturating_sub(old.gradient_ms) as f64 / timed as f64;
        events.scalar(&tags.gradient, step, ms as f32)?;
    }
    let held_ms = new.held_ms.saturating_sub(old.held_ms) as f64;
    events.scalar(&tags.held, step, (held_ms / seconds / 10.0).min(100.0) as f32)
}
