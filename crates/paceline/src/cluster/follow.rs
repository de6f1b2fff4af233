//! A server on the timeline: a track for each of its connections.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use paceline_exchange::GradientStage;
use paceline_net::{ConnectionTracer, ServerTotals};
use paceline_observe::Sample;
use paceline_observe::trace::{Happened, Op};

use crate::job::Plan;
use crate::trace::{Side, Tracer};

/// Records a server's connections.
pub(super) struct Follow {
    pub(super) tracer: Arc<Tracer>,
    /// How many parameters the server holds.
    params: usize,
    workers: Vec<String>,
    folder: PathBuf,
}

impl Follow {
    /// If the plan wants a timeline: for a server of so many parameters and these workers, whose
    /// folder this is.
    pub(super) fn new(
        plan: &Plan,
        params: usize,
        workers: Vec<String>,
        folder: &Path,
    ) -> Option<Self> {
        let tracer = Tracer::of(plan)?;
        Some(Self { tracer, params, workers, folder: folder.to_owned() })
    }

    /// Somebody who follows a new connection.
    pub(super) fn connection(&self) -> Connection {
        let op = |name: &&str| match *name {
            "idle" => Op::new(*name, &[]),
            name => Op::new(name, &[self.params]),
        };
        let side = self.tracer.side("connection", ServerTotals::PHASES.iter().map(op).collect());
        Connection { side, workers: self.workers.clone(), is_on: false, is_named: false }
    }

    /// Leaves what was recorded in the server's folder.
    pub(super) fn leave(&self, task: &str, samples: &[Sample]) -> io::Result<()> {
        let part = self.tracer.part(task, self.workers.clone(), None, samples);
        if part.is_empty() { Ok(()) } else { part.write(&self.folder) }
    }
}

/// Follows one connection.
pub(super) struct Connection {
    side: Side,
    workers: Vec<String>,
    /// The connection's worker is at one of the steps that are recorded.
    is_on: bool,
    is_named: bool,
}

impl ConnectionTracer for Connection {
    fn phase_ended(&mut self, phase: usize, begun: Instant, ended: Instant) {
        if self.is_on {
            self.side.track().span(phase as u32, begun, ended);
        }
    }

    fn gradient_reached(&mut self, trail: GradientStage, slot: usize, step: u64) {
        let window = self.side.tracer().window();
        if trail == GradientStage::Arrived {
            let is_on = window.contains(step);
            if is_on != self.is_on {
                // The last to say so is right: others go by their own steps.
                self.side.tracer().turn(is_on);
            }
            self.is_on = is_on;
            if !std::mem::replace(&mut self.is_named, true) {
                self.side.track().name = format!("connection of {}", self.workers[slot]);
            }
            self.side.track().step = step;
        }
        if window.contains(step) {
            let what = match trail {
                GradientStage::Arrived => Happened::Arrived,
                GradientStage::Applied => Happened::Applied,
                GradientStage::Answered => Happened::Answered,
            };
            self.side.track().mark(what, slot as u32, step);
        }
    }
}
