//! A server on the timeline: a track for each of its connections.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use paceline_exchange::Trail;
use paceline_net::{Follower, Served};
use paceline_observe::trace::{GradientEvent, Op};
use paceline_observe::{ServerRecorder, TraceEvent};

use crate::job::Plan;
use crate::trace::{SideTrack, Tracer};

/// Records a server's connections.
pub(super) struct Follow {
    pub(super) tracer: Arc<Tracer>,
    /// How many parameters the server holds.
    params: usize,
    workers: Vec<String>,
}

impl Follow {
    /// If the plan wants a timeline: for a server of so many parameters and these workers.
    pub(super) fn new(plan: &Plan, params: usize, workers: Vec<String>) -> Option<Self> {
        let tracer = plan.observe_trace.map(Tracer::new)?;
        Some(Self { tracer, params, workers })
    }

    /// Somebody who follows a new connection.
    pub(super) fn connection(&self) -> Connection {
        let op = |name: &&str| match *name {
            "idle" => Op::new(*name, &[]),
            name => Op::new(name, &[self.params]),
        };
        let side = self.tracer.side_track("connection", Served::PHASES.iter().map(op).collect());
        Connection { side, workers: self.workers.clone(), is_on: false, is_named: false }
    }

    /// Hands what was recorded to a recorder.
    pub(super) fn leave(&self, recorder: &mut impl ServerRecorder) -> io::Result<()> {
        self.tracer.with_tracks(None, |tracks| recorder.trace(TraceEvent::Complete(tracks)))
    }
}

/// Follows one connection.
pub(super) struct Connection {
    side: SideTrack,
    workers: Vec<String>,
    /// The connection's worker is at one of the steps that are recorded.
    is_on: bool,
    is_named: bool,
}

impl Follower for Connection {
    fn phase(&mut self, phase: usize, begun: Instant, ended: Instant) {
        if self.is_on {
            self.side.track().span(phase as u32, begun, ended);
        }
    }

    fn trail(&mut self, trail: Trail, slot: usize, step: u64) {
        let window = self.side.tracer().window();
        if trail == Trail::Arrived {
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
                Trail::Arrived => GradientEvent::Arrived,
                Trail::Applied => GradientEvent::Applied,
                Trail::Answered => GradientEvent::Answered,
            };
            self.side.track().mark(what, slot as u32, step);
        }
    }
}
