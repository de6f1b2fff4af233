//! A server on the timeline: a track for each of its connections.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use paceline_exchange::GradientStage;
use paceline_observe::trace::{GradientEvent, Op, SideTrack, TraceWindow, Tracer};
use paceline_observe::{ServerRecorder, TraceEvent};

use super::observer::ConnectionTracer;
use super::totals::ServerTotals;

/// Records the connections of a server for the timeline.
pub struct ServerTrace {
    tracer: Arc<Tracer>,
    /// Parameters on the server.
    params: usize,
    workers: Vec<String>,
}

impl ServerTrace {
    /// Records the steps of `window` on a server with `params` parameters.
    pub fn new(window: TraceWindow, params: usize, workers: Vec<String>) -> Self {
        Self { tracer: Tracer::new(window), params, workers }
    }

    /// Whether a worker was at a recorded step since the last call.
    pub fn was_on(&self) -> bool {
        self.tracer.was_on()
    }

    /// Records a new connection.
    pub fn connection(&self) -> ConnectionTrack {
        let op = |name: &&str| match *name {
            "idle" => Op::new(*name, &[]),
            name => Op::new(name, &[self.params]),
        };
        let ops = ServerTotals::PHASES.iter().map(op).collect();
        let track = self.tracer.side_track("connection", ops);
        ConnectionTrack { track, workers: self.workers.clone(), is_on: false, is_named: false }
    }

    /// Hands everything recorded to a recorder.
    pub fn finish(&self, recorder: &mut dyn ServerRecorder) -> io::Result<()> {
        self.tracer.with_tracks(None, |tracks| recorder.trace(TraceEvent::Complete(tracks)))
    }
}

/// Records one connection of a [`ServerTrace`].
pub struct ConnectionTrack {
    track: SideTrack,
    workers: Vec<String>,
    /// The connection's worker is at a recorded step.
    is_on: bool,
    is_named: bool,
}

impl ConnectionTracer for ConnectionTrack {
    fn phase_ended(&mut self, phase: usize, start: Instant, end: Instant) {
        if self.is_on {
            self.track.track().span(phase as u32, start, end);
        }
    }

    fn gradient_reached(&mut self, stage: GradientStage, slot: usize, step: u64) {
        let window = self.track.tracer().window();
        if stage == GradientStage::Arrived {
            let is_on = window.contains(step);
            if is_on != self.is_on {
                // Connections switch at their own steps; the last one to switch decides.
                self.track.tracer().turn(is_on);
            }
            self.is_on = is_on;
            if !std::mem::replace(&mut self.is_named, true) {
                self.track.track().name = format!("connection of {}", self.workers[slot]);
            }
            self.track.track().step = step;
        }
        if window.contains(step) {
            let event = match stage {
                GradientStage::Arrived => GradientEvent::Arrived,
                GradientStage::Applied => GradientEvent::Applied,
                GradientStage::Answered => GradientEvent::Answered,
            };
            self.track.track().mark(event, slot as u32, step);
        }
    }
}
