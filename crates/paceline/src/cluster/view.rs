//! What a server sees of the workers, drawn for whoever watches the run: how stale their gradients
//! are and, from the first server, how long each takes for one and is held up by others.

use std::io;
use std::time::Instant;

use paceline_exchange::{SlotStats, Stats};
use paceline_observe::{EventWriter, Tag};

/// Draws curves of the workers, a point for each time between two calls.
#[derive(Default)]
pub(super) struct View {
    before: Option<Before>,
}

/// What there was when a point was last drawn.
struct Before {
    at: Instant,
    applied: u64,
    staleness_sum: f64,
    slots: Vec<SlotStats>,
    staleness: Tag,
    /// Time to a gradient, and time held, of each worker.
    workers: Vec<[Tag; 2]>,
}

impl View {
    /// Draws what has become of the gradients since the last call. Only workers whose names are
    /// given are told apart.
    pub(super) fn draw(
        &mut self,
        events: &mut EventWriter,
        step: u64,
        workers: &[String],
        stats: &Stats,
    ) -> io::Result<()> {
        let applied = stats.applied_total();
        let staleness_sum = stats.staleness_mean() * applied as f64;
        let Some(before) = &mut self.before else {
            let folders = workers.iter().map(|worker| worker.replace(':', "_"));
            let tags = folders.map(|folder| {
                ["gradient_ms", "held_percent"]
                    .map(|what| events.tag(&format!("pace/{folder}/{what}")))
            });
            let workers = tags.collect();
            let staleness = events.tag("pace/staleness");
            let (at, slots) = (Instant::now(), stats.slots.clone());
            self.before = Some(Before { at, applied, staleness_sum, slots, staleness, workers });
            return Ok(());
        };
        let seconds = before.at.elapsed().as_secs_f64().max(1e-3);
        if applied > before.applied {
            let mean = (staleness_sum - before.staleness_sum) / (applied - before.applied) as f64;
            events.scalar(&before.staleness, step, mean as f32)?;
        }
        let slots = before.slots.iter().zip(&stats.slots).zip(&before.workers);
        for ((old, new), [gradient, held]) in slots {
            let timed = new.timed.saturating_sub(old.timed);
            if timed > 0 {
                let ms = new.gradient_ms.saturating_sub(old.gradient_ms) as f64 / timed as f64;
                events.scalar(gradient, step, ms as f32)?;
            }
            let held_ms = new.held_ms.saturating_sub(old.held_ms) as f64;
            events.scalar(held, step, (held_ms / seconds / 10.0).min(100.0) as f32)?;
        }
        (before.at, before.applied) = (Instant::now(), applied);
        before.staleness_sum = staleness_sum;
        before.slots.clone_from(&stats.slots);
        Ok(())
    }
}
