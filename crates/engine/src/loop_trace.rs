//! The timeline of a training loop: its phases, and the model's layers inside them.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use paceline_data::ReadObserver;
use paceline_model::{LayerShape, Model, Score, StepEvent};
use paceline_observe::trace::{APPLY, Op, SideTrack, Tracer, Track};
use paceline_observe::{Phase, PhaseClock, Recorder, TraceEvent};

use crate::error::{TrainError, record_failure};
use crate::evaluator::Evaluator;
use crate::test_watch::TestWatch;

/// The operations of a training loop. The phases come first, as the clock numbers them.
const PHASES: u32 = Phase::ALL.len() as u32;
/// Applying a gradient, where a worker does that itself.
pub(crate) const APPLY_OP: u32 = PHASES;
const TAKE_IN: u32 = PHASES + 1;
const LOSS: u32 = PHASES + 2;
/// Each layer's forward and backward pass.
const LAYERS: u32 = PHASES + 3;

/// Records a training loop.
#[derive(Debug)]
pub(crate) struct LoopTrace {
    tracer: Arc<Tracer>,
    /// Set while no step is recorded; during recorded steps the clock holds it.
    track: Option<Box<Track>>,
}

impl LoopTrace {
    /// Records the loop of a worker that trains `model` on batches of `batch` examples.
    pub(crate) fn new(tracer: Arc<Tracer>, batch: usize, model: &dyn Model) -> Self {
        let params = model.layout().len();
        let ops = worker_ops(batch, model.inputs(), params, &model.layer_shapes());
        Self { tracer, track: Some(Box::new(Track::new("steps", ops))) }
    }

    /// The loop comes to `step`: starts or ends recording where the window does.
    #[cold]
    pub(crate) fn begin_step(
        &mut self,
        step: u64,
        clock: &mut PhaseClock,
        recorder: &mut dyn Recorder,
    ) -> Result<(), TrainError> {
        let is_inside = self.tracer.window().contains(step);
        let event = match (clock.track(), is_inside) {
            (Some(track), true) => {
                track.step = step;
                return Ok(());
            }
            (Some(_), false) => {
                self.end(clock);
                TraceEvent::Stopped
            }
            (None, true) => {
                let Some(mut track) = self.track.take() else { return Ok(()) };
                track.step = step;
                self.tracer.turn(true);
                clock.follow(track);
                TraceEvent::Started
            }
            (None, false) => return Ok(()),
        };
        recorder.trace(event).map_err(record_failure)
    }

    fn end(&mut self, clock: &mut PhaseClock) {
        if clock.track().is_some() {
            self.track = clock.unfollow();
            self.tracer.turn(false);
        }
    }

    /// Hands everything recorded to the recorder; whether there was anything.
    pub(crate) fn finish(
        &mut self,
        clock: &mut PhaseClock,
        recorder: &mut dyn Recorder,
    ) -> io::Result<bool> {
        self.end(clock);
        self.tracer.with_tracks(self.track.as_deref(), |tracks| {
            let is_empty = tracks.iter().all(|track| track.is_empty());
            if is_empty {
                return Ok(false);
            }
            recorder.trace(TraceEvent::Complete(tracks)).map(|()| true)
        })
    }
}

/// The operations of a training loop, with the sizes they work on.
fn worker_ops(batch: usize, inputs: usize, params: usize, layers: &[LayerShape]) -> Vec<Op> {
    let phase = |phase: Phase| match phase {
        Phase::Input => Op::new(phase.name(), &[batch, inputs]),
        Phase::Pull | Phase::Push => Op::new(phase.name(), &[params]),
        Phase::Compute | Phase::Wait => Op::new(phase.name(), &[]),
    };
    let others = [Op::new(APPLY, &[params]), Op::new("take in", &[inputs]), Op::new("loss", &[1])];
    let layer = |layer: &LayerShape| {
        let back = format!("{} back", layer.name);
        [Op::new(&*layer.name, &layer.output), Op::new(back, &layer.output)]
    };
    let phases = Phase::ALL.into_iter().map(phase);
    phases.chain(others).chain(layers.iter().flat_map(layer)).collect()
}

/// Records what a model has just done.
pub(crate) fn record_event(track: &mut Track, event: &StepEvent<'_>) {
    let op = match event {
        StepEvent::Input => TAKE_IN,
        StepEvent::Forward { layer } => LAYERS + 2 * *layer as u32,
        StepEvent::Loss => LOSS,
        StepEvent::Backward { layer } => LAYERS + 2 * *layer as u32 + 1,
        StepEvent::Final { .. } => return,
    };
    track.next_of_row(op);
}

/// Records the reads of batches ahead of their step, if the task is recorded.
pub(crate) fn read_observer(tracer: Option<&Arc<Tracer>>, batch: usize) -> Option<ReadObserver> {
    let track = tracer?.side_track("reader", vec![Op::new("read", &[batch])]);
    Some(Arc::new(move |step, start, end| track.record(step, start, end)))
}

/// An evaluator whose tests are on the timeline.
struct TracedEvaluator<'a> {
    evaluator: Box<dyn Evaluator + 'a>,
    track: SideTrack,
}

/// The evaluator, with its tests on the timeline if the task is recorded.
pub(crate) fn traced<'a>(
    tracer: Option<&Arc<Tracer>>,
    evaluator: Box<dyn Evaluator + 'a>,
) -> Box<dyn Evaluator + 'a> {
    let Some(tracer) = tracer else { return evaluator };
    let track = tracer.side_track("tests", vec![Op::new("test", &[])]);
    Box::new(TracedEvaluator { evaluator, track })
}

impl Evaluator for TracedEvaluator<'_> {
    fn keys(&self) -> Option<Arc<[u32]>> {
        self.evaluator.keys()
    }

    fn test(&mut self, params: &[f32], watch: &TestWatch) -> Result<Score, TrainError> {
        let start = Instant::now();
        let score = self.evaluator.test(params, watch);
        self.track.record(0, start, Instant::now());
        score
    }
}
